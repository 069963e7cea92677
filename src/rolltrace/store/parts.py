"""Write Parquet parts: immutable, synced, and there all at once by a rename.

Settings were chosen by measurement (docs/design/003-store.md): zstd, rows of one trajectory together, one large page
per column chunk and no dictionary for token columns, so that zstd sees the prefix that every turn repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rolltrace.journal import replacing
from rolltrace.record.tables import FORMAT, TABLES, ColumnType, Table
from rolltrace.store.checksum import add_checksum
from rolltrace.store.layout import COMPACTED, Partition, data_folder, part_name, source_of, table_of

_ARROW: dict[ColumnType, pa.DataType] = {
    "text": pa.string(),
    "long text": pa.string(),
    "json": pa.string(),
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "int32[]": pa.list_(pa.int32()),
    "float32[]": pa.list_(pa.float32()),
    "int8[]": pa.list_(pa.int8()),
}
BULKY = frozenset({"long text", "json", "int32[]", "float32[]", "int8[]"})
"""The types of columns that hold payloads."""
_ROWS_PER_GROUP = 4096
_PAGE_BYTES = 8 << 20

SCHEMAS: dict[str, pa.Schema] = {
    table.name: pa.schema(
        [pa.field(column.name, _ARROW[column.type]) for column in table.columns],
        metadata={"rolltrace_format": str(FORMAT), "rolltrace_table": table.name},
    )
    for table in TABLES
}
"""The Arrow schema of each table, derived from `record.tables`."""

Row = Mapping[str, Any]


def write_part(store: Path, partition: Partition, table: Table, source: str, rows: Iterable[Row]) -> Path:
    """Write the rows as one part and give its path. The same source again replaces the part."""
    schema = SCHEMAS[table.name]
    ordered = sorted(
        rows, key=lambda row: (row.get("trajectory_id") or "", row.get("start_ns") or row.get("time_ns") or 0)
    )
    columns = [arrow_column([row.get(name) for row in ordered], schema.field(name).type) for name in schema.names]
    return write_table(store, partition, table, source, pa.Table.from_arrays(columns, schema=schema))


def arrow_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_list(kind):
        return pa.array(values, type=kind)
    # Lists come as Arrow arrays already: they are put behind each other without a look at their items.
    offsets, total = [], 0
    for value in values:
        offsets.append(None if value is None else total)
        total += 0 if value is None else len(value)
    found = [
        value if isinstance(value, pa.Array) else pa.array(value, type=kind.value_type)
        for value in values
        if value is not None
    ]
    flat = pa.concat_arrays(found) if found else pa.array([], type=kind.value_type)
    return pa.ListArray.from_arrays(pa.array([*offsets, total], type=pa.int32()), flat, type=kind)


def write_table(
    store: Path,
    partition: Partition,
    table: Table,
    source: str,
    rows: pa.Table,
    *,
    replaces: Iterable[str] = (),
    level: int = 1,
) -> Path:
    """As `write_part`, for rows that are Arrow already.

    Args:
        store, partition, table, source, rows: What, and where it goes.
        replaces: The sources of parts that this one stands for.
        level: Of zstd: 1 is fast; 9 saves another sixth, for parts that stay.
    """
    folder = partition.folder(store)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / part_name(table.name, source)
    bulky = [column.name for column in table.columns if column.type in BULKY]
    metadata = {**(rows.schema.metadata or {}), b"rolltrace_replaces": "\n".join(replaces).encode()}
    with replacing(path, durable=True) as hidden:
        pq.write_table(
            rows.replace_schema_metadata(metadata),
            hidden,
            compression="zstd",
            compression_level=level,
            use_dictionary=[column.name for column in table.columns if column.name not in bulky],
            write_statistics=[column.name for column in table.columns if column.name not in bulky],
            data_page_size=_PAGE_BYTES,
            row_group_size=_ROWS_PER_GROUP,
            write_page_checksum=True,
        )
        add_checksum(hidden)
    return path


def list_parts(store: Path, table: str | None = None) -> list[Path]:
    """Every visible part, of one table or of all. Parts that a compacted one stands for are left out."""
    found = sorted(data_folder(store).glob(f"project=*/experiment=*/step=*/{table or '*'}--*.parquet"))
    found = [path for path in found if not path.name.startswith(".")]
    gone = {
        (path.parent, table_of(path), source)
        for path in found
        if source_of(path).startswith(COMPACTED)
        for source in replaced_by(path)
    }
    return [path for path in found if (path.parent, table_of(path), source_of(path)) not in gone]


def replaced_by(part: Path) -> tuple[str, ...]:
    """The sources of the parts that a compacted part stands for, from its footer; none if that cannot be read."""
    try:
        return _read_replaces(part)
    except (OSError, ValueError, pa.ArrowException):
        return ()


@lru_cache(maxsize=65_536)  # a part never changes
def _read_replaces(part: Path) -> tuple[str, ...]:
    metadata = pq.read_metadata(part).metadata or {}
    return tuple(source for source in metadata.get(b"rolltrace_replaces", b"").decode().split("\n") if source)


def may_be_rewritten(store: Path, part: Path) -> bool:
    """Whether the journal segment of a part still exists, perhaps set aside: a drainer may write the part again."""
    return not source_of(part).startswith(COMPACTED) and any((store / "journal").glob(f"*/{source_of(part)}.seg*"))


def as_today(rows: pa.Table, table: Table) -> pa.Table:
    """Rows with the columns that the table has today, whatever they were written with."""
    schema = SCHEMAS[table.name]
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
