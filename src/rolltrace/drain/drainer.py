"""Turn journals into the store: one segment after the other, exactly once.

A segment is the unit. Its rows go to parts named after it, then it is removed; a drainer killed anywhere in between
starts the segment over and writes the same parts again. What had begun and not ended in it is carried to the
writer's next segment in a small file beside the journals; when the writer is gone, it becomes `interrupted`.

A record that cannot be made rows costs itself (`rows`), a segment that cannot be drained itself and, until it is set
aside (`attempts`), the segments of its writer that follow it: what is open in it ends in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import msgspec
import xxhash

from rolltrace._guard import logger, strict
from rolltrace.drain.apart import Failed, NotTried, drain_apart
from rolltrace.drain.attempts import Aside, Attempts, forget_attempts
from rolltrace.drain.checks import Checks, Past
from rolltrace.drain.columns import arrow_of, grouped, part_sound
from rolltrace.drain.redact import Redactor
from rolltrace.drain.row import Row, Shaped
from rolltrace.drain.rows import RowMaker
from rolltrace.drain.text import Memory
from rolltrace.errors import FormatError
from rolltrace.files import make_folder, open_private, replace_file
from rolltrace.flags import ALL
from rolltrace.journal import (
    FRAME,
    Damage,
    Entry,
    SegmentReader,
    Unread,
    drainer_lock,
    draining_mark,
    is_live,
    journal_files,
    journal_folder,
    make_spare_after,
    own_folders,
    stale_marks,
)
from rolltrace.record import (
    BLOB_NAME,
    FLAGS,
    LOSSES,
    TRAJECTORIES,
    Blob,
    OpEnd,
    OpStart,
    TrajectoryEnd,
    TrajectoryStart,
    decode_record,
    encode_record,
    read_partly,
)
from rolltrace.store import Partition, blob_path, note_routes, prepare, write_table
from rolltrace.text import tokenizers_pending

_NO_BLOB = "not the name of a blob"
OpenKey = tuple[str, bytes | int]
OpenRecords = dict[OpenKey, OpStart | TrajectoryStart]


class Ended(NamedTuple):
    """The trajectories that ended in one segment."""

    segment: str
    checks: str
    """The setting of their writer."""
    trajectory_ids: list[str]


class Drainer:
    """Drains the journals of this host into one store. Only one works at a time: see `working`."""

    def __init__(
        self,
        store: Path,
        *,
        redactor: Redactor | None = None,
        on_ended: Callable[[Ended], None] | None = None,
        makes_spares: bool = False,
    ) -> None:
        """`on_ended` is told of what is in the store now, before its segment is removed: after a kill, once more.

        With `makes_spares`, busy writers find their next journal file made; the caller removes those that are left.
        """
        self.store = store
        self._on_ended = on_ended
        self._makes_spares = makes_spares
        self._folder = journal_folder(store)
        self._own_folders = own_folders(store)
        self._redactor = redactor or Redactor.of(store)
        self._memory = Memory(store)
        self._aside = Aside(store)
        self._left_alone: set[Path] = set()
        """Files that are no journals of ours, and were told of."""
        self.segments = 0
        self.bytes = 0
        self.postponed = False
        """The last `drain` left what waits for later, because a tokenizer that it needs is being written."""
        prepare(store)

    def working(self) -> AbstractContextManager[bool]:
        """Hold the lock of this host and store; gives False if another drainer has it."""
        return drainer_lock(self._folder)

    def waiting(self) -> list[Path]:
        """The segments of this host that can be drained now, oldest first."""
        return [path for path in journal_files(self.store) if path.parent in self._own_folders and not is_live(path)]

    def drain(self, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Drain all that waits; how many segments that were. The caller holds the lock.

        Raises:
            OSError: the store cannot be written, after all segments were tried.
        """
        for mark in stale_marks(self.store):
            mark.unlink(missing_ok=True)
        waiting = self.waiting()
        # In this order: whatever waits was written after the markers of its tokenizers.
        self.postponed = bool(waiting) and tokenizers_pending(self.store)
        if self.postponed:
            return 0
        before, stuck = self.segments, set[str]()
        problem: OSError | None = None
        for done, path in enumerate(waiting):
            progress(done, len(waiting))
            if writer_of(path) in stuck:
                continue
            try:
                is_done = self._try_segment(path)
            except OSError as fault:  # a full disk, most likely; the next one may be smaller
                problem, is_done = problem or fault, False
            if not is_done:
                stuck.add(writer_of(path))
        progress(len(waiting), len(waiting))
        if problem is not None:
            raise problem
        return self.segments - before

    def drain_one(self, path: Path) -> None:
        """Drain one segment that its writer has closed. The caller holds the lock.

        Raises:
            Exception: it cannot be drained.
        """
        self._finish(path, self.write_parts(path))

    def _try_segment(self, path: Path) -> bool:
        """Drain a segment, if it can be; whether those that follow it may be drained."""
        attempts = Attempts.of(path)
        attempts.begin(path)
        try:
            if attempts.must_be_apart:
                self._finish(path, msgspec.msgpack.decode(drain_apart(self.store, path), type=Ended))
            else:
                self._finish(path, self.write_parts(path))
        except FormatError as fault:
            if path not in self._left_alone:
                self._left_alone.add(path)
                logger.warning("left alone: %s", fault)
            forget_attempts(path)
        except NotTried as fault:
            logger.warning("draining %s is put off: %s", path, fault)
            return False
        except OSError:
            attempts.survive(path)
            raise
        except Failed as fault:
            return self._fail(attempts, path, str(fault))
        except Exception as fault:
            if strict():
                raise
            logger.exception("draining %s", path)
            return self._fail(attempts, path, type(fault).__name__)
        return True

    def _fail(self, attempts: Attempts, path: Path, why: str) -> bool:
        is_aside = attempts.fail(path, why)
        before = carried_file(path, -1)
        if is_aside and not is_last(path) and before.exists():  # what was open before is the next one's now
            before.replace(carried_file(path, 0))
        return is_aside

    def write_parts(self, path: Path) -> Ended:
        """Write the parts of a segment and what the writer's next one needs; what ended in it.

        The segment stays. Writing them again changes nothing.
        """
        segment = self._redactor.segment(SegmentReader.open(path))
        mark = draining_mark(self.store, path)
        if mark is not None:
            replace_file(mark, b"")
        still_open, past = self._carried(path)
        maker = RowMaker(segment.meta, self._redactor, self._memory, Checks.of(segment.meta, past))
        rows: list[Row] = []
        damaged = unreadable = 0
        source = path.stem
        for item in segment:
            shaped_item = take(item, maker, still_open, source, self._keep_blob)
            if shaped_item is None:
                damaged += 1
                continue
            rows += shaped_item.shaped.rows
            if not shaped_item.shaped.is_whole:
                unreadable += 1
                body = item.body if isinstance(item, Unread) else segment.data[item.offset + FRAME.size : item.end]
                self._aside.keep(f"{source}-{item.offset}.msgpack", body)
        if is_last(path):  # its writer has closed the journal or was killed: nothing will end these any more
            for record in still_open.values():
                shaped = maker.shape_unfinished(record, "interrupted", open_place(path, record))
                rows += shaped.rows
                if not shaped.is_whole:
                    unreadable += 1
                    self._aside.keep(f"{open_place(path, record)}.msgpack", encode_record(record))
            still_open, past = {}, Past()
        if unreadable:
            logger.warning("%d records of %s are unreadable, at least in part; see rolltrace doctor", unreadable, path)
        note_routes(self.store, segment.meta)
        self._write(segment, maker, [*rows, *maker.losses(segment.losses, damaged)])
        if still_open or past:
            _write_carried(carried_file(path, 0), still_open, past)
        self.bytes += len(segment.data)
        ended = [row.fields["trajectory_id"] for row in rows if row.table is TRAJECTORIES]
        return Ended(path.stem, str(segment.meta.get("checks", ALL)), ended)

    def _finish(self, path: Path, ended: Ended) -> None:
        """Remove a segment whose parts are written."""
        if self._on_ended is not None:
            self._on_ended(ended)
        self.segments += 1
        if self._makes_spares:
            make_spare_after(path)
        path.unlink(missing_ok=True)
        mark = draining_mark(self.store, path)
        if mark is not None:
            mark.unlink(missing_ok=True)
        carried_file(path, -1).unlink(missing_ok=True)
        forget_attempts(path)

    def _carried(self, path: Path) -> Carried:
        before = carried_file(path, -1)
        try:
            return read_carried(before)
        except ValueError:
            logger.warning("%s cannot be read; what was open in it will have no end", before)
            self._aside.keep(f"{before.stem}-open.msgpack", _bytes_of(before))
            return Carried({}, Past())

    def _write(self, segment: SegmentReader, maker: RowMaker, rows: list[Row]) -> None:
        reports = [row for row in rows if row.table is FLAGS or row.table is LOSSES]
        for group in grouped(row for row in rows if row.table is not FLAGS and row.table is not LOSSES):
            reports += self._write_group(segment, maker, group)
        for group in grouped(reports):
            self._write_group(segment, maker, group)

    def _write_group(self, segment: SegmentReader, maker: RowMaker, group: list[Row]) -> list[Row]:
        """Write one part; what stands for rows that could not be written."""
        _sort(group)
        project, experiment = (str(segment.meta.get(name, "unknown")) for name in ("project", "experiment"))
        partition, table, source = Partition(project, experiment, group[0].step), group[0].table, segment.path.stem
        try:
            write_table(self.store, partition, table, source, arrow_of(group))
        except OSError:
            raise
        except Exception:
            sound, instead = part_sound(group, maker)
            if sound:
                write_table(self.store, partition, table, source, arrow_of(sound))
            return instead
        return []

    def _keep_blob(self, blob: Blob) -> bool:
        """Whether it may be kept: the name of a file is not for a journal to choose."""
        if not BLOB_NAME.fullmatch(blob.hash):
            return False
        path = blob_path(self.store, blob.hash)
        if os.path.lexists(path):
            return True
        make_folder(path.parent, durable=True)
        if path.parent.is_symlink() or path.parent.parent.is_symlink():
            return False
        replace_file(path, encode_record(blob), durable=True)
        return True


