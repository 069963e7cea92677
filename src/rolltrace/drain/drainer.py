"""Turn journals into the store: one segment after the other, exactly once.

A segment is the unit. Its rows go to parts named after it, then it is removed; a drainer killed anywhere in between
starts the segment over and writes the same parts again. What had begun and not ended in it is carried to the
writer's next segment in a small file beside the journals; when the writer is gone, it becomes `interrupted`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import msgspec

from rolltrace._guard import logger
from rolltrace.drain.checks import Checks, Past
from rolltrace.drain.memory import Memory
from rolltrace.drain.redact import Redactor
from rolltrace.drain.rows import Row, RowMaker
from rolltrace.errors import FormatError
from rolltrace.flags import ALL
from rolltrace.journal import (
    Damage,
    Entry,
    SegmentReader,
    drainer_lock,
    is_live,
    journal_files,
    journal_folder,
    make_folder,
    replace_file,
    tokenizers_pending,
)
from rolltrace.record import Blob, OpEnd, OpStart, TrajectoryEnd, TrajectoryStart, decode_record, encode_record
from rolltrace.record.tables import LOSSES, TRAJECTORIES, Table
from rolltrace.store import Partition, blob_path, note_routes, prepare, write_part

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
        self, store: Path, *, redactor: Redactor | None = None, on_ended: Callable[[Ended], None] | None = None
    ) -> None:
        """`on_ended` is told of what is in the store now, before its segment is removed: after a kill, once more."""
        self.store = store
        self._on_ended = on_ended
        self._folder = journal_folder(store)
        self._redactor = redactor or Redactor.of(store)
        self._memory = Memory(store)
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
        return [path for path in journal_files(self.store) if path.parent == self._folder and not is_live(path)]

    def drain(self, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Drain all that waits; how many segments that were. The caller holds the lock."""
        waiting = self.waiting()
        # In this order: whatever waits was written after the markers of its tokenizers.
        self.postponed = bool(waiting) and tokenizers_pending(self.store)
        if self.postponed:
            return 0
        for done, path in enumerate(waiting):
            progress(done, len(waiting))
            self._drain_segment(path)
        progress(len(waiting), len(waiting))
        return len(waiting)

    def drain_one(self, path: Path) -> None:
        """Drain one segment that its writer has closed. The caller holds the lock."""
        self._drain_segment(path)

    def _drain_segment(self, path: Path) -> None:
        try:
            segment = self._redactor.segment(SegmentReader.open(path))
        except FormatError as fault:
            logger.warning("left alone: %s", fault)
            return
        before, after = carried_file(path, -1), carried_file(path, 0)
        still_open, past = read_carried(before)
        maker = RowMaker(segment.meta, self._redactor, self._memory, Checks.of(segment.meta, past))
        rows: list[Row] = []
        damaged = 0
        for item in segment:
            if isinstance(item, Damage):
                damaged += 1
                continue
            self._take(item, maker, still_open, rows)
        if _is_last(path):  # its writer has closed the journal or was killed: nothing will end these any more
            for record in still_open.values():
                rows += maker.unfinished(record, "interrupted")
            still_open, past = {}, Past()
        note_routes(self.store, segment.meta)
        self._write(segment, rows, damaged)
        if self._on_ended is not None:
            ended = [row.fields["trajectory_id"] for row in rows if row.table is TRAJECTORIES]
            self._on_ended(Ended(path.stem, str(segment.meta.get("checks", ALL)), ended))
        if still_open or past:
            _write_carried(after, still_open, past)
        self.segments += 1
        self.bytes += len(segment.data)
        path.unlink(missing_ok=True)
        before.unlink(missing_ok=True)

    def _take(self, item: Entry, maker: RowMaker, still_open: OpenRecords, rows: list[Row]) -> None:
        record = item.record
        if isinstance(record, Blob):
            self._keep_blob(record)
            return
        if isinstance(record, OpStart):
            still_open["op", record.op_id] = record
        elif isinstance(record, TrajectoryStart):
            still_open["trajectory", record.trajectory_id] = record
        elif isinstance(record, OpEnd):
            still_open.pop(("op", record.op_id), None)
        elif isinstance(record, TrajectoryEnd):
            still_open.pop(("trajectory", record.trajectory_id), None)
        rows.extend(maker.rows(record))

    def _write(self, segment: SegmentReader, rows: list[Row], damaged: int) -> None:
        project = str(segment.meta.get("project", "unknown"))
        experiment = str(segment.meta.get("experiment", "unknown"))
        worker = str(segment.meta.get("writer", "unknown"))
        parts: dict[tuple[int | None, str], list[Row]] = defaultdict(list)
        for row in rows:
            parts[row.step, row.table.name].append(row)
        losses = {reason: dict(steps) for reason, steps in segment.losses.items()}
        if damaged:
            losses["damaged"] = {"": damaged}
        for reason, steps in losses.items():
            for label, count in steps.items():
                at = int(label) if label else None
                fields = {"project": project, "experiment": experiment, "worker": worker, "step": at}
                parts[at, "losses"].append(Row(LOSSES, at, {**fields, "reason": reason, "count": count}))
        for (step, _), group in parts.items():
            table: Table = group[0].table
            partition = Partition(project, experiment, step)
            write_part(self.store, partition, table, segment.path.stem, (row.fields for row in group))

    def _keep_blob(self, blob: Blob) -> None:
        path = blob_path(self.store, blob.hash)
        if path.exists():
            return
        make_folder(path.parent)
        replace_file(path, encode_record(blob))


def _is_last(path: Path) -> bool:
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
    try:
        saved = msgspec.msgpack.decode(path.read_bytes(), type=_Saved)
    except FileNotFoundError:
        return Carried({}, Past())
    records = [decode_record(body) for body in saved.records]
    still_open: OpenRecords = {
        ("op", each.op_id) if isinstance(each, OpStart) else ("trajectory", each.trajectory_id): each
        for each in records
        if isinstance(each, OpStart | TrajectoryStart)
    }
    return Carried(still_open, Past.load(saved.past))


class _Saved(msgspec.Struct, array_like=True):
    records: list[bytes]
    past: bytes


def _write_carried(path: Path, records: OpenRecords, past: Past) -> None:
    saved = _Saved([encode_record(record) for record in records.values()], past.dump())
    replace_file(path, msgspec.msgpack.encode(saved))
