"""DuckDB, and the two forms in which an answer comes out of it.

    from rolltrace.query.database import duckdb

Of DuckDB 2 only the engine is loaded at first. The Python layer above it (relations, Arrow) takes longer to load, and a
question that is answered in plain rows needs none of it. `register` and `arrow_answer` load it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rolltrace._arrow import pa
from rolltrace.query.plain import PlainTable

if TYPE_CHECKING:
    import duckdb
else:
    try:
        duckdb = import_module("_duckdb")
    except ImportError:  # of versions before 1.4
        duckdb = None
    # What another major version needs besides its engine, only that version knows.
    if duckdb is None or not duckdb.__version__.removeprefix("v").startswith("2."):
        duckdb = import_module("duckdb")

__all__ = ["IS_OLDER", "Parameters", "arrow_answer", "duckdb", "plain_answer", "register"]

Parameters = Sequence[Any] | dict[str, Any]
IS_OLDER = duckdb.__version__.removeprefix("v").startswith("1.")
"""DuckDB 1 does not say which types plain rows have, and passes Bloom filters on to Arrow tables, which take none."""


def register(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Make an Arrow table known to the questions of a connection."""
    import_module("duckdb")
    connection.register(name, rows)


def arrow_answer(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = ()) -> pa.Table:
    """The answer to a question as an Arrow table."""
    import_module("duckdb")
    return connection.sql(sql, params=parameters).to_arrow_table()


def plain_answer(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = ()) -> pa.Table | PlainTable:
    """The answer to a question as plain rows, if they are the same as those of the Arrow table; else as that."""
    if IS_OLDER:
        return arrow_answer(connection, sql, parameters)
    connection.execute(sql, parameters)
    columns = [(name, str(kind)) for name, kind, *_ in connection.description or ()]
    rows = connection.fetchall()
    if not PlainTable.can_hold(kind for _, kind in columns):
        return arrow_answer(connection, sql, parameters)
    return PlainTable(columns, rows)