def _sort(rows: list[Row]) -> None:
    """Rows of one trajectory together, oldest first."""
    columns = [column.name for column in rows[0].table.columns]
    whose = columns.index("trajectory_id")
    when = next((columns.index(name) for name in ("start_ns", "time_ns") if name in columns), None)
    if when is None:
        rows.sort(key=lambda row: row.values[whose] or "")
    else:
        rows.sort(key=lambda row: (row.values[whose] or "", row.values[when] or 0))


class ShapedItem(NamedTuple):
    """What an item of a segment became."""

    shaped: Shaped
    ended: OpenKey | None
    """What it ended, if that may have begun in an earlier segment."""


def take(
    item: Entry | Damage,
    maker: RowMaker,
    still_open: OpenRecords,
    source: str,
    keep_blob: Callable[[Blob], bool],
) -> ShapedItem | None:
    """The rows of an item of a segment, for whoever drains it or reads it while it is written; None if it is damaged.

    Args:
        item: A record, or what stands in the place of one.
        maker: Of the segment's writer.
        still_open: What had begun and not ended before; changed by what the item begins or ends.
        source: The name of the segment.
        keep_blob: Whether a blob may be kept, and keeps it, if that is wanted.
    """
    place = f"{source}-{item.offset}"
    if isinstance(item, Unread):
        ended = note_unread(item.body, still_open)
        return ShapedItem(maker.shape_unread(item.body, place, item.reason.partition(":")[0]), ended)
    if isinstance(item, Damage):
        return None
    if isinstance(item.record, Blob):
        is_kept = keep_blob(item.record)
        return ShapedItem(Shaped([], is_whole=True) if is_kept else maker.shape_unread(b"", place, _NO_BLOB), None)
    ended = note_open(item.record, still_open)
    return ShapedItem(maker.shape(item.record, place), ended)


