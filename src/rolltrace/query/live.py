"""Rows of what the drainer has not taken yet, straight from the journals.

A journal file is read once and then only from where reading ended. Reading never changes a file, and gives the same
rows as draining it would: what had begun and not ended is `interrupted` once its writer is gone, `running` until then.
"""

from __future__ import annotations

import fcntl
import os
from collections import defaultdict
from collections.abc import Container, Iterator
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from rolltrace._guard import logger
from rolltrace.drain import (
    Carried,
    Checks,
    Memory,
    OpenKey,
    OpenRecords,
    Past,
    Redactor,
    Row,
    RowMaker,
    arrow_of,
    carried_file,
    grouped,
    open_place,
    part_sound,
    read_carried,
    take,
    writer_of,
)
from rolltrace.errors import ConfigError, FormatError
from rolltrace.files import read_problem
from rolltrace.journal import FRAME, HEADER_BYTES, SegmentReader, hidden_journals, journal_files
from rolltrace.query.listing import PartKey
from rolltrace.record import BLOB_NAME, Blob, OpStart
from rolltrace.store import SCHEMAS, Partition

_TRIES = 5
_WORK_PER_LOOK = 20_000
"""How much is read in one look, which must not take longer than people wait: a record is one, and so are 16 KiB."""
_BYTES_PER_WORK = 16 << 10
_MOST_CHUNKS = 32


class LiveJournals:
    """The journals of a store, as far as they were written at the last `refresh`."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._redactor = _rules(store)
        self._memory = Memory(store)
        self._segments: dict[Path, _Segment] = {}
        self._carried: dict[Path, Carried] = {}
        self.unreadable: dict[Path, str] = {}
        """Journal files that cannot be read, or folders of these, and why."""
        self.unread: dict[Path, int] = {}
        """Journal files that were not read to their end, because there was too much, and how many bytes are left."""

    def refresh(self, *, everything: bool = False) -> bool:
        """Read what is new; whether anything was. What is too much for one look is read in the next ones, each writer's
        records in their order; with `everything`, now."""
        work = _Work(None if everything else _WORK_PER_LOOK)
        before, changed = set(self._segments), False
        if self._memory.texts.came_late():
            self._memory, self._segments = Memory(self._store), {}
        for _ in range(_TRIES):
            listed = journal_files(self._store)
            changed |= self._read(listed, work)
            # A file that came or went meanwhile may hold the other half of an op that we have one half of.
            if journal_files(self._store) == listed:
                break
        return changed or before != set(self._segments)

    def _read(self, listed: list[Path], work: _Work) -> bool:
        self.unread = {}
        read_before, self._segments = self._segments, {}
        known_unreadable, self._carried, self.unreadable = self.unreadable, {}, {}
        changed = False
        if self._redactor is None:
            self.unreadable = dict.fromkeys(listed, "the rules in redact.json cannot be read: Permission denied")
            listed = []
        for path in listed:
            if work.is_done and path not in read_before:
                self.unread[path] = path.stat().st_size if path.exists() else 0
                continue
            carried = carried_file(path, -1)
            before = self._segments.get(path.with_name(f"{carried.stem}.seg"))
            if before is not None and before.unread_bytes:
                self.unread[path] = path.stat().st_size if path.exists() else 0
                continue
            if before is None:
                # Before the segment is opened: the drainer removes this file after that one.
                self._carried[path] = _read_carried(carried)
            segment = read_before.get(path) or _Segment(path)
            try:
                past = self._carried[path].past if before is None else before.past
                assert self._redactor is not None
                changed |= segment.read(self._redactor, self._memory, past, work)
            except FileNotFoundError:  # drained since it was listed
                continue
            except FormatError as fault:
                self.unreadable[path] = str(fault)
                continue
            except OSError as fault:
                self.unreadable[path] = read_problem(path, fault)
                continue
            except Exception as fault:
                if path not in known_unreadable:
                    logger.exception("reading %s", path)
                self.unreadable[path] = f"{type(fault).__name__} while it was read"
                continue
            self._segments[path] = segment
            if segment.unread_bytes:
                self.unread[path] = segment.unread_bytes
        self.unreadable.update(hidden_journals(self._store))
        return changed

    def damaged(self) -> dict[Path, int]:
        """Journal files in which something is damaged, and in how many places."""
        return {path: segment.damaged for path, segment in self._segments.items() if segment.damaged}

    def recording(self) -> set[tuple[str, str]]:
        """Project and experiment of each process that writes into the store."""
        live = [segment for segment in self._segments.values() if segment.state == "live"]
        return {(segment.project, segment.experiment) for segment in live}

    @property
    def is_empty(self) -> bool:
        """There is no journal."""
        return not self._segments

    def tables(self, drained: Container[PartKey]) -> dict[str, dict[Path, list[pa.Table]]]:
        """Every table's rows by the folder of their step, without those that are in a part already."""
        by_table: dict[str, dict[Path, list[pa.Table]]] = {name: {} for name in SCHEMAS}
        for segment in self._segments.values():
            for (table, step), chunks in segment.chunks.items():
                key = self._key(segment, table, step)
                if key not in drained:
                    by_table[table].setdefault(key.folder, []).extend(chunks)
        extra = [(segment, segment.losses()) for segment in self._segments.values()]
        for segment, rows in [*extra, *self._unfinished()]:
            for table, step, chunk in _chunks(rows, segment.maker):
                key = self._key(segment, table, step)
                if key not in drained:
                    by_table[table].setdefault(key.folder, []).append(chunk)
        return by_table

    def _key(self, segment: _Segment, table: str, step: int | None) -> PartKey:
        folder = Partition(segment.project, segment.experiment, step).folder(self._store)
        return PartKey(folder, table, segment.path.stem)

    def _unfinished(self) -> Iterator[tuple[_Segment, list[Row]]]:
        """What began and did not end, for each writer, with the segment that the drainer would put it into."""
        behind = {writer_of(path) for path in self.unread}
        for _, group in groupby(self._segments.values(), key=lambda each: writer_of(each.path)):
            is_open: OpenRecords = {}
            for segment in group:
                is_open.update(self._carried[segment.path].still_open if segment.path in self._carried else {})
                for key in segment.ended:
                    is_open.pop(key, None)
                for key, record in segment.opened.items():
                    before = is_open.get(key)
                    if isinstance(before, OpStart) and isinstance(record, OpStart):
                        record = before.with_items(record)
                    is_open[key] = record
            goes_on = segment.state == "live" or writer_of(segment.path) in behind
            status = "running" if goes_on else "interrupted"
            yield (
                segment,
                [
                    row
                    for record in is_open.values()
                    for row in segment.maker.shape_unfinished(record, status, open_place(segment.path, record)).rows
                ],
            )


