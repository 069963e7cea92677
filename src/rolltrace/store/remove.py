"""Delete trajectories: all their rows, in every table.

A step of which no trajectory is left loses its parts altogether, so that the same files can be imported again. Parts of
other steps are replaced one by one, as in pruning. The rows of `trajectories` go last: after a kill in between, what is
left of a trajectory is still listed, and can be deleted again. Which scores were given to it by coordinates, the caller
knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import NamedTuple

from rolltrace._arrow import pa, pc, pq
from rolltrace.errors import StoreError
from rolltrace.record import LOSSES, SCORES, SPANS, TABLES, TRAJECTORIES
from rolltrace.store.layout import Partition, parts_in, source_of, table_of
from rolltrace.store.merge import Superseded, replace_parts
from rolltrace.store.parts import row_count, undrained_sources, visible_parts

_TRIES = 20
_TABLES = {table.name: table for table in TABLES if table is not LOSSES}
SCORE_KEY = ("step", "sample_index", "rollout_n", "validate", "name", "time_ns", "worker")
"""What tells one score that was given by coordinates from the others of an experiment."""


class Removed(NamedTuple):
    """What was deleted, or would be."""

    trajectories: int
    bytes: int
    """How much smaller the store is once the old parts are removed (`merge.GRACE_SEC`); about, if it would be."""


def removable(store: Path, chosen: Mapping[Partition, set[str]]) -> Removed:
    """What `remove` would delete. Changes nothing."""
    ids, size = _ids(chosen), 0.0
    for partition in _places(chosen):
        for part in _parts(store, partition):
            names = pq.read_table(part, columns=["trajectory_id"], partitioning=None)["trajectory_id"]
            share = (pc.sum(pc.is_in(names, value_set=ids)).as_py() or 0) / max(1, len(names))
            size += share * part.stat().st_size
    return Removed(len(ids), round(size))


def remove(
    store: Path,
    chosen: Mapping[Partition, set[str]],
    *,
    scores: Set[tuple[object, ...]] = frozenset(),
    leave_empty: bool = False,
    epoch: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Removed:
    """Delete these trajectories. The caller removes the parts that were replaced later.

    Args:
        store: The store.
        chosen: The ids of the trajectories of each step; none of them is in a journal.
        scores: The `SCORE_KEY` of each score that was given to them by coordinates.
        leave_empty: Leave a part without rows in the place of each that goes: a lake learns of it by that.
        epoch: Of the lease under which this is done.
        progress: Told how many steps are done, of how many.

    Raises:
        StoreError: another host merges the same parts all the time.
    """
    places, ids, size = _places(chosen), _ids(chosen), 0
    for done, partition in enumerate(places):
        progress(done, len(places))
        for _ in range(_TRIES):
            try:
                size += _remove_from(store, partition, ids, scores, epoch)
                break
            except (Superseded, FileNotFoundError):
                continue
        else:
            raise StoreError(f"another host merges the store {str(store)!r} all the time; try again later")
        if not leave_empty:
            size += _clear(store, partition)
    progress(len(places), len(places))
    return Removed(len(ids), size)


def _remove_from(store: Path, partition: Partition, ids: pa.Array, scores: Set[tuple[object, ...]], epoch: int) -> int:
    """Take the rows out of the parts of a step; how many bytes smaller it is."""
    size = 0
    for part in sorted(_parts(store, partition), key=lambda each: table_of(each) == TRAJECTORIES.name):
        rows = pq.read_table(part, partitioning=None)
        goes = pc.is_in(rows["trajectory_id"], value_set=ids)
        if table_of(part) == SCORES.name:
            goes = pc.or_(goes, _are_given_by_coordinates(rows, scores))
        if pc.any(goes).as_py():
            before, kind = part.stat().st_size, _TABLES[table_of(part)]
            fresh = replace_parts(store, partition, kind, [part], rows.filter(pc.invert(goes)), epoch=epoch)
            size += before - fresh.stat().st_size
    return size


def _clear(store: Path, partition: Partition) -> int:
    """Remove all parts of a step that has no trajectory any more; how many bytes they had.

    Scores that were given by id alone lie in `step=none`, whatever the step of their trajectory: these go last.
    """
    folder = partition.folder(store)
    steps = [folder] if partition.step is not None else sorted(folder.parent.glob("step=*"))
    holds = (TRAJECTORIES.name, SPANS.name)
    there = [part for step in steps for part in visible_parts(step)]
    if any(table_of(part) in holds and row_count(part) != 0 for part in there) or _waiting(store, there):
        return 0
    size = sum(part.stat().st_size for part in visible_parts(folder))
    shown = set(visible_parts(folder))
    for part in sorted(parts_in(folder), key=shown.__contains__):  # what stands for others after these
        part.unlink(missing_ok=True)
    return size


def _places(chosen: Mapping[Partition, set[str]]) -> list[Partition]:
    """Where rows of these trajectories may lie: in their steps, and scores that were given by id alone in none."""
    nowhere = (partition._replace(step=None) for partition in chosen)
    steps = [partition for partition in chosen if partition.step is not None]
    return list(dict.fromkeys([*steps, *nowhere]))


def _ids(chosen: Mapping[Partition, set[str]]) -> pa.Array:
    return pa.array(sorted(set().union(*chosen.values())), type=pa.string())


def _parts(store: Path, partition: Partition) -> list[Path]:
    parts = [each for each in visible_parts(partition.folder(store)) if table_of(each) in _TABLES]
    waiting = _waiting(store, parts)  # after the parts, as in compaction
    return [part for part in parts if part not in waiting and row_count(part) is not None]


def _waiting(store: Path, parts: list[Path]) -> set[Path]:
    """Those that their drainer may yet write again."""
    undrained = undrained_sources(store)
    return {part for part in parts if source_of(part) in undrained}


def _are_given_by_coordinates(rows: pa.Table, scores: Set[tuple[object, ...]]) -> pa.ChunkedArray:
    ids, *key = (rows[name].to_pylist() for name in ("trajectory_id", *SCORE_KEY))
    given = [trajectory_id is None and each in scores for trajectory_id, each in zip(ids, zip(*key))]
    return pa.chunked_array([pa.array(given, type=pa.bool_())])
