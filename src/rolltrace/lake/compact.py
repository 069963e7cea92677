"""Keep a lake in shape, from anywhere, beside hosts that ship to it: merge parts of finished steps, remove old files.

What merging does is what it does in a store: the parts of a step become few, rows of dropped trajectories go, and so do
payloads that a host has pruned after they were shipped, as its notes say. It is done in a folder of its own, a step at
a time, and committed as one: if a host has changed any of these parts meanwhile, the commit fails and the step waits
for the next time. A host that comes later with a part that stands for merged ones leaves it out (ship.py).
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rolltrace._guard import logger
from rolltrace.errors import StoreError
from rolltrace.files import file_mode, make_folder
from rolltrace.lake.address import LakeAddress
from rolltrace.lake.cache import cache_folder
from rolltrace.lake.faults import PartGone
from rolltrace.lake.objects import Objects, check_lake
from rolltrace.lake.position import lake_path
from rolltrace.lake.tables import TABLE_NAMES, Conflict, LakePart, LakeTable
from rolltrace.record import NOTES, SPANS, TEXTS, TRANSITIONS
from rolltrace.store import (
    PRUNE,
    checksum_problem,
    compact,
    data_folder,
    finished_steps,
    prepare,
    prune_as_noted,
    row_count,
    step_folder,
    table_of,
    visible_parts,
)

_AT_ONCE = 8
_SUMMARY = "summary"
_DETAIL = frozenset({SPANS.name, TRANSITIONS.name, TEXTS.name})
Progress = Callable[[int, int], None]


class LakeCompacted(NamedTuple):
    """What was merged."""

    fewer: int
    """How many parts became fewer."""
    steps: int
    conflicts: int
    """Tables of steps that a host has changed meanwhile; they are merged the next time."""


def compact_lake(
    address: LakeAddress, *, unfinished: bool = False, progress: Progress = lambda done, total: None
) -> LakeCompacted:
    """Merge the parts of finished steps, and those of no step; with `unfinished`, of all.

    Raises:
        StoreError: there is no lake.
    """
    objects = Objects(address)
    if not check_lake(address, objects):
        raise StoreError(f"there is no lake at {address.url!r}")
    tables = {name: LakeTable(address, name) for name in TABLE_NAMES}
    steps: dict[str, list[LakePart]] = defaultdict(list)
    for table in tables.values():
        table.refresh()
        for part in table.active().values():
            steps[part.path.rpartition("/")[0]].append(part)
    due = [folder for folder in sorted(steps) if _is_worth_it(steps[folder])]
    if not unfinished:
        is_finished = _finished(set(steps))
        due = [folder for folder in due if is_finished(folder)]
    fewer = conflicts = 0
    changed: set[str] = set()
    cache_folder().mkdir(parents=True, exist_ok=True)
    for done, folder in enumerate(due):
        progress(done, len(due))
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".compact-") as workplace:
            step = _Step(address, objects, Path(workplace), folder, steps[folder])
            for name in step.merge():
                try:
                    fewer += step.commit(tables[name])
                    changed.add(name)
                except Conflict:
                    conflicts += 1
    for name in changed:
        tables[name].refresh()
        tables[name].checkpoint()
    progress(len(due), len(due))
    return LakeCompacted(fewer, len(due), conflicts)


def _is_worth_it(parts: list[LakePart]) -> bool:
    """Whether a step has parts to merge, or payloads that its hosts have pruned since these came."""
    names = [table_of(Path(part.path)) for part in parts]
    if len(names) > len(set(names)):
        return True
    pruned_ms = max((part.time_ms for part in parts if f"/{NOTES.name}--{PRUNE}" in part.path), default=0)
    return any(part.time_ms < pruned_ms and table_of(Path(part.path)) in _DETAIL for part in parts)


def _finished(folders: set[str]) -> Callable[[str], bool]:
    """Which steps are finished by the rule of a store; parts of no step are always merged."""
    with tempfile.TemporaryDirectory() as empty:
        for folder in folders:
            (data_folder(Path(empty)) / folder).mkdir(parents=True, exist_ok=True)
        is_finished = finished_steps(Path(empty))
        finished = {folder for folder in folders if is_finished(data_folder(Path(empty)) / folder)}
    return lambda folder: folder in finished or folder.endswith(f"/{step_folder(None)}")


class _Step:
    """A step of the lake, in a store of its own."""

    def __init__(self, address: LakeAddress, objects: Objects, store: Path, folder: str, parts: list[LakePart]) -> None:
        self._address = address
        self._objects = objects
        self._store = store
        self._folder = data_folder(store) / folder
        self._before = {data_folder(store) / part.path: part for part in parts}

    def merge(self) -> list[str]:
        """Fetch the parts and merge them; the tables that have changed."""
        prepare(self._store)
        make_folder(self._folder)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            there = list(pool.map(self._fetch, self._before))
        self._before = {file: part for (file, part), is_here in zip(self._before.items(), there) if is_here}
        prune_as_noted(self._store, self._folder)
        compact(self._store)
        after = set(visible_parts(self._folder))
        return [
            name for name in TABLE_NAMES if {each for each in after ^ self._before.keys() if table_of(each) == name}
        ]

    def _fetch(self, file: Path) -> bool:
        path = file.relative_to(data_folder(self._store))
        try:
            self._objects.get_file(f"{table_of(file)}/{path}", file, mode=file_mode(file.parent))
            problem = checksum_problem(file)
        except (PartGone, OSError) as fault:
            problem = str(fault)
        if problem is not None:
            logger.warning("left as it is in %s, because it cannot be read: %s (%s)", self._address.url, path, problem)
            file.unlink(missing_ok=True)
        return problem is None

    def commit(self, table: LakeTable) -> int:
        """Bring what has changed of a table into the lake; how many parts became fewer."""
        after = {each for each in visible_parts(self._folder) if table_of(each) == table.name}
        before = {file: part for file, part in self._before.items() if table_of(file) == table.name}
        partition = next(iter(before.values())).partition
        adds = []
        for file in after - before.keys():
            path = lake_path(self._store, file)
            size = self._objects.put_file(f"{table.name}/{path}", file)
            adds.append(LakePart(path, size, row_count(file) or 0, partition))
        removes = [part for file, part in before.items() if file not in after]
        table.refresh()
        if any(part.path not in table.active() for part in removes):
            raise Conflict(f"{table.name} has changed")
        table.commit(adds, removes)
        return len(removes) - len(adds)


def upload_summaries(address: LakeAddress, mirror: Path) -> int:
    """Put the summaries of settled steps that were made in the mirror into the lake; how many there are now.

    Those that are of no use any more are removed. Readers do without, so nothing is lost by a race.
    """
    objects = Objects(address)
    there = objects.list(_SUMMARY)
    files = {str(file.relative_to(mirror)): file for file in (mirror / _SUMMARY).rglob("step=*") if file.is_file()}
    # The listing before the numbers: whoever finds these expects both.
    fresh = sorted(set(files) - there.keys(), key=lambda path: path.endswith(".summary"))
    for path in fresh:
        objects.put_file(path, files[path])
    for path in there.keys() - files.keys():
        objects.remove(path)
    return len(files) // 2


def vacuum_lake(address: LakeAddress, hours: float, *, dry_run: bool = False) -> list[str]:
    """Remove files that no table names and that nobody needs any more: older than so many hours. Their paths."""
    if not check_lake(address, Objects(address)):
        raise StoreError(f"there is no lake at {address.url!r}")
    removed = []
    for name in TABLE_NAMES:
        removed += [f"{name}/{path}" for path in LakeTable(address, name).vacuum(hours, dry_run=dry_run)]
    return removed
