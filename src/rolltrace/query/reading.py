"""Whole trajectories, read some at a time: everything that a store has of them, with as many questions as for one.

The rows of all that are asked for are in memory at once, so the caller says how many these are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rolltrace.query.result import IS_INT
from rolltrace.query.trajectory import Row, Trajectory, build
from rolltrace.query.views import TRAJECTORY_COLUMNS
from rolltrace.record.tables import WHERE

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

_EVENTS = ("transitions", "scores", "notes", "flags")
_OWN = "trajectory_id, traceback, parent_trajectory_id, parent_op_id"
_WITHOUT_PLACE = f"* EXCLUDE ({', '.join(column.name for column in WHERE)})"


class Whole(NamedTuple):
    """A trajectory, and the rows of its ops that it was made from: they hold more than `Op` shows."""

    trajectory: Trajectory
    spans: list[Row]


def summaries(store: Store, trajectory_ids: Sequence[str], step: int | None) -> list[Row]:
    """The rows of the listing of these trajectories, all of one step, in their order; without those that are gone."""
    columns = ", ".join((*TRAJECTORY_COLUMNS, IS_INT))
    by_id: dict[str, Row] = {}
    for row in _rows(store, "_listing", columns, trajectory_ids, step, "start_ns"):
        by_id.setdefault(row["trajectory_id"], row)
    return [by_id[each] for each in trajectory_ids if each in by_id]


def read_whole(
    store: Store,
    listed: Sequence[Row],
    step: int | None,
    *,
    split_payload: bool = False,
    on_fault: Callable[[str, Exception], None] | None = None,
) -> Iterator[Whole]:
    """The trajectories of these rows of the listing, all of one step, in their order.

    Args:
        store: The store.
        listed: Their rows, as from `summaries` or `Store.trajectories`.
        step: Their step.
        split_payload: The rows of ops also have `inputs` and `outputs`, the two halves of `payload` as JSON text.
            They are left out otherwise: DuckDB would parse and copy every payload once more.
        on_fault: Told of a trajectory that cannot be built, and why; it is left out then. If not given, that is raised.
    """
    ids = [row["trajectory_id"] for row in listed]

    def of_each(table: str, columns: str, order: str) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {each: [] for each in ids}
        for row in _rows(store, table, columns, ids, step, order):
            found[row.pop("trajectory_id")].append(row)
        return found

    own = of_each("_trajectories", _OWN, "end_ns DESC NULLS LAST")
    spans = of_each("spans", "*" if split_payload else "* EXCLUDE (inputs, outputs)", "start_ns, op_id")
    events = [of_each(table, f"trajectory_id, {_WITHOUT_PLACE}", "time_ns, worker") for table in _EVENTS]
    for row, each in zip(listed, ids):
        inside = (found[each] for found in events)
        try:
            whole = Whole(build(row, own[each][0] if own[each] else None, spans[each], *inside), spans[each])
        except Exception as fault:
            if on_fault is None:
                raise
            on_fault(each, fault)
            continue
        yield whole


def _rows(
    store: Store, table: str, columns: str, trajectory_ids: Sequence[str], step: int | None, order: str
) -> list[Row]:
    if not trajectory_ids:
        return []
    marks = ", ".join("?" * len(trajectory_ids))
    sql = f"SELECT {columns} FROM {table} WHERE trajectory_id IN ({marks}) ORDER BY {order}"
    return store._ask(sql, trajectory_ids, step).rows()
