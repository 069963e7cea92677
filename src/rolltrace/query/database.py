"""DuckDB over the files of a store, and the two forms in which an answer comes out of it.

Of DuckDB 2 only the engine is loaded at first. The Python layer above it (relations, Arrow) takes longer to load, and a
question that is answered in plain rows needs none of it. `register` and `arrow_answer` load it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rolltrace._amounts import size
from rolltrace._arrow import pa
from rolltrace.errors import QueryError, StoppedError
from rolltrace.tables import TABLE_SCHEMAS, StoreAddress

_ARROW = {
    "VARCHAR": "string",
    "BIGINT": "int64",
    "INTEGER": "int32",
    "SMALLINT": "int16",
    "TINYINT": "int8",
    "DOUBLE": "float64",
    "FLOAT": "float32",
    "BOOLEAN": "bool",
}
"""The types whose values are the same objects in Python, whether they come through Arrow or not."""


class PlainTable:
    """Names and types of columns, and rows."""

    def __init__(self, columns: Sequence[tuple[str, str]], rows: list[tuple[Any, ...]]) -> None:
        self._columns = columns
        self._rows = rows

    @staticmethod
    def can_hold(kinds: Iterable[str]) -> bool:
        """Whether columns of these types read the same as from an Arrow table."""
        return all(kind.removesuffix("[]") in _ARROW for kind in kinds)

    @property
    def column_names(self) -> list[str]:
        return [name for name, _ in self._columns]

    @property
    def num_rows(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """About how large it is."""
        return sum(len(value) if isinstance(value, str) else 8 for row in self._rows for value in row)

    def column(self, name: str) -> list[Any]:
        """The values of a column."""
        at = self.column_names.index(name)
        return [row[at] for row in self._rows]

    def to_pylist(self, first: int, count: int) -> list[dict[str, Any]]:
        """Some rows as dicts that share nothing."""
        names = self.column_names
        rows = [dict(zip(names, row)) for row in self._rows[first : first + count]]
        for name in (name for name, kind in self._columns if kind.endswith("[]")):
            for row in rows:
                row[name] = None if row[name] is None else list(row[name])
        return rows

    def arrow(self) -> pa.Table:
        """As an Arrow table."""
        fields = [pa.field(name, _arrow_type(kind)) for name, kind in self._columns]
        columns = zip(*self._rows) if self._rows else ((),) * len(fields)
        arrays = [pa.array(values, each.type) for values, each in zip(columns, fields)]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _arrow_type(kind: str) -> pa.DataType:
    item = pa.type_for_alias(_ARROW[kind.removesuffix("[]")])
    return pa.list_(pa.field("l", item)) if kind.endswith("[]") else item


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

__all__ = ["TABLES", "Database", "Parameters", "PlainTable", "arrow_answer", "bounded_answer", "duckdb", "plain_answer"]

TABLES = tuple(schema.name for schema in reversed(TABLE_SCHEMAS))
"""The names of all tables, `trajectories` first."""

_BATCH_ROWS = 2048
"""Of an answer that may be too large: as few as DuckDB gives at once."""
Parameters = Sequence[Any] | dict[str, Any]
_IS_OLDER = duckdb.__version__.removeprefix("v").startswith("1.")
"""DuckDB 1 does not say which types plain rows have."""


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
    except (OSError, pa.ArrowException) as error:
        raise passed_on(error) from None


def passed_on(error: Exception) -> duckdb.Error:
    """The error of DuckDB that Arrow passes on as one of its own, while an answer is read piece by piece."""
    text = str(error)
    kinds = {
        "INTERRUPT": duckdb.InterruptException,
        "IO Error": duckdb.IOException,
        "INTERNAL": duckdb.InternalException,
    }
    return next((kind for begin, kind in kinds.items() if text.startswith(begin)), duckdb.InvalidInputException)(text)


def plain_answer(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = ()) -> pa.Table | PlainTable:
    """The answer to a question as plain rows, if they are the same as those of the Arrow table; else as that."""
    if _IS_OLDER:
        return arrow_answer(connection, sql, parameters)
    connection.execute(sql, parameters)
    columns = [(name, str(kind)) for name, kind, *_ in connection.description or ()]
    if not PlainTable.can_hold(kind for _, kind in columns):
        connection.abort()  # or it is in use until all rows are fetched
        return arrow_answer(connection, sql, parameters)
    return PlainTable(columns, connection.fetchall())


_of_parents: list[object] = []


class Database:
    """A DuckDB in memory that reads one store. Safe to use from any thread."""

    def __init__(self, address: StoreAddress, max_bytes: int | None, threads: int | None) -> None:
        self._address = address
        self._max_bytes = max_bytes
        self._threads = threads
        self._lock = threading.RLock()
        self._connection: duckdb.DuckDBPyConnection | None = None

    def leave_to_parent(self) -> None:
        """In a child that was forked: begin with a database of one's own. That of the parent has threads which are not
        here, so it could neither answer nor be closed; it stays as it is."""
        _of_parents.append(self._connection)
        self._lock, self._connection = threading.RLock(), None

    def close(self) -> None:
        """Give back memory and files. The next connection opens them again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A connection of one's own, without any views."""
        with self._lock:
            if self._connection is None:
                self._connection = self._open()
            return self._connection.cursor()

    def fetch(self, sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        connection = self.connect()
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()

    def _open(self) -> duckdb.DuckDBPyConnection:
        folder = self._address.folder
        allowed = ", ".join("'" + str(folder / name).replace("'", "''") + "'" for name in TABLES) if folder else ""
        connection = duckdb.connect(":memory:")
        for setting in (
            "temp_directory = ''",
            *([] if self._max_bytes is None else [f"memory_limit = '{self._max_bytes}B'"]),
            *([] if (threads := self._threads or _wanted_threads()) is None else [f"threads = {threads}"]),
            "parquet_metadata_cache = true",
            "autoinstall_known_extensions = false",
            "autoload_known_extensions = false",
            "allow_community_extensions = false",
            "python_enable_replacements = false",
            f"allowed_directories = [{allowed}]",
            "enable_external_access = false",
            # It passes Bloom filters on to Arrow tables, which take none: `Pushdown Filter Type BLOOM_FILTER`.
            *(["disabled_optimizers = 'join_filter_pushdown'"] if _IS_OLDER else []),
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        return connection


def _wanted_threads() -> int | None:
    """`OMP_NUM_THREADS`, which Arrow follows too: torchrun and Slurm set it where many processes share a machine."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # later items are for nested regions
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else None


T = TypeVar("T")
_WAIT_SEC = 0.05
_current: ContextVar[Limit | None] = ContextVar("rolltrace_query_limit", default=None)


class Lock(Protocol):
    """`threading.RLock`, which is no type before Python 3.13."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...


class Limit:
    """How long questions may take, together."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._reason: str | None = None
        self._token: Token[Limit | None] | None = None

    def __enter__(self) -> Limit:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)

    def stop(self, reason: str) -> None:
        """Stop what runs and what is asked next."""
        self._reason = self._reason or reason

    def check(self) -> None:
        """Raise `StoppedError` if it was stopped or the time is over."""
        if time.monotonic() > self._deadline:
            self.stop(
                f"this took longer than {self._seconds:g} s; ask for less: one experiment, one step, a narrower filter"
            )
        if self._reason is not None:
            raise StoppedError(self._reason)


def check_limit() -> None:
    """Raise `StoppedError` if this thread's questions were stopped."""
    limit = _current.get()
    if limit is not None:
        limit.check()


@contextmanager
def holding(lock: Lock) -> Iterator[None]:
    """Hold a lock; stop waiting for it when this thread's questions are stopped."""
    limited = _current.get() is not None
    while not lock.acquire(timeout=_WAIT_SEC if limited else -1):
        check_limit()
    try:
        yield
    finally:
        lock.release()


def interruptible(work: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """The result of the work, or its exception; Ctrl-C and the limit of this thread interrupt it.

    Args:
        work: What takes long. It runs in another thread, unless nothing can stop this one.
        interrupt: Makes the work stop soon; called from this thread, until it has: work that is about to begin does
            not notice.
    """
    limited = _current.get() is not None
    if not limited and threading.current_thread() is not threading.main_thread():
        return work()
    check_limit()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # Not `join`: when it is interrupted, Python up to 3.12 takes the thread for ended, and a program that exits aborts.
    ended = threading.Event()
    thread = threading.Thread(target=run, name="rolltrace-query", daemon=True)
    try:
        thread.start()
        while not ended.wait(_WAIT_SEC if limited else None):
            check_limit()
    except (KeyboardInterrupt, StoppedError):
        while thread.is_alive() and not ended.is_set():
            interrupt()
            ended.wait(_WAIT_SEC)
        raise
    if errors:
        raise errors[0]
    return results[0]
