"""Parquet parts: written whole and synced, there all at once by a rename, and never changed.

A part may stand for others: it holds their rows and names them in its footer, each with how many rows it had. From the
moment it appears, readers leave those out. What a footer says is believed only as far as the numbers fit: a part that
has other rows than were counted is still seen, whatever a footer says.

Such a part has a generation, a number that only one part of its step and table can have, and names the earlier
generations that are still to be read. One that the newest does not name is void: whoever wrote it had been suspended
for so long that its number had been used and was free again.

Settings were chosen by measurement (docs/design/003-store.md): zstd, rows of one trajectory together, one large page
per column chunk and no dictionary for token columns, so that zstd sees the prefix that every turn repeats.
"""

from __future__ import annotations

import mmap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import xxhash

from rolltrace._arrow import pa, pc, pq
from rolltrace.files import check_inside, creating, file_mode, make_folder, open_private, replacing
from rolltrace.journal import journal_folders
from rolltrace.record import Table
from rolltrace.store.arrow import BULKY, SCHEMAS, arrow_column
from rolltrace.store.layout import (
    COMPACTED,
    OnUnreadable,
    Partition,
    generation_of,
    leave_out,
    part_name,
    parts_in,
    source_of,
    step_folders,
    table_of,
)

_CHECKSUM_MARK = b"RTSUM\x01\0\0"
_CHECKSUM_BYTES = len(_CHECKSUM_MARK) + 16
"""A checksum over a whole part stands between the data and the footer, where no reader looks: offsets are counted from
the start of the file, and the footer is found from its end. Parquet has them for pages only."""
_ROWS_PER_GROUP = 4096
_BYTES_PER_GROUP = 48 << 20
"""Of payload columns, uncompressed: one op of a very long trajectory can be read without all others."""
_PAGE_BYTES = 8 << 20

Row = Mapping[str, Any]


class Replaced(NamedTuple):
    """A part that another one stands for."""

    source: str
    rows: int | None
    """How many rows it had; None if the one that stands for it was written by an older version."""


class PartOrigins(msgspec.Struct):
    """What a part stands for, as its footer has it beside the names of the sources."""

    rows: list[int | None] = []
    """How many rows each source had."""
    merged: int = 0
    """How many of the sources, the first ones, were merged into it. The others had been merged into these before."""
    removed: int = 0
    """How many rows of those were left out on purpose: pruned, or of trajectories that are not kept."""
    live: list[int] | None = None
    """The earlier generations that are to be read beside it."""
    epoch: int = 0
    """In which epoch of the lease of upkeep it was written; 0 if under none."""
    shipped: bool = False
    """The rows went because a lake has them."""


def write_part(store: Path, partition: Partition, table: Table, source: str, rows: Iterable[Row]) -> Path:
    """Write the rows as one part and give its path. The same source again replaces the part."""
    schema = SCHEMAS[table.name]
    ordered = sorted(
        rows, key=lambda row: (row.get("trajectory_id") or "", row.get("start_ns") or row.get("time_ns") or 0)
    )
    columns = [arrow_column([row.get(name) for row in ordered], schema.field(name).type) for name in schema.names]
    return write_table(store, partition, table, source, pa.Table.from_arrays(columns, schema=schema))


def write_table(
    store: Path,
    partition: Partition,
    table: Table,
    source: str,
    rows: pa.Table,
    *,
    replaces: Iterable[Replaced] = (),
    origins: PartOrigins | None = None,
    level: int = 1,
) -> Path:
    """As `write_part`, for rows that are Arrow already.

    Args:
        store, partition, table, source, rows: What, and where it goes.
        replaces: The parts that this one stands for, those merged into it first.
        origins: What else there is to say of these; `rows` is filled in.
        level: Of zstd: 1 is fast; 9 saves another sixth, for parts that stay.

    Raises:
        FileExistsError: with `origins`, if there is such a part. Without, it is replaced.
    """
    folder = partition.folder(store)
    check_inside(store, folder)
    make_folder(folder, durable=True)
    path = folder / part_name(table.name, source)
    bulky = [column.name for column in table.columns if column.type in BULKY]
    sources = list(replaces)
    metadata = {**(rows.schema.metadata or {}), b"rolltrace_replaces": "\n".join(each.source for each in sources)}
    if origins is not None:
        origins = msgspec.structs.replace(origins, rows=[each.rows for each in sources])
        metadata[b"rolltrace_replaced_rows"] = msgspec.json.encode(origins)
        appearing = creating(path, durable=True)
    else:
        appearing = replacing(path, durable=True, mode=file_mode(folder))
    with appearing as hidden:
        with pq.ParquetWriter(
            hidden,
            rows.schema.with_metadata(metadata),
            compression="zstd",
            compression_level=level,
            use_dictionary=[column.name for column in table.columns if column.name not in bulky],
            write_statistics=[column.name for column in table.columns if column.name not in bulky],
            data_page_size=_PAGE_BYTES,
            write_page_checksum=True,
        ) as writer:
            for group in _row_groups(rows.replace_schema_metadata(metadata), bulky):
                writer.write_table(group, row_group_size=_ROWS_PER_GROUP)
        add_checksum(hidden)
    return path


