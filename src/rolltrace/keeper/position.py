"""What one backend was given so far: append-only files of JSON lines, one per host, synced after each batch.

    ["sent", TRAJECTORY_ID, RECORDS, SCORED_NS, BYTES, TIME_S, REASON, BY_HAND]

Of what all hosts say of a trajectory, that counts which speaks of the most of it: of more records, then of newer
scores, then of having been sent, then the last. A line that a kill cut off is as good as never written: what it spoke
of is sent again, under the same ids.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import msgspec
import pyarrow as pa

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


_LINES = """
CREATE TABLE lines (
    state VARCHAR, trajectory_id VARCHAR, records BIGINT, scored_ns BIGINT, bytes BIGINT, time_s BIGINT,
    reason VARCHAR, by_hand BOOLEAN, path VARCHAR
)
"""
_NEWEST = """
CREATE OR REPLACE TABLE entries AS SELECT trajectory_id, unnest(arg_max(
    {'state': state, 'records': records, 'scored_ns': scored_ns, 'reason': reason, 'by_hand': by_hand,
     'is_own': path = ?}, (records, scored_ns, state = 'sent', rowid)))
FROM lines GROUP BY trajectory_id
"""
_decode, _encode = msgspec.json.Decoder(Entry).decode, msgspec.json.Encoder().encode


class SentBy(NamedTuple):
    """How many trajectories a backend has, by who sent them last."""

    background: int
    by_hand: int
    other_hosts: int

    @property
    def total(self) -> int:
        return sum(self)


class Position:
    """The entries of one file, and of those of other hosts, in a database in memory. One process at a time adds to it:
    the caller holds the outbox's lock."""

    def __init__(self, path: Path, others: Callable[[], list[Path]] = list, clean: Callable[[str], str] = str) -> None:
        """`others` gives the files of other hosts, which are only read; `clean` takes credentials out of reasons."""
        self.path = path
        self._others = others
        self._clean = clean
        self._ends: dict[Path, tuple[int, int]] = {}
        """Of each file that was read: its inode, and how many bytes were read."""
        self._database = duckdb.connect()
        self._database.execute(_LINES)
        self._is_stale = True

    def load(self) -> None:
        """Read what is new in the files."""
        for path in [self.path, *self._others()]:
            try:
                # Opened, not only looked up: then a network file system asks its server what there is now.
                with open_private(path) as file:
                    status = os.fstat(file.fileno())
                    inode, end = self._ends.get(path, (status.st_ino, 0))
                    if inode != status.st_ino or status.st_size < end:  # another file than before
                        self._database.execute("DELETE FROM lines WHERE path = ?", [str(path)])
                        end = 0
                    file.seek(end)
                    content: bytes = file.read()
            except FileNotFoundError:
                continue
            whole = content[: content.rfind(b"\n") + 1]
            self._ends[path] = status.st_ino, end + len(whole)
            entries = []
            for line in whole.splitlines():
                with suppress(msgspec.MsgspecError, ValueError):
                    entries.append(_decode(line))
            if entries:
                columns = {name: [getattr(entry, name) for entry in entries] for name in Entry.__struct_fields__}
                self._database.register("fresh", pa.table({**columns, "path": pa.repeat(str(path), len(entries))}))
                self._database.execute("INSERT INTO lines FROM fresh")
                self._is_stale = True

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

    def ask(self, sql: str, *values: Any) -> duckdb.DuckDBPyConnection:
        """The answer to a question about the table `entries`, one row per trajectory (state, records, scored_ns,
        reason, by_hand, is_own), and about `lines`."""
        if self._is_stale:
            self._database.execute(_NEWEST, [str(self.path)])
            self._is_stale = False
        return self._database.execute(sql, values)

    def compare(self, surveyed: pa.Table, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The answer to a question that also names the table `surveyed`."""
        self._database.register("surveyed", surveyed)
        try:
            return self.ask(sql, *values).fetchall()
        finally:
            self._database.unregister("surveyed")

    def count(self, state: SendState) -> int:
        """How many trajectories are in this state."""
        ((count,),) = self.ask("SELECT count(*) FROM entries WHERE state = ?", state).fetchall()
        return int(count)

    @property
    def reasons(self) -> Counter[str]:
        """Why trajectories were refused."""
        return Counter(
            dict(self.ask("SELECT reason, count(*) FROM entries WHERE state = 'refused' GROUP BY 1").fetchall())
        )

    def sent_by(self) -> SentBy:
        """How many trajectories were sent, and by whom."""
        sql = (
            "SELECT count(*) FILTER (is_own AND NOT by_hand), count(*) FILTER (is_own AND by_hand), "
            "count(*) FILTER (NOT is_own) FROM entries WHERE state = 'sent'"
        )
        return SentBy(*self.ask(sql).fetchall()[0])

    @property
    def bytes_today(self) -> int:
        """How much was sent since midnight, UTC."""
        midnight_s = int(time.time()) // _DAY_SEC * _DAY_SEC
        ((size,),) = self.ask("SELECT coalesce(sum(bytes), 0) FROM lines WHERE time_s >= ?", midnight_s).fetchall()
        return int(size)
