"""Make the summaries of settled steps (query/summary.py): the keeper does, when there is nothing else to do.

A step gets one when no drainer may write its parts again and none of its parts waits to be removed. Whoever reads
meanwhile does without, and so does whoever finds rows of it in a journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import duckdb
import pyarrow as pa

from rolltrace.query.damage import Unreadable, count_rows, count_values
from rolltrace.query.database import arrow_answer, register
from rolltrace.query.engine import Engine
from rolltrace.query.listing import rows_of
from rolltrace.query.step_rows import NAMES, step_rows
from rolltrace.query.summary import (
    Folder,
    Summary,
    fingerprint_of,
    has_replaced,
    is_drained,
    replaced_sources,
    stale_files,
    write_listing,
    write_summary,
)
from rolltrace.query.views import COMPUTED, LATE, with_late_scores
from rolltrace.record import LOSSES, SCORES
from rolltrace.store import Partition, data_folder, dropped_in, table_of, undrained_sources, without_dropped

_MOST_FOLDERS = 32
_MOST_BYTES = 32 << 20
"""How many steps are listed at once, and how large they may be on disk."""
_KEPT_SEC = 30.0
"""How long a summary that is right no more stays, for those who are reading it."""


def summarise_steps(
    store: Path, *, steps: Callable[[Path], bool] | None = None, deadline: float = float("inf")
) -> bool:
    """Make the summaries that are missing; whether the time was up before that. The caller holds the drainer's lock.

    Args:
        store: The store.
        steps: Which folders of steps to look at; all if not given.
        deadline: On the monotonic clock; none is begun after it.
    """
    maker = _Maker(store, live=False, threads=1)  # the other cores are the rollout's
    try:
        for folders in _batches(maker.due(steps or (lambda folder: True))):
            if time.monotonic() > deadline:
                return True
            maker.make(folders)
        maker.remove_stale()
    finally:
        maker.close()
    return False


def _batches(folders: list[Folder]) -> Iterator[list[Folder]]:
    """Some at a time, all of one experiment: asking costs more than the rows of a small step."""
    for _, of_experiment in groupby(folders, key=lambda folder: folder.path.parent):
        batch: list[Folder] = []
        size = 0
        for folder in of_experiment:
            batch.append(folder)
            size += sum(part.stat().st_size for part in folder.parts if part.exists())
            if len(batch) == _MOST_FOLDERS or size > _MOST_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch


class _Maker(Engine):
    """An engine that writes down what it lists."""

    def due(self, steps: Callable[[Path], bool]) -> list[Folder]:
        self.refresh()
        undrained = undrained_sources(self._store)
        settled = [
            folder
            for path, folder in self._snapshot.folders.items()
            if steps(path) and not has_replaced(folder) and is_drained(folder, undrained)
        ]
        missing = [folder for folder in settled if folder.summary is None]
        try:
            late = self._cursors.late_scores(self._snapshot)
        except Unreadable:
            self.refresh(now=True)
            late = self._cursors.late_scores(self._snapshot)
        behind = self._cursors.touched([folder for folder in settled if folder.summary is not None], late, None)
        return [*missing, *(self._snapshot.folders[path] for path in behind)]

    def make(self, folders: list[Folder]) -> None:
        """The summaries of some steps of one experiment."""
        try:
            self._make(folders)
        except (OSError, duckdb.Error):
            there = [folder for folder in folders if all(part.exists() for part in folder.parts)]
            if len(there) == len(folders):
                raise
            if there:  # another host has replaced parts of the others and removed them: these are another time's turn
                self.make(there)

    def _make(self, folders: list[Folder]) -> None:
        try:
            self._fetch(part for folder in folders for part in folder.parts)
        except Unreadable:  # these steps get none
            for folder in folders if len(folders) > 1 else ():
                self.make([folder])
            return
        listed = self._cursors.list_parts([part for folder in folders for part in folder.parts], {})
        rows = arrow_answer(self._cursors.connected(), f"{rows_of([listed.rows])} ORDER BY project, experiment, step")
        self._cursors.drop([listed.rows.table])
        dropped = {
            folder.path: sorted(
                {each for part in folder.parts if table_of(part) == LOSSES.name for each in dropped_in(part)}
            )
            for folder in folders
        }
        rows = without_dropped(rows, frozenset(each for ids in dropped.values() for each in ids))
        all_steps = self._step_rows(rows)
        steps, nothing = dict(by_folder(self._store, all_steps)), all_steps.slice(0, 0)
        listings = dict(by_folder(self._store, rows))
        if not listings.keys() <= {folder.path for folder in folders}:  # somebody has moved a folder: it gets none
            for folder in folders if len(folders) > 1 else ():
                self.make([folder])
            return
        for folder in folders:
            summary = Summary(
                parts=[part.name for part in folder.parts],
                replaced=replaced_sources(folder.parts),
                rows=count_rows(folder.parts).rows,
                terms=count_values([part for part in folder.parts if table_of(part) == SCORES.name], "terms"),
                dropped=dropped[folder.path],
                strays=folder.path in listed.strays,
                late=[str(part.relative_to(data_folder(self._store))) for part in self._cursors.late_parts],
                steps=[tuple(row.values()) for row in steps.get(folder.path, nothing).select(NAMES).to_pylist()],
            )
            if fingerprint_of(folder.path) == folder.fingerprint:  # else it has changed, and is another time's turn
                write_listing(self._store, folder, listings.get(folder.path, rows.slice(0, 0)))
                write_summary(self._store, folder, summary)

    def _step_rows(self, rows: pa.Table) -> pa.Table:
        late = self._cursors.late_scores(self._snapshot)
        cursor = self._cursors.connected().cursor()
        try:
            register(cursor, COMPUTED, rows)
            if late is not None:
                register(cursor, LATE, late)
            cursor.execute(f"CREATE TEMP VIEW _own AS {with_late_scores(late is not None)}")
            sql = f"SELECT * FROM ({step_rows('_own')}) ORDER BY project, experiment, step"
            return arrow_answer(cursor, sql)
        finally:
            cursor.close()

    def remove_stale(self) -> None:
        now = time.time()
        for file in stale_files(self._store, self._known_folders.scan()):
            try:
                if not 0 <= now - file.stat().st_mtime < _KEPT_SEC:
                    file.unlink(missing_ok=True)
            except OSError:  # another host was faster
                continue


def by_folder(store: Path, rows: pa.Table) -> Iterator[tuple[Path, pa.Table]]:
    """The rows of each folder, of rows that are in order."""
    begin = 0
    places = list(zip(*(rows[name].to_pylist() for name in Partition._fields))) if len(rows) else []
    for at, place in enumerate(places, 1):
        if at == len(places) or places[at] != place:
            project, experiment, step = place
            where = Partition(project or "unknown", experiment or "unknown", step)  # a part that is not ours has none
            yield where.folder(store), rows.slice(begin, at - begin)
            begin = at
