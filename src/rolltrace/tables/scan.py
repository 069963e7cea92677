"""A DuckDB of its own for work on whole files: bounded in memory, one thread, rows given on as a stream."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rolltrace._address import StoreAddress
from rolltrace._arrow import pa
from rolltrace.errors import StoreError
from rolltrace.files import is_inside
from rolltrace.tables.relation import read_files
from rolltrace.tables.schema import arrow_schema
from rolltrace.tables.table import DataFile

if TYPE_CHECKING:
    import duckdb

_MEMORY_LIMIT = "128MB"
_BATCH_ROWS = 1024


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