def _row_groups(rows: pa.Table, bulky: list[str]) -> Iterator[pa.Table]:
    """The rows, some at a time: so many that their payloads are not too large, or all."""
    if rows.nbytes <= _BYTES_PER_GROUP:
        yield rows
        return
    sizes = [_sizes(rows[name]) for name in bulky if name in rows.column_names]
    first = group_bytes = 0
    for at, of_row in enumerate(zip(*sizes)):
        size = sum(of_row)
        if at > first and group_bytes + size > _BYTES_PER_GROUP:
            yield rows.slice(first, at - first)
            first, group_bytes = at, 0
        group_bytes += size
    yield rows.slice(first)


def _sizes(column: pa.ChunkedArray) -> list[int]:
    """How many bytes each value takes."""
    if pa.types.is_list(column.type):
        width = column.type.value_type.bit_width // 8
        return [(length or 0) * width for length in pc.list_value_length(column).to_pylist()]
    return [length or 0 for length in pc.binary_length(column).to_pylist()]


def list_parts(store: Path, table: str | None = None, on_unreadable: OnUnreadable = leave_out) -> list[Path]:
    """Every visible part, of one table or of all. Parts that another one stands for are left out."""
    return [
        part for folder in step_folders(store, on_unreadable) for part in visible_parts(folder, table, on_unreadable)
    ]


def visible_parts(folder: Path, table: str | None = None, on_unreadable: OnUnreadable = leave_out) -> list[Path]:
    """As `list_parts`, of one step."""
    parts = [part for part in parts_in(folder, on_unreadable) if table is None or table_of(part) == table]
    hidden = {part for part, _ in _hidden(parts)}
    return [part for part in parts if part not in hidden]


def hidden_parts(folder: Path) -> dict[Path, Path]:
    """The parts of a step that another one stands for, each with that one."""
    return dict(_hidden(parts_in(folder)))


def _hidden(parts: list[Path]) -> Iterator[tuple[Path, Path]]:
    by_name = {(table_of(part), source_of(part)): part for part in parts}
    compacted = [part for part in parts if source_of(part).startswith(COMPACTED)]
    void = _void(compacted)
    yield from void.items()
    for part in compacted:
        if part in void:
            continue
        for each in replaced_by(part):
            other = by_name.get((table_of(part), each.source))
            if other is not None and other != part and other not in void and _accounts_for(part, other, each.rows):
                yield other, part


def _void(compacted: list[Path]) -> dict[Path, Path]:
    """The parts whose generation was used before, each with the newest one."""
    tables: dict[tuple[str, str], list[tuple[int, Path]]] = defaultdict(list)
    for part in compacted:
        generation = generation_of(part)
        if generation is not None:
            tables[table_of(part), generation.store_id].append((generation.number, part))
    void: dict[Path, Path] = {}
    for generations in tables.values():
        # The newest that can be read: one that is damaged says nothing.
        newest, live = next(
            ((part, live) for _, part in sorted(generations, reverse=True) if (live := live_beside(part)) is not None),
            (None, frozenset[int]()),
        )
        if newest is not None:
            latest = next(number for number, part in generations if part == newest)
            void.update({part: newest for number, part in generations if number < latest and number not in live})
    return void


def live_beside(part: Path) -> frozenset[int] | None:
    """The earlier generations that are to be read beside this one; None if it does not tell."""
    try:
        return _read_standing(part).live
    except _unreadable():
        return None


def _accounts_for(part: Path, other: Path, rows: int | None) -> bool:
    """Whether a part that says so stands for the other one as it is."""
    if any(each.source == source_of(part) for each in replaced_by(other)):
        return False  # each says so of the other: one of them lies
    had = row_count(other)
    if had is None:
        return True  # it cannot be read, so nothing is lost by believing it
    return had == rows if rows is not None else had <= (row_count(part) or 0)