class _Work:
    """How much may still be read in a look."""

    def __init__(self, most: int | None) -> None:
        self._left = most

    @property
    def is_done(self) -> bool:
        return self._left is not None and self._left <= 0

    def take(self, work: int) -> None:
        if self._left is not None:
            self._left -= work


class _Segment:
    """What was read of one journal file so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = "live"
        self.chunks: dict[tuple[str, int | None], list[pa.Table]] = defaultdict(list)
        self.opened: OpenRecords = {}
        self.ended: set[OpenKey] = set()
        """What ended here and had begun in an earlier segment."""
        self.maker: RowMaker
        self.past = Past()
        self.project = self.experiment = "unknown"
        self._losses: dict[str, dict[str, int]] = {}
        self.damaged = 0
        """Places of it that cannot be read."""
        self._offset = HEADER_BYTES
        self._look: object = None
        self.unread_bytes = 0

    def read(self, redactor: Redactor, memory: Memory, past: Past, work: _Work) -> bool:
        """Read on from where the last reading ended; whether there was anything new. `past`: of the segment before."""
        if self.state != "live" and not self.unread_bytes:
            return False
        if work.is_done and self.unread_bytes:
            return False
        look = self._changes()
        if look == self._look:
            return False
        reader = redactor.segment(SegmentReader.open(self.path))
        if not hasattr(self, "maker"):
            self.project = str(reader.meta.get("project", "unknown"))
            self.experiment = str(reader.meta.get("experiment", "unknown"))
            self.past = past.copy()
            self.maker = RowMaker(reader.meta, redactor, memory, Checks.of(reader.meta, self.past))
        self.state, self._losses = reader.state, reader.losses
        rows: list[Row] = []
        self.unread_bytes = 0
        for item in reader.read_from(self._offset):
            if work.is_done:
                self.unread_bytes = len(reader.data.rstrip(b"\0")) - self._offset
                break
            work.take(1 + item.size_bytes // _BYTES_PER_WORK)
            shaped_item = take(item, self.maker, self.opened, self.path.stem, _is_blob)
            if shaped_item is None:
                self.damaged += 1
            else:
                rows += shaped_item.shaped.rows
                if shaped_item.ended is not None:
                    self.ended.add(shaped_item.ended)
            self._offset = (item.end + 7) & ~7
        for table, step, chunk in _chunks(rows, self.maker):
            self._add(table, step, chunk)
        self._look = None if self.unread_bytes else (look[0], look[1], bytes(FRAME.size))
        return True

    def _changes(self) -> tuple[bytes, bool, bytes]:
        """The header, whether the writer is gone, and the place of the next record: cheap to compare.

        The file's time is no help: writing through a mapping changes it late or never.
        """
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            gone = True
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                gone = False
            return os.pread(fd, HEADER_BYTES, 0), gone, os.pread(fd, FRAME.size, self._offset).ljust(FRAME.size, b"\0")
        finally:
            os.close(fd)

    def _add(self, table: str, step: int | None, chunk: pa.Table) -> None:
        chunks = self.chunks[table, step]
        chunks.append(chunk)
        if len(chunks) > _MOST_CHUNKS:
            chunks[:] = [pa.concat_tables(chunks).combine_chunks()]

    def losses(self) -> list[Row]:
        """The losses counted in its header, and what of it is damaged."""
        return self.maker.losses(self._losses, self.damaged)


def _is_blob(blob: Blob) -> bool:
    return BLOB_NAME.fullmatch(blob.hash) is not None  # kept by the drainer; readers open it where it is


def _rules(store: Path) -> Redactor | None:
    """The rules by which secrets are taken out; None if they are not ours to read: then no journal is shown."""
    try:
        return Redactor.of(store)
    except ConfigError as fault:
        if isinstance(fault.__cause__, PermissionError):
            return None
        raise


def _read_carried(path: Path) -> Carried:
    try:
        return read_carried(path)
    except (ValueError, PermissionError):  # the drainer will say so; what is not ours to read is told by its segment
        return Carried({}, Past())


def _chunks(rows: list[Row], maker: RowMaker) -> Iterator[tuple[str, int | None, pa.Table]]:
    for group in grouped(rows):
        try:
            yield group[0].table.name, group[0].step, arrow_of(group)
        except Exception:
            sound, instead = part_sound(group, maker)
            for each in grouped([*sound, *instead]):
                yield each[0].table.name, each[0].step, arrow_of(each)
