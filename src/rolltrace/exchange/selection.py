"""Which trajectories to export, and a way to read them one after the other without holding them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from rolltrace._guard import logger
from rolltrace.query import (
    MAX_ITEMS,
    NO_OLDER_RUNS,
    OlderRuns,
    Pace,
    Row,
    Store,
    Trajectory,
    compile_where,
    read_whole,
)

T = TypeVar("T")
_BATCH = 2_000
"""How many trajectories are read at once, without their payloads: enough to make few queries, few enough to hold."""


class Exported(NamedTuple):
    """What an export did."""

    written: int
    """Records, pairs or trajectories, whatever the format is made of."""
    skipped: Mapping[str, int] = MappingProxyType({})
    """Reason -> how many were left out."""


class Full(NamedTuple):
    """A trajectory, and the rows of its ops by their id, without what is large: they hold more than `Op` shows."""

    trajectory: Trajectory
    spans: dict[int, Row]


class Selection:
    """Some trajectories of a store: their rows of `trajectories`, and on demand what is inside them."""

    def __init__(
        self,
        store: Store,
        rows: list[Row],
        progress: Callable[[int, int], None],
        older_runs: OlderRuns = NO_OLDER_RUNS,
        *,
        named: bool = False,
    ) -> None:
        self.store = store
        self.rows = rows
        self.named = named
        """Each was asked for by its id."""
        self.older_runs = older_runs
        """What meets the conditions, but belongs to a run that a newer one took the place of."""
        self._progress = progress
        self.left_out: Counter[str] = Counter()
        """Reason -> how many trajectories meet the conditions, but are not exported."""

    def read(self, rows: Sequence[Row] | None = None) -> Iterator[Full]:
        """The trajectories of these rows, of all if not given, in their order."""
        chosen = list(self.rows if rows is None else rows)
        done, paces = 0, (Pace(), Pace())
        for batch in batches(chosen, _BATCH):
            scope = self.store.scope_of(batch)
            for trajectory, spans in read_whole(self.store, batch, scope, paces=paces, on_fault=self.leave_out):
                yield Full(trajectory, {span["op_id"]: span for span in spans})
                done += 1
                self._progress(done, len(chosen))

    def each(self, convert: Callable[[Full], T]) -> Iterator[T]:
        """What a format makes of each trajectory, without those that it cannot make anything of."""
        for full in self.read():
            try:
                converted = convert(full)
            except Exception as error:
                self.leave_out(full.trajectory.trajectory_id, error)
                continue
            yield converted

    def leave_out(self, trajectory_id: str, error: Exception) -> None:
        """One trajectory cannot be exported: said at once, and counted."""
        logger.warning("%s cannot be exported: %s: %s", trajectory_id, type(error).__name__, error)
        self.left_out[f"cannot be exported ({type(error).__name__})"] += 1


def select(
    store: Store,
    *,
    trajectory_ids: Sequence[str] = (),
    for_training: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    **conditions: Any,
) -> Selection:
    """The trajectories that meet all conditions, groups together; those named, in the order they are named.

    Args:
        store: The store.
        trajectory_ids: Only these; a prefix of an id is enough.
        for_training: Leave out validation rollouts, and those whose status is not ok; not where the conditions ask
            about validation or status, nor those named by id.
        progress: Called with how many trajectories were read, and how many there are.
        **conditions: Those of `Store.trajectories`.

    Raises:
        FilterError: the filter cannot be understood.
        QueryError: an id that no trajectory has, or several begin with.
    """
    if trajectory_ids and conditions.get("run") is None:
        conditions["all_runs"] = True  # whoever names one means it, whatever its run
    wanted = dict.fromkeys(store.full_id(each) for each in trajectory_ids)
    if 0 < len(wanted) <= MAX_ITEMS:
        named = f"trajectory_id in ({', '.join(repr(each) for each in wanted)})"
        where = conditions.get("where")
        conditions["where"] = named if where is None else f"({where}) and {named}"
    listing = store.trajectories(**conditions)
    rows = listing.rows()
    if trajectory_ids:
        by_id = {row["trajectory_id"]: row for row in rows}
        rows = [by_id[each] for each in wanted if each in by_id]
    selection = Selection(store, rows, progress, listing.older_runs, named=bool(trajectory_ids))
    if for_training and not trajectory_ids:
        _leave_out_untrainable(selection, conditions)
    return selection


def _leave_out_untrainable(selection: Selection, conditions: Mapping[str, Any]) -> None:
    asked = compile_where(conditions.get("where")).fields
    any_split = conditions.get("validate") is not None or "validate" in asked
    any_status = "status" in asked
    kept = []
    for row in selection.rows:
        if row["validate"] and not any_split:
            selection.left_out["validation (only these: --validate; too: --all)"] += 1
        elif row["status"] != "ok" and not any_status:
            selection.left_out[f"status {row['status']} (too: --all)"] += 1
        else:
            kept.append(row)
    selection.rows = kept


def batches(rows: list[Row], size: int) -> Iterator[list[Row]]:
    """The rows, some at a time."""
    for at in range(0, len(rows), size):
        yield rows[at : at + size]
