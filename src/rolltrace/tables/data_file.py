"""Write data files: whole, synced, under a name that is never used again.

Settings were chosen by measurement: zstd, rows of one trajectory together, one large page
per column chunk and no dictionary for payload columns, so that zstd sees the prefix that every turn repeats.
"""

from __future__ import annotations

import math
import mmap
import os
import re
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import xxhash

from rolltrace._address import StoreAddress
from rolltrace._arrow import pa, pq
from rolltrace.files import file_mode, is_inside, make_folder, open_private, read_problem, sync_path
from rolltrace.tables.columns import BULKY, SCHEMA_OF, Place
from rolltrace.tables.storage import open_storage, upload
from rolltrace.tables.table import DataFile, FileKind

_MAX_GROUP_ROWS = 4096
_MAX_TRAJECTORY_GROUP_ROWS = 65_536
_MAX_GROUP_BYTES = 48 << 20
"""Uncompressed: one op of a very long trajectory can be read without all others."""
_PAGE_BYTES = 8 << 20
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_SLUG_CHARS = 60


def write_file(
    address: StoreAddress,
    table: str,
    place: Place,
    rows: pa.Table | pa.RecordBatchReader,
    *,
    kind: FileKind = "batch",
    level: int = 1,
) -> DataFile:
    """Write the rows of one place, in the order of the table's `sorted_by`, as a data file, which is in no table
    until it is committed. `level` is that of zstd: 1 is fast; 9 saves another sixth, for files that stay."""
    place_folder = folder_name(place)
    name = f"{kind}-{len(rows.schema)}-{uuid.uuid4().hex}"
    folder = address.folder
    if folder is not None:
        parent = folder / table / place_folder
        make_folder(parent, durable=True)
        hidden = parent / f".{name}.parquet"
        try:
            count = _write_parquet(os.fspath(hidden), table, rows, level)
            path = f"{place_folder}/{name}-{file_hash(hidden)}.parquet"
            hidden.chmod(file_mode(parent))
            sync_path(hidden)
            hidden.rename(folder / table / path)
        finally:
            hidden.unlink(missing_ok=True)
        sync_path(parent)
        size = (folder / table / path).stat().st_size
    else:
        sink = pa.BufferOutputStream()
        count = _write_parquet(sink, table, rows, level)
        content = sink.getvalue().to_pybytes()
        path = f"{place_folder}/{name}-{xxhash.xxh3_64_hexdigest(content)}.parquet"
        upload(address, table, path, content)
        size = len(content)
    return DataFile(path, size, count, place)


def folder_name(place: Place) -> str:
    """The folder of the files of a place, from that of the table; other places may share it."""
    slug = _UNSAFE.sub("-", f"{place.project}-{place.experiment}")[-_MAX_SLUG_CHARS:].strip("-.") or "unnamed"
    return f"data/{slug}/step-{'none' if place.step is None else place.step}"


def delete_files(address: StoreAddress, table: str, files: Iterable[DataFile]) -> None:
    """Delete data files that are in no table any more, as far as they are there: `vacuum` finds what is left."""
    for file in files:
        with suppress(OSError):
            if address.folder is None:
                open_storage(address.table(table)).delete_file(file.path)
            elif file.is_inside and is_inside(address.folder / table, address.folder / table / file.path):
                (address.folder / table / file.path).unlink()


def file_hash(path: Path) -> str:
    """The hash of a file, as its name has it."""
    with open_private(path) as file:
        if not os.fstat(file.fileno()).st_size:
            return xxhash.xxh3_64_hexdigest(b"")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return xxhash.xxh3_64_hexdigest(content)


def find_problem(table_folder: Path, file: DataFile, *, content: bool = True) -> str | None:
    """What is wrong with a data file in the folder of its table; None if it is as it was written. Without `content`,
    its hash is not looked at.

    Raises:
        FileNotFoundError: it is not there.
    """
    if not file.is_inside:
        return "its path leads out of the table's folder"
    path = table_folder / file.path
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode) or not _is_real_folder(table_folder, path.parent):
            return "it is no plain file, or a symbolic link on its path leads out of the table's folder"
        if found.st_size != file.size_bytes:
            return f"it has {found.st_size} bytes and was written with {file.size_bytes}"
        if content and file.hash is not None and file_hash(path) != file.hash:
            return "its content is not what was written: the checksum differs"
    except FileNotFoundError:
        raise
    except OSError as error:
        return read_problem(path, error)
    return None


@lru_cache(4096)
def _is_real_folder(table_folder: Path, folder: Path) -> bool:
    return is_inside(table_folder, folder)


def _write_parquet(target: Any, table: str, rows: pa.Table | pa.RecordBatchReader, level: int) -> int:
    columns = SCHEMA_OF[table].columns
    plain = [column.name for column in columns if column.type not in BULKY and "<" not in column.type]
    count = 0
    with pq.ParquetWriter(
        target,
        rows.schema,
        compression="zstd",
        compression_level=level,
        use_dictionary=plain,
        write_statistics=plain,
        data_page_size=_PAGE_BYTES,
        write_page_checksum=True,
    ) as writer:
        for group in _row_groups(rows, table):
            writer.write_table(group, row_group_size=len(group))
            count += len(group)
    return count


def _row_groups(rows: pa.Table | pa.RecordBatchReader, table: str) -> Iterator[pa.Table]:
    """The rows, so many at a time that neither they nor their bytes are too many."""
    max_rows = _MAX_TRAJECTORY_GROUP_ROWS if table == "trajectories" else _MAX_GROUP_ROWS
    waiting: list[pa.RecordBatch] = []
    waiting_rows = waiting_bytes = 0
    for batch in rows.to_batches() if isinstance(rows, pa.Table) else rows:
        pieces = max(math.ceil(batch.nbytes / _MAX_GROUP_BYTES), math.ceil(len(batch) / max_rows), 1)
        size = math.ceil(len(batch) / pieces) or 1
        for piece in (batch.slice(first, size) for first in range(0, len(batch), size)):
            if waiting and (waiting_rows + len(piece) > max_rows or waiting_bytes + piece.nbytes > _MAX_GROUP_BYTES):
                yield pa.Table.from_batches(waiting, rows.schema)
                waiting, waiting_rows, waiting_bytes = [], 0, 0
            waiting.append(piece)
            waiting_rows, waiting_bytes = waiting_rows + len(piece), waiting_bytes + piece.nbytes
    if waiting:
        yield pa.Table.from_batches(waiting, rows.schema)