def note_open(record: object, still_open: OpenRecords) -> OpenKey | None:
    """Remember what a record begins and forget what it ends; its key, if that may have begun in an earlier segment."""
    key: OpenKey
    if isinstance(record, OpStart):
        key = "op", record.op_id
        before = still_open.get(key)
        if isinstance(before, OpStart) and before.items:
            before.items.extend(record.items)  # not `with_items`, which would copy all of a stream for each piece
        else:
            still_open[key] = before.with_items(record) if isinstance(before, OpStart) else record
        return None
    if isinstance(record, OpEnd):
        key = "op", record.op_id
    elif isinstance(record, TrajectoryStart):
        still_open["trajectory", record.trajectory_id] = record
        return None
    elif isinstance(record, TrajectoryEnd):
        key = "trajectory", record.trajectory_id
    else:
        return None
    begun = still_open.pop(key, None)
    # A stream goes on with records of its start: the first of them may be in an earlier segment.
    return key if begun is None or (isinstance(begun, OpStart) and begun.items) else None


def note_unread(body: bytes, still_open: OpenRecords) -> OpenKey | None:
    """As `note_open`, for an end that cannot be read: if it can be told what it ends, that is not open any more."""
    tag, fields = read_partly(body)
    kind, name = {"op_end": ("op", "op_id"), "trajectory_end": ("trajectory", "trajectory_id")}.get(tag, ("", ""))
    if name not in fields:
        return None
    key: OpenKey = (kind, fields[name])
    return key if still_open.pop(key, None) is None else None


