"""Which trajectories to export, and a way to read them one after the other without holding them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple

from rolltrace.query import Store, Trajectory
from rolltrace.query.trajectory import build
from rolltrace.record.tables import WHERE

Row = dict[str, Any]
_BATCH = 32
"""How many trajectories are read at once: enough to make few queries, few enough to hold in memory."""
_WITHOUT_PLACE = f"* EXCLUDE ({', '.join(column.name for column in WHERE)})"


class Exported(NamedTuple):
    """What an export did."""

    written: int
    """Records, pairs or trajectories, whatever the format is made of."""
    skipped: Mapping[str, int] = MappingProxyType({})
    """Reason -> how many were left out."""


class Full(NamedTuple):
    """A trajectory, and the rows of its ops by their id: they hold more than `Op` shows."""

    trajectory: Trajectory
    spans: dict[int, Row]


class Selection:
    """Some trajectories of a store: their rows of `trajectories`, and on demand what is inside them."""

    def __init__(self, store: Store, rows: list[Row], progress: Callable[[int, int], None]) -> None:
        self.store = store
        self.rows = rows
        self._progress = progress

    def read(self, rows: Sequence[Row] | None = None) -> Iterator[Full]:
        """The trajectories of these rows, of all if not given, in their order."""
        chosen = self.rows if rows is None else rows
        done = 0
        for step, of_step in groupby(chosen, key=lambda row: row["step"]):
            for batch in batches(list(of_step), _BATCH):
                for full in self._read_batch(step, batch):
                    yield full
                    done += 1
                    self._progress(done, len(chosen))

    def table(self, name: str, step: int | None, ids: Sequence[str], columns: str = "*", order: str = "1") -> Any:
        """The rows of a table that belong to these trajectories, all of one step."""
        marks = ", ".join("?" * len(ids))
        question = f"SELECT {columns} FROM {name} WHERE trajectory_id IN ({marks}) ORDER BY {order}"
        return self.store.sql(question, ids, step=step)

    def _read_batch(self, step: int | None, batch: list[Row]) -> Iterator[Full]:
        ids = [row["trajectory_id"] for row in batch]

        def by_trajectory(name: str, order: str, columns: str = "*") -> dict[str, list[Row]]:
            found: dict[str, list[Row]] = {each: [] for each in ids}
            for row in self.table(name, step, ids, columns, order).rows():
                found[row["trajectory_id"]].append(row)
            return found

        own = by_trajectory("_trajectories", "end_ns DESC NULLS LAST")
        spans = by_trajectory("spans", "start_ns, op_id")
        events = [
            by_trajectory(name, "time_ns, worker", f"trajectory_id, {_WITHOUT_PLACE}")
            for name in ("transitions", "scores", "notes", "flags")
        ]
        for summary, each in zip(batch, ids):
            inside = [[_without_id(row) for row in rows[each]] for rows in events]
            trajectory = build(summary, own[each][0] if own[each] else None, spans[each], *inside)
            yield Full(trajectory, {span["op_id"]: span for span in spans[each]})


def _without_id(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "trajectory_id"}


def select(
    store: Store,
    *,
    trajectory_ids: Sequence[str] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
    **conditions: Any,
) -> Selection:
    """The trajectories that meet all conditions, groups together; those named, in the order they are named.

    Args:
        store: The store.
        trajectory_ids: Only these; the first letters of an id are enough.
        progress: Called with how many trajectories were read, and how many there are.
        **conditions: Those of `Store.trajectories`.

    Raises:
        FilterError: the filter cannot be understood.
        QueryError: an id that no trajectory has, or several begin with.
    """
    rows = store.trajectories(**conditions).rows()
    if trajectory_ids:
        wanted = dict.fromkeys(store.trajectory(each).trajectory_id for each in trajectory_ids)
        by_id = {row["trajectory_id"]: row for row in rows}
        rows = [by_id[each] for each in wanted if each in by_id]
    return Selection(store, rows, progress)


def batches(rows: list[Row], size: int) -> Iterator[list[Row]]:
    """The rows, some at a time."""
    for at in range(0, len(rows), size):
        yield rows[at : at + size]
