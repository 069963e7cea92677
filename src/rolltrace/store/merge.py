"""The one way in which parts are replaced: by compaction, by pruning, by anything else.

1. What is about to be replaced by what is noted, in a file of its own in `STORE/upkeep/replaced`.
2. The new part appears, as the next generation of its step and table. From that moment readers take it and leave out
   the parts that it names.
3. After a grace period, in which whoever has listed the old parts can finish reading them, they are removed: those that
   were noted, and only while another part accounts for their rows. What a footer says is never enough.

A kill between any two of these loses and doubles nothing: a note without its new part is forgotten.

Several hosts may do this at once, because one that was suspended does not know that its lease is gone. A generation is
given once (`files.exclusive`). Whoever replaces parts looks at the folder, sees to it that they are all to be read, and
takes the next generation; if another host has replaced any part of this step and table since, that generation is taken,
and the work is given up. So a part is replaced at most once, replaced parts are never read again, and to remove them is
right however late it happens.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import xxhash

from rolltrace._arrow import pa, pq
from rolltrace.files import host_name, make_folder, read_page, replace_file
from rolltrace.record import Table
from rolltrace.store.arrow import as_today
from rolltrace.store.layout import (
    Generation,
    Partition,
    data_folder,
    generation_of,
    part_name,
    parts_in,
    source_of,
    step_folders,
    table_of,
)
from rolltrace.store.lease import store_id
from rolltrace.store.parts import (
    PartOrigins,
    Replaced,
    hidden_parts,
    replaced_by,
    row_count,
    visible_parts,
    write_table,
)

GRACE_SEC = 30.0
"""How long replaced parts stay for those who are reading them."""
_KEY = ("trajectory_id", "op_id", "name", "flag", "event", "reason", "worker", "start_ns", "time_ns")
_NAMES_KEPT_SEC = 3600.0
"""How long the names of parts are handed on from one that stands for them to the next. A reader that saw a segment in
the journal must find its name among the parts; none takes that long."""
_ALWAYS_KEPT = ("import-", "prune-")
"""How the names begin that are handed on for ever: the same import, or plan of pruning, may be carried out again."""
_first_seen: dict[Path, float] = {}
"""When this process first saw a note of another host, on its monotonic clock: clocks of hosts are not compared."""


class Superseded(Exception):
    """Another host has replaced parts of this step and table meanwhile: look again."""


class _Note(msgspec.Struct):
    new: str
    old: list[str]
    host: str
    time_ns: int


def replace_parts(
    store: Path,
    partition: Partition,
    table: Table,
    parts: Sequence[Path],
    rows: pa.Table,
    *,
    level: int = 9,
    epoch: int = 0,
    shipped: bool = False,
) -> Path:
    """Write a part with these rows that stands for the others, all of one step and table.

    Args:
        store, partition, table: Where.
        parts: Those that it stands for; their rows have all been read.
        rows: Their rows, except what is meant to go.
        level: Of zstd.
        epoch: Of the lease under which this is done.
        shipped: What is meant to go is in a lake.

    Raises:
        Superseded: some of them are not to be read any more, or another host was faster.
    """
    folder, identity = partition.folder(store), store_id(store)
    there = visible_parts(folder, table.name)
    if not set(parts) <= set(there):
        raise Superseded(folder)
    next_one = Generation(identity, _newest(folder, table.name, identity) + 1)
    merged = [Replaced(source_of(part), row_count(part)) for part in parts]
    # Of a part that is pruned all names stay: a lake may have those that it was merged from, and not itself yet.
    before = [each for part in parts for each in (_handed_on(part) if len(parts) > 1 else replaced_by(part))]
    remaining = (generation_of(part) for part in there if part not in parts)
    origins = PartOrigins(
        merged=len(merged),
        removed=sum(each.rows or 0 for each in merged) - len(rows),
        live=sorted(each.number for each in remaining if each is not None and each.store_id == identity),
        epoch=epoch,
        shipped=shipped,
    )
    note = _note(store, folder / part_name(table.name, next_one.source), parts)
    try:
        new = write_table(
            store,
            partition,
            table,
            next_one.source,
            as_today(rows, table),
            replaces=[*merged, *before],
            origins=origins,
            level=level,
        )
    except FileExistsError:
        note.unlink(missing_ok=True)
        raise Superseded(folder) from None
    if _newest(folder, table.name, identity) != next_one.number:  # it was used long ago, and is free again
        new.unlink(missing_ok=True)
        note.unlink(missing_ok=True)
        raise Superseded(folder)
    return new


def _newest(folder: Path, table: str, identity: str) -> int:
    generations = (generation_of(part) for part in parts_in(folder) if table_of(part) == table)
    return max((each.number for each in generations if each is not None and each.store_id == identity), default=0)


def remove_replaced(store: Path, *, grace_sec: float = GRACE_SEC) -> bool:
    """Remove the parts that were replaced that long ago, by any host; whether others wait."""
    waits = False
    for file in sorted(_notes_folder(store).glob("*.json")):
        note = _read_note(file)
        if note is None:
            continue
        if _age_sec(file, note) < grace_sec:
            waits = True
            continue
        hidden = hidden_parts((data_folder(store) / note.new).parent)
        for name in note.old:
            if data_folder(store) / name in hidden:  # by the new part or, when that was merged itself since, by another
                (data_folder(store) / name).unlink(missing_ok=True)
        file.unlink(missing_ok=True)
        _first_seen.pop(file, None)
    return waits


def _age_sec(file: Path, note: _Note) -> float:
    if note.host == host_name():
        age_sec = (time.time_ns() - note.time_ns) / 1e9
        return age_sec if age_sec >= 0 else float("inf")  # a clock that was set back must not keep them for ever
    return time.monotonic() - _first_seen.setdefault(file, time.monotonic())


def remove_leftovers(store: Path, *, grace_sec: float = GRACE_SEC) -> int:
    """Remove replaced parts of which no note is left, once their rows are seen to be in the parts that are read.

    The caller has removed the noted ones.
    """
    notes = map(_read_note, _notes_folder(store).glob("*.json"))
    noted = {name for note in notes if note is not None for name in note.old}
    count = 0
    for folder in step_folders(store):
        for old, new in hidden_parts(folder).items():
            if str(old.relative_to(data_folder(store))) in noted:
                continue
            if 0 <= time.time() - new.stat().st_mtime < grace_sec or not _is_held(old, new):
                continue
            old.unlink(missing_ok=True)
            count += 1
    return count


def _is_held(old: Path, new: Path) -> bool:
    """Whether the rows of a part are among those that are read: of the one that stands for it, or of all."""
    missing = _keys(old) - _keys(new)
    for part in visible_parts(old.parent, table_of(old)) if missing else ():
        missing -= _keys(part)
    return not missing


def _keys(part: Path) -> set[tuple[object, ...]]:
    """What tells the rows of a part apart."""
    with pq.ParquetFile(part) as file:
        rows = file.read([name for name in _KEY if name in file.schema_arrow.names])
    return set(zip(*(column.to_pylist() for column in rows.columns)))


def _handed_on(part: Path) -> list[Replaced]:
    """The names that the part stands for and that somebody may still look for."""
    replaced = replaced_by(part)
    if not replaced:
        return []
    age_sec = time.time() - part.stat().st_mtime
    if 0 <= age_sec < _NAMES_KEPT_SEC:
        return list(replaced)
    there = {source_of(each) for each in parts_in(part.parent)}
    return [each for each in replaced if each.source in there or each.source.startswith(_ALWAYS_KEPT)]


def _notes_folder(store: Path) -> Path:
    return store / "upkeep" / "replaced"


def _note(store: Path, new: Path, old: Sequence[Path]) -> Path:
    data = data_folder(store)
    note = _Note(str(new.relative_to(data)), [str(part.relative_to(data)) for part in old], host_name(), time.time_ns())
    file = _notes_folder(store) / f"{xxhash.xxh3_64_hexdigest(msgspec.json.encode(note))}.json"
    make_folder(file.parent)
    replace_file(file, msgspec.json.encode(note))
    return file


def _read_note(file: Path) -> _Note | None:
    try:
        note = msgspec.json.decode(read_page(file), type=_Note)
    except (OSError, msgspec.MsgspecError):  # done by another host just now, or not ours
        return None
    return note if all(_is_plain(name) for name in (note.new, *note.old)) else None


def _is_plain(name: str) -> bool:
    """Whether it is the path of a part below the data folder, and no way out of it."""
    words = name.split("/")
    return len(words) == 4 and not any(word in ("", ".", "..") for word in words)
