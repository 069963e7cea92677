"""What one backend was given so far: append-only files of JSON lines, one per host, synced after each batch.

    ["sent", TRAJECTORY_ID, RECORDS, SCORED_NS, BYTES, TIME_S, REASON, BY_HAND]

Of what all hosts say of a trajectory, that counts which speaks of the most of it: of more records, then of newer
scores, then of having been sent, then the last. A line that a kill cut off is as good as never written: what it spoke
of is sent again, under the same ids. Kept in memory as Arrow columns, because a run has millions of trajectories.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rolltrace.files import make_folder, open_file, open_private

SendState = Literal["sent", "refused", "held"]
SENT: SendState = "sent"
REFUSED: SendState = "refused"
HELD: SendState = "held"
_DAY_SEC = 86_400


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One line: what became of a trajectory."""

    state: SendState
    trajectory_id: str
    records: int
    """How many ops and events it had by then: when it has more, it is sent again."""
    scored_ns: int = 0
    """When the newest score was given that the backend knows."""
    bytes: int = 0
    time_s: int = 0
    """When it was added."""
    reason: str = ""
    by_hand: bool = False
    """Sent by `rolltrace sync`, not in the background."""


_TYPES = (pa.string(), pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.string(), pa.bool_())
_SCHEMA = pa.schema([*zip(Entry.__struct_fields__, _TYPES), ("is_own", pa.bool_())])
_decode, _encode = msgspec.json.Decoder(Entry).decode, msgspec.json.Encoder().encode
_NEWEST = """
SELECT trajectory_id, unnest(arg_max(
    {'state': state, 'records': records, 'scored_ns': scored_ns, 'reason': reason, 'by_hand': by_hand,
     'is_own': is_own}, (records, scored_ns, state = 'sent', number)))
FROM (SELECT *, row_number() OVER () AS number FROM lines) GROUP BY trajectory_id
"""


class SentBy(NamedTuple):
    """How many trajectories a backend has, by who sent them last."""

    background: int
    by_hand: int
    other_hosts: int

    @property
    def total(self) -> int:
        return sum(self)


class _File(NamedTuple):
    """What was read of one file."""

    inode: int
    end: int
    """How many bytes."""
    lines: pa.Table


class Position:
    """The entries of one file, and of those that it stands beside. One process at a time adds to it: the caller holds
    the outbox's lock."""

    def __init__(self, path: Path, others: Callable[[], list[Path]] = list, clean: Callable[[str], str] = str) -> None:
        """`others` gives the files of other hosts, which are only read; `clean` takes credentials out of reasons, which
        are what a vendor said."""
        self.path = path
        self._others = others
        self._clean = clean
        self._files: dict[Path, _File] = {}
        self._newest: pa.Table | None = None

    def load(self) -> None:
        """Read what is new in the files."""
        paths = [self.path, *self._others()]
        files = {path: file for path in paths if (file := self._read_on(path)) is not None}
        if files != self._files:
            self._files, self._newest = files, None

    def _read_on(self, path: Path) -> _File | None:
        before = self._files.get(path)
        try:
            # Opened, not only looked up: then a network file system asks its server what there is now.
            with open_private(path) as file:
                inode = os.fstat(file.fileno()).st_ino
                if before is None or before.inode != inode or os.fstat(file.fileno()).st_size < before.end:
                    before = _File(inode, 0, _SCHEMA.empty_table())
                file.seek(before.end)
                content: bytes = file.read()
        except FileNotFoundError:
            return None
        whole = content[: content.rfind(b"\n") + 1]
        if not whole:
            return before
        lines = [line for line in map(self._parse, whole.splitlines()) if line is not None]
        columns: list[list[Any]] = [[getattr(line, name) for line in lines] for name in Entry.__struct_fields__]
        columns.append([path == self.path] * len(lines))
        read = pa.table([pa.array(column, field.type) for column, field in zip(columns, _SCHEMA)], schema=_SCHEMA)
        return _File(inode, before.end + len(whole), pa.concat_tables([before.lines, read]))

    def _parse(self, line: bytes) -> Entry | None:
        try:
            entry = _decode(line)
        except (msgspec.MsgspecError, ValueError):
            return None
        return msgspec.structs.replace(entry, reason=self._clean(entry.reason)) if entry.reason else entry

    def add(self, entries: Iterable[Entry]) -> None:
        """Remember these. When it returns they are on the disk."""
        now_s = int(time.time())
        lines = [
            _encode(msgspec.structs.replace(entry, time_s=now_s, reason=self._clean(entry.reason))) + b"\n"
            for entry in entries
        ]
        make_folder(self.path.parent)
        with open(self.path, "a+b", opener=open_file) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            is_torn = file.read(1) not in (b"", b"\n")
            file.write(b"\n" * is_torn + b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
        self.load()

    def entries(self) -> pa.Table:
        """One row per trajectory: state, records, scored_ns, reason, by_hand, is_own."""
        if self._newest is None:
            lines = self._lines()
            with duckdb.connect() as connection:
                connection.register("lines", lines)
                self._newest = connection.sql(_NEWEST).to_arrow_table()
        return self._newest

    def _lines(self) -> pa.Table:
        return pa.concat_tables([_SCHEMA.empty_table(), *(file.lines for file in self._files.values())])

    def count(self, state: SendState) -> int:
        """How many trajectories are in this state."""
        return _sum(pc.equal(self.entries()["state"], state))

    @property
    def reasons(self) -> Counter[str]:
        """Why trajectories were refused."""
        entries = self.entries()
        return Counter(entries.filter(pc.equal(entries["state"], REFUSED))["reason"].to_pylist())

    def sent_by(self) -> SentBy:
        """How many trajectories were sent, and by whom."""
        entries = self.entries()
        sent = entries.filter(pc.equal(entries["state"], SENT))
        own, by_hand = _sum(sent["is_own"]), _sum(pc.and_(sent["is_own"], sent["by_hand"]))
        return SentBy(own - by_hand, by_hand, len(sent) - own)

    @property
    def bytes_today(self) -> int:
        """How much was sent since midnight, UTC."""
        lines, midnight_s = self._lines(), int(time.time()) // _DAY_SEC * _DAY_SEC
        return _sum(lines.filter(pc.greater_equal(lines["time_s"], midnight_s))["bytes"])


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)