def replaced_by(part: Path) -> tuple[Replaced, ...]:
    """The parts that a part stands for, by its footer; none if that cannot be read, or if the numbers do not fit."""
    try:
        return _read_standing(part).replaced if source_of(part).startswith(COMPACTED) else ()
    except _unreadable():
        return ()


def merged_into(part: Path) -> tuple[str, ...]:
    """The sources of the parts that were merged into a part, or pruned to it; not those merged into these before."""
    try:
        stands = _read_standing(part) if source_of(part).startswith(COMPACTED) else None
    except _unreadable():
        return ()
    return () if stands is None else tuple(each.source for each in stands.replaced[: stands.merged])


def is_emptied(part: Path) -> bool:
    """Whether a part only keeps the place of parts that a lake has, so that these cannot come back."""
    try:
        return source_of(part).startswith(COMPACTED) and _read_standing(part).shipped
    except _unreadable():
        return False


def _unreadable() -> tuple[type[Exception], ...]:
    return (OSError, ValueError, pa.ArrowException, msgspec.MsgspecError)


def row_count(part: Path) -> int | None:
    """How many rows a part has; None if it cannot be read."""
    try:
        return int(pq.read_metadata(part).num_rows)
    except _unreadable():
        return None


class _Stands(NamedTuple):
    replaced: tuple[Replaced, ...]
    live: frozenset[int] | None
    merged: int
    shipped: bool = False


def _read_standing(part: Path) -> _Stands:
    status = part.stat()  # a step that was removed because a lake has it (keeper/shipped.py) begins to count anew
    return _read_footer(part, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=65_536)  # such a part never changes
def _read_footer(part: Path, time_ns: int, size: int) -> _Stands:
    footer = pq.read_metadata(part)
    metadata = footer.metadata or {}
    sources = [source for source in metadata.get(b"rolltrace_replaces", b"").decode().split("\n") if source]
    counts = metadata.get(b"rolltrace_replaced_rows")
    if counts is None:
        return _Stands(tuple(Replaced(source, None) for source in sources), None, len(sources))
    origins = msgspec.json.decode(counts, type=PartOrigins)
    merged = origins.rows[: origins.merged]
    if len(origins.rows) != len(sources) or footer.num_rows + origins.removed != sum(rows or 0 for rows in merged):
        return _Stands((), None, 0)
    live = None if origins.live is None else frozenset(origins.live)
    return _Stands(tuple(map(Replaced, sources, origins.rows)), live, origins.merged, origins.shipped)


def undrained_sources(store: Path) -> frozenset[str]:
    """The segments that still exist, perhaps set aside: a drainer may write their parts again."""
    files = (path for folder in journal_folders(store) for path in folder.glob("*.seg*"))
    return frozenset(path.name.partition(".seg")[0] for path in files)


def add_checksum(part: Path) -> None:
    """Put the checksum into a part, or another Parquet file of ours, that was just written."""
    data = part.read_bytes()
    footer = _footer(data)
    part.write_bytes(data[:footer] + _CHECKSUM_MARK + xxhash.xxh3_128_digest(data) + data[footer:])


def checksum_problem(part: Path, *, required: bool = True) -> str | None:
    """What is wrong with the bytes of a part; None if they are those that were written.

    Parts of other tools and of very old versions have no checksum: without `required`, nothing is wrong with that.
    """
    # Mapped, since the size of a file says nothing about what it takes on the disk.
    with open_private(part) as file, _mapped(file) as data:
        footer = _footer(data)
        stored = data[max(0, footer - _CHECKSUM_BYTES) : footer] if footer > 0 else b""
        if not stored.startswith(_CHECKSUM_MARK):
            return "its checksum is not where it should be: the file is cut or damaged at its end" if required else None
        with memoryview(data) as view:
            checksum = xxhash.xxh3_128(view[: footer - _CHECKSUM_BYTES])
            checksum.update(view[footer:])
    if checksum.digest() == stored[len(_CHECKSUM_MARK) :]:
        return None
    return "its checksum does not match: the file is damaged"


def _mapped(file: Any) -> mmap.mmap:
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise OSError("the file is empty") from None


def _footer(data: bytes | mmap.mmap) -> int:
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def checksum_of(part: Path) -> str | None:
    """The checksum that stands in a part, in hexadecimal; None if there is none. The content is not looked at."""
    with open_private(part) as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - 8))
        length = int.from_bytes(file.read(4), "little")
        at = end - 8 - length - _CHECKSUM_BYTES
        if at < 0:
            return None
        file.seek(at)
        stored: bytes = file.read(_CHECKSUM_BYTES)
    return stored[len(_CHECKSUM_MARK) :].hex() if stored.startswith(_CHECKSUM_MARK) else None
