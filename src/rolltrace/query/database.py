"""DuckDB, and the two forms in which an answer comes out of it.

    from rolltrace.query.database import duckdb

Of DuckDB 2 only the engine is loaded at first. The Python layer above it (relations, Arrow) takes longer to load, and a
question that is answered in plain rows needs none of it. `register` and `arrow_answer` load it.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rolltrace._amounts import size
from rolltrace._arrow import pa
from rolltrace.errors import QueryError
from rolltrace.query.plain import PlainTable


def _load(name: str) -> ModuleType:
    """Import a module of DuckDB. Ctrl-C waits for that: in the midst of it, it would be an abort of the process."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return import_module(name)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


if TYPE_CHECKING:
    import duckdb
else:
    try:
        duckdb = _load("_duckdb")
    except ImportError:  # of versions before 1.4
        duckdb = None
    # What another major version needs besides its engine, only that version knows.
    if duckdb is None or not duckdb.__version__.removeprefix("v").startswith("2."):
        duckdb = _load("duckdb")

__all__ = ["IS_OLDER", "Parameters", "arrow_answer", "bounded_answer", "duckdb", "plain_answer", "register"]

_BATCH_ROWS = 2048
"""Of an answer that may be too large: as few as DuckDB gives at once."""
Parameters = Sequence[Any] | dict[str, Any]
IS_OLDER = duckdb.__version__.removeprefix("v").startswith("1.")
"""DuckDB 1 does not say which types plain rows have, and passes Bloom filters on to Arrow tables, which take none."""


def register(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Make an Arrow table known to the questions of a connection."""
    _load("duckdb")
    connection.register(name, rows)


def arrow_answer(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = ()) -> pa.Table:
    """The answer to a question as an Arrow table."""
    _load("duckdb")
    return connection.sql(sql, params=parameters).to_arrow_table()


def bounded_answer(
    most_bytes: int, connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = ()
) -> pa.Table:
    """The same, read piece by piece, and refused as soon as it is too large."""
    _load("duckdb")
    answer = connection.sql(sql, params=parameters)
    batches, size_bytes = [], 0
    try:
        to_reader = getattr(answer, "to_arrow_reader", None) or answer.fetch_arrow_reader  # its name before 2.0
        with to_reader(_BATCH_ROWS) as reader:
            for batch in reader:
                batches.append(batch)
                size_bytes += batch.nbytes
                if size_bytes > most_bytes:
                    raise QueryError(
                        f"the answer is larger than {size(most_bytes)}; ask for less: aggregate, add a LIMIT, "
                        "name the columns, or allow more memory"
                    )
            return pa.Table.from_batches(batches, reader.schema)
    except (OSError, pa.ArrowException) as fault:
        raise passed_on(fault) from None


def passed_on(fault: Exception) -> duckdb.Error:
    """The error of DuckDB that Arrow passes on as one of its own, while an answer is read piece by piece."""
    text = str(fault)
    kinds = {
        "INTERRUPT": duckdb.InterruptException,
        "IO Error": duckdb.IOException,
        "INTERNAL": duckdb.InternalException,
    }
    return next((kind for begin, kind in kinds.items() if text.startswith(begin)), duckdb.InvalidInputException)(text)


def plain_answer(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = ()) -> pa.Table | PlainTable:
    """The answer to a question as plain rows, if they are the same as those of the Arrow table; else as that."""
    if IS_OLDER:
        return arrow_answer(connection, sql, parameters)
    connection.execute(sql, parameters)
    columns = [(name, str(kind)) for name, kind, *_ in connection.description or ()]
    if not PlainTable.can_hold(kind for _, kind in columns):
        connection.abort()  # or it is in use until all rows are fetched
        return arrow_answer(connection, sql, parameters)
    return PlainTable(columns, connection.fetchall())
