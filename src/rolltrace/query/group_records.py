"""What was recorded for whole groups (`rollout_trace_group`), read as trajectories are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rolltrace.query.columns import TRAJECTORY_COLUMNS
from rolltrace.query.reading import read_whole
from rolltrace.query.scope import Row
from rolltrace.query.trajectory import Trajectory

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

_NOTHING: Row = {
    **dict.fromkeys(TRAJECTORY_COLUMNS), "turns": 0, "tool_calls": 0, "tool_errors": 0, "flags": [], "superseded": False
}  # fmt: skip
"""What a record of a group has none of."""


def records_where(store: Store, conditions: str, values: Sequence[Any], step: int | None) -> list[Trajectory]:
    """The records that meet some conditions, the oldest first."""
    sql = f"SELECT * FROM _group_records t WHERE {conditions} ORDER BY start_ns, trajectory_id"
    rows: list[Row] = [{**_NOTHING, **row} for row in store._ask(sql, values, step)]
    return [each.trajectory for each in read_whole(store, rows, step)]
