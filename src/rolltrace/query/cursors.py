"""The database of a store, and connections in which the views of some steps can be asked.

Invariant: the database can read the files of the tables of this store and nothing else, writes nowhere, and its
settings are locked.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

from rolltrace.query.database import IS_OLDER, duckdb
from rolltrace.query.snapshot import TABLES
from rolltrace.query.views import MakeSql, names_in
from rolltrace.tables import LiveOp, StoreAddress

_FOR_OLDER_VERSIONS = ["disabled_optimizers = 'join_filter_pushdown'"] if IS_OLDER else []
"""DuckDB 1.5 passes Bloom filters on to Arrow tables, which do not take them: `Pushdown Filter Type BLOOM_FILTER`."""
LIVE_OPS = "_live_ops"
_LIVE_TYPES = {
    "trajectory_id": "VARCHAR", "op_id": "BIGINT", "parent_id": "BIGINT", "name": "VARCHAR", "kind": "VARCHAR",
    "start_ns": "BIGINT", "project": "VARCHAR", "experiment": "VARCHAR", "step": "BIGINT", "sample_index": "VARCHAR",
    "sample_number": "BIGINT", "rollout_n": "BIGINT", "validate": "BOOLEAN", "run": "VARCHAR", "worker": "VARCHAR",
}  # fmt: skip
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
            *_FOR_OLDER_VERSIONS,
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        return connection


class Cursor(NamedTuple):
    """A connection, and the views that can be made in it."""

    connection: duckdb.DuckDBPyConnection
    views: dict[str, str | MakeSql]
    created: set[str]
    """The names of those that were."""

    def make_views(self, sql: str | None) -> None:
        """Make the views that a statement names, after those that they read; all of them if it is not given."""
        self.make(self.views if sql is None else names_in(sql, self.views))

    def make(self, names: Iterable[str]) -> None:
        """Make the views of these names, after those that they read."""
        for name in names:
            if name not in self.created:
                made = self.views[name]
                sql = made if isinstance(made, str) else made()
                if isinstance(made, str):
                    self.make(each for each in names_in(sql, self.views) if each != name)
                self.connection.execute(f"CREATE TEMP VIEW {name} AS {sql}")
                self.created.add(name)


def make_live_ops(connection: duckdb.DuckDBPyConnection, ops: list[LiveOp]) -> None:
    """Make the table of the ops that run."""
    columns = ", ".join(f"unnest(?::{kind}[]) AS {name}" for name, kind in _LIVE_TYPES.items())
    values = [[getattr(op, name) for op in ops] for name in _LIVE_TYPES]
    connection.execute(f"CREATE TEMP TABLE {LIVE_OPS} AS SELECT {columns}, 'running' AS status", values)


def _wanted_threads() -> int | None:
    """`OMP_NUM_THREADS`, which Arrow follows too: torchrun and Slurm set it where many processes share a machine."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # later items are for nested regions
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else None
