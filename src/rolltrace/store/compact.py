"""Merge the small parts of a finished step, while others read.

The merged part appears by a rename and names in its footer the parts that it stands for; from that moment readers leave
those out, and they are removed. A kill in between leaves parts that nobody counts, removed by the next run.
A part whose journal segment still exists is left alone: its drainer may yet write it again.
Rows of trajectories that were begun and then not kept are removed on the way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from rolltrace.record.tables import LOSSES, TABLES
from rolltrace.store.dropped import dropped_in, holds_dropped, without_dropped
from rolltrace.store.layout import COMPACTED, Partition, data_folder, source_of, step_of, table_of
from rolltrace.store.parts import as_today, list_parts, may_be_rewritten, replaced_by, write_table

_MOST_BYTES = 256 << 20
"""How much, uncompressed, is merged into one part: a drainer stays below 1 GiB."""
_FEWEST_PARTS = 2


def compact(
    store: Path, *, steps: Callable[[Path], bool] = lambda folder: True, fewest_parts: int = _FEWEST_PARTS
) -> int:
    """Merge parts, folder by folder and table by table; how many parts became fewer. The caller holds the lock.

    Args:
        store: The store.
        steps: Which step folders to look at; all if not given.
        fewest_parts: Folders with fewer parts of a table are left as they are.
    """
    _remove_replaced(store)
    groups: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    dropped: dict[Path, frozenset[str]] = defaultdict(frozenset)
    for part in list_parts(store):
        if not steps(part.parent):
            continue
        if table_of(part) == LOSSES.name:
            dropped[part.parent] |= frozenset(dropped_in(part))
        if not may_be_rewritten(store, part):
            groups[part.parent, table_of(part)].append(part)
    gone = 0
    for (folder, table), parts in sorted(groups.items()):
        leave_out = dropped[folder] if table != LOSSES.name else frozenset()
        for batch in _batches(parts):
            if len(batch) >= fewest_parts or (leave_out and any(holds_dropped(part, leave_out) for part in batch)):
                _merge(store, table, batch, leave_out)
                gone += len(batch) - 1
    return gone


def finished_steps(store: Path, *, later: int = 1) -> Callable[[Path], bool]:
    """A test for step folders: whether so many later steps of the same experiment have begun."""
    begun: dict[Path, list[int]] = defaultdict(list)
    for folder in data_folder(store).glob("project=*/experiment=*/step=*"):
        step = step_of(folder)
        if step is not None:
            begun[folder.parent].append(step)
    newest = {experiment: sorted(steps)[-later:] for experiment, steps in begun.items()}

    def finished(folder: Path) -> bool:
        step, last = step_of(folder), newest.get(folder.parent, [])
        return step is not None and len(last) == later and step < last[0]

    return finished


def _batches(parts: Iterable[Path]) -> Iterable[list[Path]]:
    batch: list[Path] = []
    size = 0
    for part in parts:
        metadata = pq.read_metadata(part)
        more = sum(metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups))
        if batch and size + more > _MOST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += more
    yield batch


def _merge(store: Path, table: str, parts: list[Path], leave_out: frozenset[str]) -> None:
    kind = next(each for each in TABLES if each.name == table)
    rows = pa.concat_tables([as_today(pq.read_table(part, partitioning=None), kind) for part in parts])
    if not len(rows):
        return
    project, experiment, step = rows["project"][0].as_py(), rows["experiment"][0].as_py(), rows["step"][0].as_py()
    rows = without_dropped(rows, leave_out)
    order = [name for name in ("trajectory_id", "start_ns", "time_ns") if name in rows.column_names]
    if order:
        rows = rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in order]))
    # What a compacted part stood for stays named: a leftover of it must not come back to life.
    replaces = [source for part in parts for source in (source_of(part), *replaced_by(part))]
    source = f"{COMPACTED}{xxhash.xxh3_64_hexdigest(' '.join(sorted(replaces)).encode())}"
    write_table(store, Partition(project, experiment, step), kind, source, rows, replaces=replaces, level=9)
    for part in parts:
        part.unlink(missing_ok=True)


def _remove_replaced(store: Path) -> None:
    """What a killed run left behind."""
    visible = set(list_parts(store))
    for part in data_folder(store).glob("project=*/experiment=*/step=*/*.parquet"):
        if part not in visible and not part.name.startswith("."):
            part.unlink(missing_ok=True)
