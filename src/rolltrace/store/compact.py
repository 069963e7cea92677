"""Merge the small parts of a step, while others read.

A finished step becomes few large parts. A running one gets a new part with every segment that is drained, so its parts
are merged by tiers: eight small ones become one of the next size, and each row is rewritten a few times, not once per
segment. A part whose journal segment still exists is left alone: its drainer may yet write it again. So is one that
cannot be read. Which host brought a part does not matter.
Rows of trajectories that were begun and then not kept are removed on the way.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from rolltrace._arrow import pa, pc, pq
from rolltrace._guard import logger
from rolltrace.record import LOSSES, TABLES
from rolltrace.store.arrow import as_today
from rolltrace.store.layout import Partition, source_of, step_folders, step_of, table_of
from rolltrace.store.merge import Superseded, replace_parts
from rolltrace.store.parts import undrained_sources, visible_parts

_MOST_BYTES = 256 << 20
"""How much, uncompressed, is merged into one part: a drainer stays below 1 GiB."""
_FEWEST_PARTS = 2
_TIER_PARTS = 8
"""How many parts of one tier are merged into one of the next."""
_SMALLEST_TIER_BYTES = 64 << 10
_TABLES = {table.name: table for table in TABLES}

Steps = Callable[[Path], bool]
"""A test for the folders of steps."""


class Compacted(NamedTuple):
    """What was merged."""

    fewer: int
    """How many parts became fewer."""
    more: bool
    """The time was up before everything was merged."""


def compact(
    store: Path,
    *,
    steps: Steps = lambda folder: True,
    running: Steps = lambda folder: False,
    fewest_parts: int = _FEWEST_PARTS,
    kind_of: Callable[[Path], object | None] = lambda part: 0,
    deadline: float = float("inf"),
    epoch: int = 0,
) -> Compacted:
    """Merge parts, step by step and table by table. The caller removes the old ones later.

    Args:
        store: The store.
        steps: Which steps to look at; all if not given.
        running: Which of these still grow, and are merged by tiers; none if not given.
        fewest_parts: Other steps with fewer parts of a table are left as they are.
        kind_of: Parts are merged with others of the same kind only, and those of the kind None not at all.
        deadline: On the monotonic clock; no merging begins after it.
        epoch: Of the lease under which this is done.
    """
    listed = {folder: visible_parts(folder) for folder in step_folders(store) if steps(folder)}
    # After the parts: one that was there, and whose segment is gone by now, will not be written again.
    undrained = undrained_sources(store)
    fewer = 0
    for folder, there in listed.items():
        tables: dict[str, list[Path]] = defaultdict(list)
        for part in there:
            tables[table_of(part)].append(part)
        dropped = frozenset(each for part in tables.get(LOSSES.name, ()) for each in dropped_in(part))
        for name, parts in tables.items():
            free = [part for part in parts if source_of(part) not in undrained]
            if name not in _TABLES:
                continue
            leave_out = dropped if name != LOSSES.name and not running(folder) else frozenset()
            batches: list[tuple[list[Path], frozenset[str]]] = []
            for same in _by_kind(free, kind_of):
                chosen = _tiers(same) if running(folder) else _worth_merging(same, fewest_parts, leave_out)
                batches += [(batch, leave_out) for batch in chosen]
            for batch, leave_out in batches:
                if time.monotonic() > deadline:
                    return Compacted(fewer, True)
                try:
                    fewer += _merge(store, name, batch, leave_out, level=1 if running(folder) else 9, epoch=epoch)
                except Superseded:  # by another host: what it left is another time's turn
                    break
    return Compacted(fewer, False)


def _by_kind(parts: list[Path], kind_of: Callable[[Path], object | None]) -> list[list[Path]]:
    kinds: dict[object, list[Path]] = defaultdict(list)
    for part in parts:
        if (kind := kind_of(part)) is not None:
            kinds[kind].append(part)
    return list(kinds.values())


def finished_steps(store: Path, *, later: int = 1) -> Steps:
    """A test for step folders: whether so many later steps of the same experiment have begun."""
    begun: dict[Path, list[int]] = defaultdict(list)
    for folder in step_folders(store):
        step = step_of(folder)
        if step is not None:
            begun[folder.parent].append(step)
    newest = {experiment: sorted(steps)[-later:] for experiment, steps in begun.items()}

    def finished(folder: Path) -> bool:
        step, last = step_of(folder), newest.get(folder.parent, [])
        return step is not None and len(last) == later and step < last[0]

    return finished


def _worth_merging(parts: list[Path], fewest_parts: int, leave_out: frozenset[str]) -> Iterator[list[Path]]:
    for batch in _batches(parts):
        if len(batch) >= fewest_parts or (leave_out and any(_holds(part, leave_out) for part in batch)):
            yield batch


def _holds(part: Path, leave_out: frozenset[str]) -> bool:
    try:
        return _holds_dropped(part, leave_out)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return False


def _tiers(parts: list[Path]) -> Iterator[list[Path]]:
    """The tiers that are full, each part once."""
    tiers: dict[int, list[Path]] = defaultdict(list)
    for part in parts:
        try:
            size = part.stat().st_size
        except OSError:
            continue
        tiers[(max(size // _SMALLEST_TIER_BYTES, 1).bit_length() - 1) // 3].append(part)
    for _, same in sorted(tiers.items()):
        if len(same) >= _TIER_PARTS:
            yield from (batch for batch in _batches(same) if len(batch) >= _FEWEST_PARTS)


def _batches(parts: Iterable[Path]) -> Iterator[list[Path]]:
    """The parts in groups that can be held in memory, without those that cannot be read."""
    batch: list[Path] = []
    size = 0
    for part in parts:
        try:
            metadata = pq.read_metadata(part)
        except (OSError, ValueError, pa.ArrowException):  # `rolltrace doctor` names it
            continue
        more = sum(metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups))
        if batch and size + more > _MOST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += more
    if batch:
        yield batch


def _merge(store: Path, table: str, parts: list[Path], leave_out: frozenset[str], *, level: int, epoch: int) -> int:
    """How many parts became fewer."""
    kind = _TABLES[table]
    readable: list[Path] = []
    contents: list[pa.Table] = []
    for part in parts:
        try:
            contents.append(as_today(pq.read_table(part, partitioning=None, page_checksum_verification=True), kind))
            readable.append(part)
        except (OSError, ValueError, KeyError, pa.ArrowException) as fault:
            logger.warning("left as it is, because it cannot be read: %s (%s)", part, fault)
    rows = pa.concat_tables(contents) if contents else None
    if rows is None or not len(rows) or (len(readable) < _FEWEST_PARTS and not leave_out):
        return 0
    project, experiment, step = rows["project"][0].as_py(), rows["experiment"][0].as_py(), rows["step"][0].as_py()
    place = Partition(project, experiment, step)
    if place.folder(store) != parts[0].parent:
        logger.warning("left as they are, because their rows belong elsewhere: the parts of %s", parts[0].parent)
        return 0
    rows = without_dropped(rows, leave_out)
    order = [name for name in ("trajectory_id", "start_ns", "time_ns") if name in rows.column_names]
    if order:
        rows = rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in order]))
    replace_parts(store, place, kind, readable, rows, level=level, epoch=epoch)
    return len(readable) - 1


# Trajectories that were begun and then not kept (`capture.sampling`), as `losses` names them: whoever reads leaves
# their rows out, compaction removes them for good.


def dropped_in(part: Path) -> tuple[str, ...]:
    """The ids that a part of `losses` names; none if it cannot be read."""
    try:
        return _read_dropped(part)
    except (OSError, ValueError, pa.ArrowException):
        return ()


@lru_cache(maxsize=65_536)  # a part never changes
def _read_dropped(part: Path) -> tuple[str, ...]:
    with pq.ParquetFile(part) as file:
        if "trajectory_id" not in file.schema_arrow.names:
            return ()
        return tuple(pc.drop_null(file.read(["trajectory_id"])["trajectory_id"]).to_pylist())


def without_dropped(rows: pa.Table, dropped: frozenset[str]) -> pa.Table:
    """The rows of trajectories that are kept, and those of none."""
    return rows.filter(pc.invert(_is_dropped(rows["trajectory_id"], dropped))) if dropped else rows


@lru_cache(maxsize=65_536)
def _holds_dropped(part: Path, dropped: frozenset[str]) -> bool:
    """Whether a part has rows of these trajectories."""
    with pq.ParquetFile(part) as file:
        return pc.any(_is_dropped(file.read(["trajectory_id"])["trajectory_id"], dropped)).as_py() or False


def _is_dropped(ids: pa.ChunkedArray, dropped: frozenset[str]) -> pa.ChunkedArray:
    return pc.is_in(ids, value_set=pa.array(sorted(dropped), type=pa.string()))
