"""Write data files: whole, synced, under a name that is never used again.

Settings were chosen by measurement (docs/design/003-store.md): zstd, rows of one trajectory together, one large page
per column chunk and no dictionary for payload columns, so that zstd sees the prefix that every turn repeats.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator
from typing import Any

from rolltrace._arrow import pa, pc, pq
from rolltrace.files import make_folder, sync_path
from rolltrace.tables.address import StoreAddress
from rolltrace.tables.schema import BULKY, SCHEMA_OF, Place
from rolltrace.tables.table import DataFile, FileKind

_MAX_GROUP_ROWS = 4096
_MAX_TRAJECTORY_GROUP_ROWS = 65_536
_MAX_GROUP_BYTES = 48 << 20
"""Of payload columns, uncompressed: one op of a very long trajectory can be read without all others."""
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
    """Write the rows of one place as a data file, which is in no table until it is committed.

    Args:
        address: The store.
        table: Which table they are of; their columns are those of its schema.
        place: The place that all rows belong to.
        rows: The rows, in the order of the table's `sorted_by`.
        kind: `settled` if there is one row per key.
        level: Of zstd: 1 is fast; 9 saves another sixth, for files that stay.
    """
    slug = _UNSAFE.sub("-", f"{place.project}-{place.experiment}")[-_MAX_SLUG_CHARS:].strip("-.") or "unnamed"
    step = "none" if place.step is None else str(place.step)
    path = f"data/{slug}/step-{step}/{kind}-{uuid.uuid4().hex}.parquet"
    folder = address.folder
    if folder is not None:
        target = folder / table / path
        make_folder(target.parent, durable=True)
        count = _write_parquet(os.fspath(target), table, rows, level)
        sync_path(target)
        sync_path(target.parent)
        size = target.stat().st_size
    else:
        from deltalake.fs import DeltaStorageHandler

        filesystem = pa.fs.PyFileSystem(DeltaStorageHandler(address.table(table), address.options()))
        sink = pa.BufferOutputStream()
        count = _write_parquet(sink, table, rows, level)
        content = sink.getvalue()
        with filesystem.open_output_stream(path) as stream:
            stream.write(content)
        size = content.size
    return DataFile(path, size, count, place)


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
    """The rows, so many at a time that neither they nor their payloads are too many."""
    max_rows = _MAX_TRAJECTORY_GROUP_ROWS if table == "trajectories" else _MAX_GROUP_ROWS
    bulky = [column.name for column in SCHEMA_OF[table].columns if column.type in BULKY]
    waiting: list[pa.RecordBatch] = []
    waiting_rows = waiting_bytes = 0
    for batch in rows.to_batches() if isinstance(rows, pa.Table) else rows:
        sizes = [sum(row) for row in zip(*(_sizes(batch[name]) for name in bulky))] or [0] * len(batch)
        first = 0
        for at, size in enumerate(sizes):
            if waiting_rows and (waiting_rows >= max_rows or waiting_bytes + size > _MAX_GROUP_BYTES):
                yield pa.Table.from_batches([*waiting, batch.slice(first, at - first)], rows.schema)
                waiting, waiting_rows, waiting_bytes, first = [], 0, 0, at
            waiting_rows += 1
            waiting_bytes += size
        waiting.append(batch.slice(first))
    if waiting_rows:
        yield pa.Table.from_batches(waiting, rows.schema)


def _sizes(column: pa.Array) -> list[int]:
    """How many bytes each value takes; maps, which are rare and small, count as nothing."""
    if pa.types.is_map(column.type):
        return [0] * len(column)
    if pa.types.is_list(column.type):
        width = column.type.value_type.bit_width // 8
        return [(length or 0) * width for length in pc.list_value_length(column).to_pylist()]
    return [length or 0 for length in pc.binary_length(column).to_pylist()]
