"""The one way in which parts are replaced: by compaction, by pruning, by anything else.

1. What is about to be replaced by what is noted, in a file beside the journals of this host.
2. The new part appears. From that moment readers take it and leave out the parts that it names.
3. After a grace period, in which whoever has listed the old parts can finish reading them, they are removed: those that
   were noted, and only while another part accounts for their rows. What a footer says is never enough.

A kill between any two of these loses and doubles nothing: a note without its new part is forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import xxhash

from rolltrace._arrow import pa, pq
from rolltrace.files import host_tag, make_folder, open_file, read_page, replace_file
from rolltrace.journal import journal_folder
from rolltrace.record import Table
from rolltrace.store.arrow import as_today
from rolltrace.store.layout import COMPACTED, Partition, data_folder, parts_in, source_of, step_folders
from rolltrace.store.parts import Replaced, hidden_parts, replaced_by, row_count, write_table

GRACE_SEC = 30.0
"""How long replaced parts stay for those who are reading them."""
_NOTES = "replaced.jsonl"
_KEY = ("trajectory_id", "op_id", "name", "flag", "event", "reason", "worker", "start_ns", "time_ns")
_NAMES_KEPT_SEC = 3600.0
"""How long the names of parts are handed on from one that stands for them to the next. A reader that saw a segment in
the journal must find its name among the parts; none takes that long. Names of imports are always kept."""


class _Note(msgspec.Struct, array_like=True):
    new: str
    old: list[str]
    time_ns: int


def replace_parts(
    store: Path, partition: Partition, table: Table, parts: Sequence[Path], rows: pa.Table, *, level: int = 9
) -> Path:
    """Write a part with these rows that stands for the others, all of one step and table. The caller holds the lock.

    Args:
        store, partition, table: Where.
        parts: Those that it stands for; their rows have all been read.
        rows: Their rows, except what is meant to go.
        level: Of zstd.
    """
    merged = [Replaced(source_of(part), row_count(part)) for part in parts]
    # Of a part that is pruned all names stay: a lake may have those that it was merged from, and not itself yet.
    before = [each for part in parts for each in (_handed_on(part) if len(parts) > 1 else replaced_by(part))]
    names = sorted(each.source for each in (*merged, *before))
    # With how many rows there are now: pruning the same part twice gives two parts.
    source = f"{COMPACTED}{host_tag()}-{xxhash.xxh3_64_hexdigest(' '.join([*names, str(len(rows))]).encode())}"
    new = partition.folder(store) / f"{table.name}--{source}.parquet"
    _note(store, new, parts)
    return write_table(
        store,
        partition,
        table,
        source,
        as_today(rows, table),
        replaces=[*merged, *before],
        merged=len(merged),
        removed=sum(each.rows or 0 for each in merged) - len(rows),
        level=level,
    )


def remove_replaced(store: Path, *, grace_sec: float = GRACE_SEC) -> bool:
    """Remove the parts that this host has replaced that long ago; whether others wait. The caller holds the lock."""
    notes = _read_notes(store)
    if not notes:
        return False
    now_ns = time.time_ns()
    # A clock that was set back must not keep them for ever.
    waiting = [note for note in notes if 0 <= now_ns - note.time_ns < grace_sec * 1e9]
    for note in notes:
        if note not in waiting:
            _remove(store, note)
    if len(waiting) < len(notes):
        replace_file(_file(store), (msgspec.json.encode(note) + b"\n" for note in waiting))
    return bool(waiting)


def remove_leftovers(store: Path, owned: Callable[[Path], bool], *, grace_sec: float = GRACE_SEC) -> int:
    """Remove replaced parts of which no note is left, once their rows are seen to be in the part that stands for them.

    The caller holds the lock, and has removed the noted ones.
    """
    noted = {name for note in _read_notes(store) for name in note.old}
    count = 0
    for folder in step_folders(store):
        for old, new in hidden_parts(folder).items():
            if not owned(old) or str(old.relative_to(data_folder(store))) in noted:
                continue
            if 0 <= time.time() - new.stat().st_mtime < grace_sec or not _keys(old) <= _keys(new):
                continue
            old.unlink(missing_ok=True)
            count += 1
    return count


def _keys(part: Path) -> set[tuple[object, ...]]:
    """What tells the rows of a part apart."""
    with pq.ParquetFile(part) as file:
        rows = file.read([name for name in _KEY if name in file.schema_arrow.names])
    return set(zip(*(column.to_pylist() for column in rows.columns)))


def _remove(store: Path, note: _Note) -> None:
    """Remove those that are replaced: by the new part or, when that was merged itself since, by another."""
    hidden = hidden_parts((data_folder(store) / note.new).parent)
    for name in note.old:
        old = data_folder(store) / name
        if old in hidden:
            old.unlink(missing_ok=True)


def _handed_on(part: Path) -> list[Replaced]:
    """The names that the part stands for and that somebody may still look for."""
    known = replaced_by(part)
    if not known:
        return []
    age_sec = time.time() - part.stat().st_mtime
    if 0 <= age_sec < _NAMES_KEPT_SEC:
        return list(known)
    there = {source_of(each) for each in parts_in(part.parent)}
    return [each for each in known if each.source in there or each.source.startswith("import-")]


def _file(store: Path) -> Path:
    return journal_folder(store) / _NOTES


def _note(store: Path, new: Path, old: Sequence[Path]) -> None:
    data = data_folder(store)
    note = _Note(str(new.relative_to(data)), [str(part.relative_to(data)) for part in old], time.time_ns())
    file = _file(store)
    make_folder(file.parent)
    with open(file, "ab", opener=open_file) as out:
        out.write(msgspec.json.encode(note) + b"\n")


def _read_notes(store: Path) -> list[_Note]:
    try:
        lines = read_page(_file(store)).splitlines()
    except OSError:
        return []
    notes = []
    for line in lines:
        try:
            note = msgspec.json.decode(line, type=_Note)
        except msgspec.MsgspecError:  # cut off by a kill: its part was not written either
            continue
        if all(_is_plain(name) for name in (note.new, *note.old)):
            notes.append(note)
    return notes


def _is_plain(name: str) -> bool:
    """Whether it is the path of a part below the data folder, and no way out of it."""
    words = name.split("/")
    return len(words) == 4 and not any(word in ("", ".", "..") for word in words)
