"""Data files as a relation that DuckDB can read: by their paths in a folder, through Arrow on object storage; and a
DuckDB of its own for work on whole files: bounded in memory, one thread, rows given on as a stream."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rolltrace._address import StoreAddress
from rolltrace._arrow import pa
from rolltrace.errors import StoreError
from rolltrace.files import is_inside
from rolltrace.tables.columns import SCHEMA_OF, arrow_schema, empty_select
from rolltrace.tables.reduce import reduce_rows
from rolltrace.tables.storage import open_storage
from rolltrace.tables.table import DataFile

if TYPE_CHECKING:
    import duckdb

_MEMORY_LIMIT = "128MB"
_BATCH_ROWS = 1024
_numbers = itertools.count()


def read_files(
    connection: duckdb.DuckDBPyConnection, address: StoreAddress, table: str, files: Sequence[DataFile]
) -> str:
    """SQL, in parentheses, of all rows of these files of a table, with every column that it has today."""
    schema = SCHEMA_OF[table]
    if not files:
        return f"({empty_select(schema)})"
    folder = address.folder
    if folder is None:
        import_module("duckdb")  # a reader loads only the engine of DuckDB 2; registering needs its Python layer
        name = f"_files_{next(_numbers)}"
        connection.register(name, _dataset(address, table, files))
        return f"(SELECT * FROM {name})"
    paths = ", ".join("'" + str(folder / table / file.path).replace("'", "''") + "'" for file in files)
    counts = {file.columns for file in files}
    # By name, DuckDB opens every file before it reads one: only where they may differ.
    by_name = str(len(counts) > 1 or None in counts).lower()
    source = f"read_parquet([{paths}], union_by_name={by_name}, hive_partitioning=false)"
    if counts == {len(schema.columns)}:
        names = ", ".join(f'"{column.name}"' for column in schema.columns)
        return f"(SELECT {names} FROM {source})"
    # The empty select brings columns that no file has yet.
    return f"({empty_select(schema)} UNION ALL BY NAME SELECT * FROM {source})"


def read_rows(
    connection: duckdb.DuckDBPyConnection,
    address: StoreAddress,
    table: str,
    files: Sequence[DataFile],
    scores: Sequence[DataFile] = (),
) -> str:
    """SQL of the rows of a table with one row per key, whether its steps are settled or moving. `scores`, of
    `trajectories`: the files of that table in the places that are moving."""
    schema = SCHEMA_OF[table]
    if not schema.key:
        return read_files(connection, address, table, files)
    moving_places = find_moving(files)
    settled = [file for file in files if file.place not in moving_places]
    moving = [file for file in files if file.place in moving_places]
    if not moving:
        return read_files(connection, address, table, settled)
    scores_sql = read_files(connection, address, "scores", [file for file in scores if file.place in moving_places])
    reduced = reduce_rows(schema, read_files(connection, address, table, moving), scores_sql)
    if not settled:
        return f"({reduced})"
    return f"(SELECT * FROM {read_files(connection, address, table, settled)} UNION ALL BY NAME ({reduced}))"


def find_moving(files: Sequence[DataFile]) -> set[Any]:
    """The places that hold more than one settled file: rows there may be partial."""
    settled, moving = set(), set()
    for file in files:
        if not file.is_settled or file.place in settled:
            moving.add(file.place)
        settled.add(file.place)
    return moving


def _dataset(address: StoreAddress, table: str, files: Sequence[DataFile]) -> Any:
    import pyarrow.dataset as ds

    return ds.dataset(
        [file.path for file in files],
        schema=arrow_schema(table),
        format="parquet",
        filesystem=open_storage(address.table(table), {file.path: file.size_bytes for file in files}),
    )


@contextmanager
def open_scan() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database that spills to the disk instead of growing, for as long as the block lasts."""
    import duckdb

    with duckdb.connect() as connection, tempfile.TemporaryDirectory() as spill:
        connection.execute(f"SET memory_limit = '{_MEMORY_LIMIT}'; SET temp_directory = '{spill}'; SET threads = 1")
        yield connection


def read_inside(
    connection: duckdb.DuckDBPyConnection, address: StoreAddress, table: str, files: Sequence[DataFile]
) -> str:
    """As `read_files`, for those who write what they have read: a file that leads out of the table is not read.

    Raises:
        StoreError: there is one, by its path or by a link.
    """
    for file in files:
        folder = None if address.folder is None else address.folder / table
        if not file.is_inside or (folder is not None and not is_inside(folder, folder / file.path)):
            raise StoreError(f"the file {file.path!r} of the table {table} leads out of its folder")
    return read_files(connection, address, table, files)


def stream_rows(connection: duckdb.DuckDBPyConnection, select: str, table: str) -> Any:
    """The rows of a SELECT as a stream with the types of a table."""
    schema = arrow_schema(table)
    reader: Any = connection.sql(select).to_arrow_reader(_BATCH_ROWS)
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in reader))


def sql_literal(value: str | int | None) -> str:
    """A value as it is written in SQL."""
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
