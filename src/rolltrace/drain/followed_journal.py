"""One journal on its way into the tables: how far it was read, what is open in it, and its records as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from rolltrace._guard import logger
from rolltrace.drain.attempts import Aside
from rolltrace.drain.checks import Checks, Past
from rolltrace.drain.drain_state import (
    JournalState,
    OpenKey,
    OpenRecords,
    decode_open,
    name_open,
    note_record,
    note_unread,
    open_key,
)
from rolltrace.drain.redact import Redactor
from rolltrace.drain.row import Shaped
from rolltrace.drain.rows import RowMaker, encode_stream
from rolltrace.drain.table_rows import Home, TableRows, sample_number
from rolltrace.drain.text import Memory
from rolltrace.drain.transcripts import Transcripts
from rolltrace.flags import ALL
from rolltrace.journal import FRAME, Damage, Entry, JournalTail, Losses, Position, Stretch, Unread
from rolltrace.record import (
    BLOB_NAME,
    SPANS,
    TEXTS,
    TRAJECTORIES,
    TRANSITIONS,
    Blob,
    Event,
    OpEnd,
    OpStart,
    TrajectoryEnd,
    TrajectoryStart,
    encode_record,
)
from rolltrace.tables import LiveOp, LiveWriter, Place

_NO_BLOB = "not the name of a blob"
_NO_ROWS = Shaped([], is_whole=True)


class FollowedJournal:
    """One journal."""

    def __init__(
        self,
        tail: JournalTail,
        state: JournalState,
        redactor: Redactor,
        memory: Memory,
        transcripts: Transcripts,
        aside: Aside,
    ) -> None:
        self.tail = tail
        self.position = tail.position
        """Behind what was shaped."""
        self.committed = tail.position
        """Behind what is in the tables."""
        self.is_new = state.position < 0
        """Nothing of it is in the tables."""
        self.is_over = state.is_over
        """Its writer is gone, and all of it was shaped."""
        self.checks = ALL
        self.shaping = tail.segment
        """The file whose records are shaped, or were last."""
        self._open: OpenRecords = decode_open(state.open_records)
        self._past = Past.load(state.past)
        self._losses: dict[str, dict[str, int]] = state.losses
        self._redactor = redactor
        self._memory = memory
        self._transcripts = transcripts
        self._aside = aside
        self._maker: RowMaker | None = None
        self._meta: Mapping[str, Any] = {}
        self._is_live = True
        self._begun: dict[OpenKey, tuple[OpStart | TrajectoryStart, str]] = {}
        """What began in the stretch now being shaped and has not ended in it, and where that stands."""
        self._unreadable = 0
        """Records of that stretch of which something could not be read."""
        self._blobs: list[Blob] = []
        """Those whose place is told by the record behind them."""

    @property
    def segment(self) -> Path:
        """The file that is read next."""
        return self.tail.segment

    def has_news(self) -> bool:
        """Whether there may be something to read."""
        return not self.is_over and (self.tail.has_news() or self.tail.is_abandoned())

    def is_gone(self) -> bool:
        """Whether its files are not there any more: another drainer is done with them, or somebody removed them."""
        return not self.tail.has_files()

    def skip_segment(self) -> None:
        """Go on behind a file that is no journal of ours."""
        self.tail.skip_segment()
        self.position = self.tail.position

    def read(self, max_bytes: int, until: Position | None = None) -> Stretch | None:
        """The next stretch, if there is one."""
        stretch = self.tail.read(max_bytes, until)
        if stretch is not None:
            self.shaping = stretch.segment.path
        return stretch

    def save(self) -> JournalState:
        """What has to be remembered of it."""
        position = -1 if self.is_new else self.position.encode()
        return JournalState(
            position, list(map(encode_record, self._open.values())), self._past.dump(), self._losses, self.is_over
        )

    def release(self) -> None:
        """All that was shaped is in the tables: remove the files that are read to their end."""
        self.committed = self.position
        self.tail.release(self.position, is_over=self.is_over)

    def shape(self, stretch: Stretch, rows: TableRows) -> None:
        """Make rows of a stretch."""
        segment = self._redactor.segment(stretch.segment)
        if self._maker is None or segment.meta != self._meta:
            self._meta = segment.meta
            self.checks = str(segment.meta.get("checks", ALL))
            self._maker = RowMaker(segment.meta, self._redactor, self._memory, Checks.of(segment.meta, self._past))
        if self.is_new:
            rows.add_run(segment.meta)
            self.is_new = False
        maker, source = self._maker, segment.path.stem
        damaged = self._unreadable = 0
        for item in stretch.items:
            if isinstance(item, Damage) and not isinstance(item, Unread):
                damaged += 1
                continue
            shaped = self._take(item, maker, source, rows)
            if not shaped.is_whole:
                start = item.offset + FRAME.size - segment.base
                body = item.body if isinstance(item, Unread) else segment.data[start : item.end - segment.base]
                self._keep(f"{source}-{item.offset}", body)
        self._count_begun(maker, rows)
        if stretch.is_over:
            self._interrupt(maker, rows)
        for row in maker.losses(self._new_losses(stretch), damaged):
            rows.add_row(row)
        self._place_blobs(rows, Place(str(self._meta.get("project")), str(self._meta.get("experiment")), None))
        if self._unreadable:
            logger.warning(
                "%d records of %s are unreadable, at least in part; see rolltrace doctor",
                self._unreadable,
                segment.path,
            )
        if stretch.end.sequence != self.position.sequence or stretch.is_over:
            self._losses = {}
        self._is_live = stretch.segment.state == "live"
        self.is_over = stretch.is_over
        # Behind the end of a journal is a position of its own: what was interrupted is told there, once.
        self.position = Position(stretch.end.sequence + 1, 0) if stretch.is_over else stretch.end

    def open_ids(self) -> Iterator[str]:
        """The trajectories that have begun here, or have ops that have, and not ended."""
        return (record.trajectory_id.hex() for record in self._open.values())

    def live_writer(self) -> LiveWriter | None:
        """Its process, if that is there."""
        if self.is_over or not self._is_live or not self._meta:
            return None
        meta = self._meta
        return LiveWriter(
            self.tail.name, str(meta.get("project")), str(meta.get("experiment")), meta.get("run"), meta.get("pid", 0)
        )

    def live_ops(self, homes: Mapping[str, Home]) -> Iterator[LiveOp]:
        """The ops that run in it."""
        if self._maker is None or not self._is_live:
            return
        for record in self._open.values():
            begun = self._maker.begin_columns(record) if isinstance(record, OpStart) else None
            if begun is not None:
                home = homes.get(begun["trajectory_id"])
                place = {} if home is None else home.place._asdict()
                yield msgspec.convert({**begun, **place, "sample_number": sample_number(begun)}, LiveOp)

    def _take(self, item: Entry | Unread, maker: RowMaker, source: str, rows: TableRows) -> Shaped:
        place = f"{source}-{item.offset}"
        if isinstance(item, Unread):
            self._count_begun(maker, rows)
            was_open = note_unread(item.body, self._open)
            shaped = maker.shape_unread(item.body, place, item.reason.partition(":")[0])
            self._add(shaped, rows, was_open=was_open)
            return shaped
        record = item.record
        if type(record) is Blob:
            if not BLOB_NAME.fullmatch(record.hash):
                shaped = maker.shape_unread(b"", place, _NO_BLOB)
                self._add(shaped, rows)
                return shaped
            self._blobs.append(record)
            return _NO_ROWS
        was_open = note_record(record, self._open)
        if isinstance(record, OpStart | TrajectoryStart):
            if was_open:
                self._begun[open_key(record)] = record, place
            return _NO_ROWS
        shaped = maker.shape(record, place)
        if isinstance(record, OpEnd | TrajectoryEnd) and was_open:
            begun = self._begun.get(open_key(record))
            if begun is not None and shaped.is_whole and begun[0].coordinates == record.coordinates:
                del self._begun[open_key(record)]
                was_open = False
            else:
                self._count_begun(maker, rows)
        self._blobs += maker.take_blobs()
        self._add(shaped, rows, record, was_open=was_open)
        return shaped

    def _count_begun(self, maker: RowMaker, rows: TableRows) -> None:
        """Add what has begun and not ended; of what has, the end tells everything."""
        for record, place in self._begun.values():
            if isinstance(record, OpStart):
                if (begun := maker.begin_columns(record)) is not None:
                    rows.begin_op(begun)
                continue
            shaped = maker.shape_unfinished(record, "running", place)
            self._add(shaped, rows, record)
            if not shaped.is_whole:
                self._keep(place, encode_record(record))
        self._begun.clear()

    def _keep(self, place: str, body: bytes) -> None:
        """Keep a record of which something could not be read."""
        self._unreadable += 1
        self._aside.keep(f"{place}.msgpack", body)

    def _add(self, shaped: Shaped, rows: TableRows, record: Any = None, *, was_open: bool = False) -> None:
        for row in shaped.rows:
            if self._blobs:
                self._place_blobs(rows, row.place)
            if row.table is SPANS:
                spoken = None
                if isinstance(record, OpEnd):
                    spoken = self._transcripts.op_ended(record, row.fields, shaped.opened)
                rows.add_row(row, spoken, was_open=was_open)
                continue
            rows.add_row(row)
            if row.table is TRANSITIONS and isinstance(record, Event) and record.event == "transition":
                fields = row.fields
                if fields["trajectory_id"] is not None:
                    told = self._transcripts.step_taken(record, fields["trajectory_id"])
                    rows.add_messages(fields, told.rows)
            elif row.table is TEXTS:
                rows.add_messages(row.fields, self._transcripts.text_told(row.fields).rows)
            elif row.table is TRAJECTORIES and isinstance(record, TrajectoryEnd):
                self._finish(row.fields, rows)

    def _finish(self, fields: dict[str, Any], rows: TableRows) -> None:
        told = self._transcripts.finish(fields["trajectory_id"], fields["end_ns"] or fields["start_ns"])
        rows.add_messages(fields, told.rows)

    def _interrupt(self, maker: RowMaker, rows: TableRows) -> None:
        """Its writer has closed the journal or was killed: what is open will never end."""
        for record in self._open.values():
            place = name_open(self.tail.name, record)
            shaped = maker.shape_unfinished(record, "interrupted", place)
            for row in shaped.rows:
                spoken = None
                if row.table is SPANS and isinstance(record, OpStart):
                    outputs = encode_stream(record, "interrupted")
                    spoken = self._transcripts.values_ended(row.fields, record.inputs, outputs)
                rows.add_row(row, spoken, was_open=row.table is SPANS)
                if row.table is TRAJECTORIES:
                    self._finish(row.fields, rows)
            if not shaped.is_whole:
                self._keep(place, encode_record(record))
        self._open.clear()

    def _new_losses(self, stretch: Stretch) -> Losses:
        """What the writer lost since it was last told."""
        news: dict[str, dict[str, int]] = {}
        for reason, steps in stretch.losses.items():
            told = self._losses.setdefault(reason, {})
            for label, count in steps.items():
                if count > told.get(label, 0):
                    news.setdefault(reason, {})[label] = count - told.get(label, 0)
                    told[label] = count
        return news

    def _place_blobs(self, rows: TableRows, place: Place) -> None:
        for blob in self._blobs:
            rows.add_blob(blob, place)
        self._blobs.clear()