def open_place(path: Path, record: OpStart | TrajectoryStart) -> str:
    """What stands for the place of a record that an earlier segment had."""
    return f"{path.stem}-open-{xxhash.xxh3_64_hexdigest(encode_record(record))}"


def writer_of(path: Path) -> str:
    """The writer of a segment, by its name."""
    return path.stem.rpartition("-")[0]


def is_last(path: Path) -> bool:
    """Whether the writer made no further segment. It opens the next before it seals the last, so then it is gone."""
    writer, _, number = path.stem.rpartition("-")
    return not path.with_name(f"{writer}-{int(number) + 1:06d}.seg").exists()


def carried_file(path: Path, shift: int) -> Path:
    writer, _, number = path.stem.rpartition("-")
    return path.with_name(f"{writer}-{int(number) + shift:06d}.open")


class Carried(NamedTuple):
    """What a writer's next segment needs of those before."""

    still_open: OpenRecords
    past: Past


def read_carried(path: Path) -> Carried:
    """What the segment before has left.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        saved = msgspec.msgpack.decode(_bytes_of(path), type=_Saved)
        records = [decode_record(body) for body in saved.records]
    except FileNotFoundError:
        return Carried({}, Past())
    except (OSError, RecursionError, msgspec.MsgspecError) as fault:
        raise ValueError(str(fault)) from fault
    still_open: OpenRecords = {}
    for each in records:
        if isinstance(each, OpStart | TrajectoryStart):
            note_open(each, still_open)
    return Carried(still_open, Past.load(saved.past))


def _bytes_of(path: Path) -> bytes:
    with open_private(path) as file:
        contents: bytes = file.read()
        return contents


class _Saved(msgspec.Struct, array_like=True):
    records: list[bytes]
    past: bytes


def _write_carried(path: Path, records: OpenRecords, past: Past) -> None:
    saved = _Saved([encode_record(record) for record in records.values()], past.dump())
    replace_file(path, msgspec.msgpack.encode(saved), durable=True)
