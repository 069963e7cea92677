"""What one backend was given so far: an append-only file of JSON lines, synced after each batch.

    ["sent", TRAJECTORY_ID, RECORDS, SCORED_NS, BYTES, TIME_S]             and "sync" if somebody sent it by hand
    ["refused", TRAJECTORY_ID, RECORDS, REASON]
    ["held", TRAJECTORY_ID, RECORDS]

The last line of a trajectory counts. A line that a kill cut off is as good as never written: what it spoke of is sent
again, under the same ids. Each host has a file of its own, and reads those of the others: what one of them has sent is
sent. Kept in memory as Arrow columns, because a run has millions of trajectories.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from rolltrace.files import make_folder, open_file, open_private, replace_file

SENT, REFUSED, HELD = 1, 2, 3
_WORDS = {"sent": SENT, "refused": REFUSED, "held": HELD}
_SCHEMA = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("state", pa.int8()),
        ("records", pa.int64()),
        ("scored_ns", pa.int64()),
        ("by_hand", pa.bool_()),
    ]
)
_BY_HAND = "sync"
_MOST_RECENT = 4096
_DAY_SEC = 86_400
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, KeyError)


class Entry(NamedTuple):
    """One line: what became of a trajectory."""

    state: int
    trajectory_id: str
    records: int
    """How many ops and events it had by then: when it has more, it is sent again."""
    scored_ns: int = 0
    """When the newest score was given that the backend knows."""
    bytes: int = 0
    reason: str = ""
    by_hand: bool = False
    """Sent by `rolltrace sync`, not in the background."""


class SentBy(NamedTuple):
    """How many trajectories a backend has, by who sent them last."""

    background: int
    by_hand: int
    other_hosts: int

    @property
    def total(self) -> int:
        return sum(self)


class _Contents(NamedTuple):
    """What a file says."""

    entries: dict[str, Entry]
    """The last one of each trajectory."""
    bytes: Counter[int]
    """Day since 1970 -> how much was sent."""
    lines: int
    unreadable: int


class Position:
    """The entries of one file, and of those that it stands beside. One process at a time adds to it: the caller holds
    the outbox's lock."""

    def __init__(self, path: Path, others: Callable[[], list[Path]] = list, clean: Callable[[str], str] = str) -> None:
        """`others` gives the files of other hosts, which are only read; `clean` takes credentials out of reasons, which
        are what a vendor said."""
        self.path = path
        self._other_files = others
        self._clean = clean
        self._others: dict[Path, tuple[object, pa.Table, Counter[str], Counter[int]]] = {}
        self._reasons: Counter[str] = Counter()
        self._settled = _SCHEMA.empty_table()
        self._recent: dict[str, Entry] = {}
        self._bytes: Counter[int] = Counter()
        """Day since 1970 -> how much was sent."""
        self._last_look: object = None
        self._untidy = False

    def load(self) -> None:
        """Read the files, if they are not as we know them."""
        self._load_others()
        if self._last_look is not None and self._last_look == _look(self.path):
            return
        contents = _read(self.path)
        self._settled, self._recent = _table(contents.entries.values()), {}
        self._bytes, self._reasons = contents.bytes, self._reasons_in(contents)
        self._last_look = _look(self.path)
        self._untidy = contents.unreadable > 0 or contents.lines > 2 * len(contents.entries) + _MOST_RECENT

    def _load_others(self) -> None:
        before, self._others = self._others, {}
        for path in self._other_files():
            look = _look(path)
            if path in before and before[path][0] == look:
                self._others[path] = before[path]
            else:
                contents = _read(path)
                self._others[path] = (
                    look,
                    _table(contents.entries.values()),
                    self._reasons_in(contents),
                    contents.bytes,
                )

    def _reasons_in(self, contents: _Contents) -> Counter[str]:
        refused = (entry for entry in contents.entries.values() if entry.state == REFUSED)
        return Counter(self._clean(entry.reason) for entry in refused)

    @property
    def reasons(self) -> Counter[str]:
        """Why trajectories were refused."""
        return sum((each[2] for each in self._others.values()), self._reasons)

    def tidy(self) -> None:
        """Write the file anew if a kill tore it or most of it is out of date. Only with the outbox's lock."""
        self.load()
        if not self._untidy:
            return
        lines: dict[str, bytes] = {}
        today = int(time.time()) // _DAY_SEC
        for line in _lines(self.path):
            try:
                entry, at_s = _parsed(line)
            except _UNREADABLE:
                continue
            before = lines.pop(entry.trajectory_id, b"")  # to the end: lines stay in the order of their writing
            # What was sent today stays counted, also if it was brought up to date since.
            lines[entry.trajectory_id] = before + line if at_s // _DAY_SEC == today else line
        self._replace(lines.values())

    def add(self, entries: Iterable[Entry]) -> None:
        """Remember these. When it returns they are on the disk."""
        cleaned = [entry._replace(reason=self._clean(entry.reason)) if entry.reason else entry for entry in entries]
        now_s = int(time.time())
        make_folder(self.path.parent)
        with open(self.path, "ab", opener=open_file) as file:
            file.write(b"".join(_line(entry, now_s) for entry in cleaned))
            file.flush()
            os.fsync(file.fileno())
        for entry in cleaned:
            self._recent[entry.trajectory_id] = entry
            self._bytes[now_s // _DAY_SEC] += entry.bytes
            if entry.state == REFUSED:
                self._reasons[entry.reason] += 1
        self._last_look = _look(self.path)
        if len(self._recent) > _MOST_RECENT:
            self._settle()

    def compare(self, surveyed: pa.Table) -> pa.Table:
        """The rows of a survey with the columns `state`, `known_records` and `known_scored_ns`; null if not known."""
        entries = self._all_entries()
        at = pc.index_in(surveyed["trajectory_id"], value_set=entries["trajectory_id"])
        for name, column in (("state", "state"), ("known_records", "records"), ("known_scored_ns", "scored_ns")):
            surveyed = surveyed.append_column(name, entries[column].take(at))
        return surveyed

    def count(self, state: int) -> int:
        """How many trajectories are in this state."""
        return int(pc.sum(pc.equal(self._all_entries()["state"], state)).as_py() or 0)

    def sent_by(self) -> SentBy:
        """How many trajectories were sent, and by whom."""
        entries = self._all_entries()
        mine = self._settled.filter(pc.equal(self._settled["state"], SENT))
        by_hand = int(pc.sum(mine["by_hand"]).as_py() or 0)
        everywhere = int(pc.sum(pc.equal(entries["state"], SENT)).as_py() or 0)
        return SentBy(len(mine) - by_hand, by_hand, everywhere - len(mine))

    def _all_entries(self) -> pa.Table:
        """One row per trajectory: of what the hosts say of it, that which speaks of the most of it."""
        self._settle()
        entries = self._settled
        for _, table, _, _ in self._others.values():
            if len(table):
                theirs = table.filter(_says_more(table, entries))
                ours = pc.invert(pc.is_in(entries["trajectory_id"], value_set=theirs["trajectory_id"]))
                entries = pa.concat_tables([entries.filter(ours), theirs]).combine_chunks()
        return entries

    @property
    def bytes_today(self) -> int:
        """How much was sent since midnight, UTC."""
        day = int(time.time()) // _DAY_SEC
        return self._bytes[day] + sum(each[3][day] for each in self._others.values())

    def _settle(self) -> None:
        if not self._recent:
            return
        fresh = _table(self._recent.values())
        stale = pc.is_in(self._settled["trajectory_id"], value_set=fresh["trajectory_id"])
        self._settled = pa.concat_tables([self._settled.filter(pc.invert(stale)), fresh]).combine_chunks()
        self._recent = {}

    def _replace(self, lines: Iterable[bytes]) -> None:
        replace_file(self.path, lines, durable=True)
        self._last_look, self._untidy = _look(self.path), False


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with open_private(path) as file:
            yield from file
    except FileNotFoundError:
        return


def _says_more(table: pa.Table, entries: pa.Table) -> Any:
    """Which entries of a table speak of more than those that are known: of more records, of newer scores, or of
    having been sent."""
    at = pc.index_in(table["trajectory_id"], value_set=entries["trajectory_id"])
    more = pc.is_null(at)
    same: Any = pa.scalar(True)
    for name in ("records", "scored_ns"):
        current = entries[name].take(at)
        more = pc.or_(more, pc.fill_null(pc.and_(same, pc.greater(table[name], current)), False))
        same = pc.and_(same, pc.equal(table[name], current))
    sent = pc.and_(pc.equal(table["state"], SENT), pc.not_equal(entries["state"].take(at), SENT))
    return pc.or_(more, pc.fill_null(pc.and_(same, sent), False))


def _look(path: Path) -> object:
    """Opened, not only looked up: then a network file system asks its server what there is now."""
    try:
        with open_private(path) as file:
            stat = os.fstat(file.fileno())
    except FileNotFoundError:
        return (0, 0)
    return (stat.st_ino, stat.st_size)


def _read(path: Path) -> _Contents:
    entries: dict[str, Entry] = {}
    sent_bytes: Counter[int] = Counter()
    lines = unreadable = 0
    for line in _lines(path):
        lines += 1
        try:
            entry, at_s = _parsed(line)
        except _UNREADABLE:
            unreadable += 1
            continue
        entries[entry.trajectory_id] = entry
        sent_bytes[at_s // _DAY_SEC] += entry.bytes
    return _Contents(entries, sent_bytes, lines, unreadable)


def _line(entry: Entry, now_s: int) -> bytes:
    if entry.state == SENT:
        fields: list[Any] = ["sent", entry.trajectory_id, entry.records, entry.scored_ns, entry.bytes, now_s]
        fields += [_BY_HAND] * entry.by_hand
    elif entry.state == REFUSED:
        fields = ["refused", entry.trajectory_id, entry.records, entry.reason]
    else:
        fields = ["held", entry.trajectory_id, entry.records]
    return msgspec.json.encode(fields) + b"\n"


def _parsed(line: bytes) -> tuple[Entry, int]:
    """The entry of a line, and when it was sent. Half a number would be a number too: a line has an end."""
    if not line.endswith(b"\n"):
        raise ValueError("cut off")
    word, trajectory_id, records, *rest = msgspec.json.decode(line)
    state = _WORDS[word]
    if state == SENT:
        scored_ns, size, at_s, *by = rest
        sent = Entry(state, trajectory_id, int(records), int(scored_ns), int(size), by_hand=_BY_HAND in by)
        return sent, int(at_s)
    return Entry(state, trajectory_id, int(records), reason=str(rest[0]) if rest else ""), 0


def _table(entries: Iterable[Entry]) -> pa.Table:
    rows = list(entries)
    columns = [
        [row.trajectory_id for row in rows],
        [row.state for row in rows],
        [row.records for row in rows],
        [row.scored_ns for row in rows],
        [row.by_hand for row in rows],
    ]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, _SCHEMA)], schema=_SCHEMA)
