"""Questions over a store: which data they see, and what happens when a file cannot be read.

Invariants:
- A question sees one snapshot: a version of each table, that of `trajectories` not newer than the others.
- A file that cannot be read is left out and reported; the rest of the store stays readable.
- A view is made when a question names it, and a question that names its steps looks at those alone: what is not needed
  is not even opened.
- Of the locks, `_looking` is taken before `_lock`.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from rolltrace._amounts import size_of
from rolltrace._arrow import pa
from rolltrace.errors import OutageError, QueryError, StoreError
from rolltrace.pass_rule import Experiment, PassRule
from rolltrace.query.damage import (
    COMPLETE,
    Backlog,
    Incomplete,
    Missing,
    StaleError,
    Stored,
    find_damage,
    is_interrupt,
    is_of_files,
)
from rolltrace.query.database import (
    TABLES,
    Database,
    Parameters,
    PlainTable,
    arrow_answer,
    bounded_answer,
    check_limit,
    duckdb,
    holding,
    interruptible,
    plain_answer,
)
from rolltrace.query.snapshot import Cursor, ScopeKey, Snapshot
from rolltrace.tables import (
    LOG,
    DataFile,
    LiveSnapshot,
    TableStore,
    TableVersion,
    address_in,
    find_problem,
    open_version,
    read_live,
    read_pass_rules,
)

T = TypeVar("T")
FRESH_SEC = 0.9
"""A question sees tables that were looked at no longer ago than this."""
REMOTE_FRESH_SEC = 5.0
"""The same for a bucket: looking asks object storage."""
_LIVE_SEC = 60.0
"""A process that no live snapshot of this time names records nothing any more."""
_MAX_CURSORS = 16
_MAX_TRIES = 8
_LEADING = TABLES[0]
_DAMAGED_JOURNALS = "SELECT coalesce(sum(count), 0)::BIGINT FROM read_parquet(?) WHERE reason = 'damaged'"
_engines: WeakSet[Engine] = WeakSet()
_of_parents: list[object] = []


class Engine:
    """Answers SQL over one store. Safe to use from any thread; one query runs at a time."""

    def __init__(
        self, store: Path, *, memory_limit: str | None = None, threads: int | None = None, drains: bool = True
    ) -> None:
        """`threads`: as many as there are cores, if not given. `drains`: as of `Backlog`."""
        self._store = store
        self._address = address_in(store)
        self._max_bytes = None if memory_limit is None else size_of("memory_limit", memory_limit)
        self._lock = threading.RLock()
        """Held while a question is asked."""
        self._looking = threading.RLock()
        """Held while somebody looks for new data."""
        self._backlog = Backlog(store, drains=drains)
        self._tables: dict[str, TableVersion] = {}
        self._snapshot = Snapshot({}, self._read_files)
        self._read_at: float | None = None
        self._fresh_sec = FRESH_SEC if self._address.folder is not None else REMOTE_FRESH_SEC
        self._damaged: dict[Path, str] = {}
        """Files that cannot be read, and logs of tables, and why."""
        self._sound: set[Path] = set()
        """Files whose content was compared with their hash."""
        self._lost: tuple[tuple[str, ...], int] = ((), 0)
        """Files of losses, and in how many places journals were damaged, as these say."""
        self._database = Database(self._address, self._max_bytes, threads)
        _engines.add(self)

    def leave_to_parent(self) -> None:
        """In a child that was forked: begin with a database and locks of one's own."""
        _of_parents.append(self._snapshot.cursors)
        self._lock, self._looking = threading.RLock(), threading.RLock()
        self._snapshot.cursors = {}
        self._database.leave_to_parent()

    def close(self) -> None:
        """Give back memory and files. The next question opens them again."""
        with self._lock:
            self._close_cursors()
            self._database.close()

    def _close_cursors(self) -> None:
        for cursor in self._snapshot.cursors.values():
            cursor.connection.close()
        self._snapshot.cursors.clear()

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] | dict[str, Any] = (),
        scope: ScopeKey = None,
        *,
        bounded: bool = False,
    ) -> pa.Table:
        """The answer to one statement.

        Args:
            sql: The statement.
            parameters: The values of its `?`, or by name of its `$name`.
            scope: Look at one step alone, or at these places; at all if not given.
            bounded: Refuse an answer that is larger than the memory limit, which DuckDB applies to its own work only.
        """
        ask = partial(bounded_answer, self._max_bytes) if bounded and self._max_bytes is not None else arrow_answer
        return self._query(ask, sql, parameters, scope)

    def plain_rows(
        self, sql: str, parameters: Sequence[Any] | dict[str, Any] = (), scope: ScopeKey = None
    ) -> pa.Table | PlainTable:
        """As `query`, for an answer that has few rows, or whose rows are all wanted as dicts: these need no Arrow."""
        return self._query(plain_answer, sql, parameters, scope)

    def _query(
        self,
        ask: Callable[[duckdb.DuckDBPyConnection, str, Parameters], T],
        sql: str,
        parameters: Parameters,
        scope: ScopeKey,
    ) -> T:
        self.refresh()
        for _ in range(_MAX_TRIES):
            cursor, snapshot = None, self._snapshot
            try:
                with holding(self._lock):
                    snapshot = self._snapshot
                    cursor = self._cursor(scope)
                    cursor.make_views(sql)
                    connection = cursor.connection
                    answer = partial(ask, connection, sql, parameters)
                    try:
                        return interruptible(answer, connection.interrupt)
                    except duckdb.CatalogException:  # a view that the statement names in a way that we do not see
                        cursor.make_views(None)
                        return interruptible(answer, connection.interrupt)
            except StaleError as error:
                problem: Exception = error
                self.refresh(now=True)
            except (duckdb.Error, RuntimeError) as error:
                if is_interrupt(error):
                    check_limit()
                    raise KeyboardInterrupt from None
                if not isinstance(error, duckdb.Error):
                    raise
                problem = error
                if cursor is not None and not is_of_files(error):
                    raise QueryError(str(error)) from None
                if not self._recover(scope, snapshot):
                    break
        raise StoreError(f"the store {self._address.url!r} could not answer: {problem}") from problem

    def _cursor(self, scope: ScopeKey) -> Cursor:
        snapshot = self._snapshot
        if scope is not None and snapshot.places(scope) == snapshot.places():
            scope = None  # the same rows, whose views may be made already
        cursor = snapshot.cursors.get(scope)
        if cursor is None:
            if len(snapshot.cursors) >= _MAX_CURSORS:
                snapshot.cursors.pop(next(iter(snapshot.cursors))).connection.close()
            connection = self._database.connect()
            cursor = Cursor(connection, self._address, snapshot, scope, self._check_files)
            snapshot.cursors[scope] = cursor
        return cursor

    def refresh(self, *, now: bool = False, everything: bool = False, wait_sec: float = 0.0) -> None:
        """Look for new data, unless that was done within the last second.

        Args:
            now: In any case.
            everything: Wait until all that was recorded so far is there.
            wait_sec: Wait for it so long at most.
        """
        with holding(self._looking):
            if now or everything or self._read_at is None or time.monotonic() - self._read_at >= self._fresh_sec:
                self._look(everything, wait_sec)

    def _look(self, everything: bool = False, wait_sec: float = 0.0) -> None:
        if self._read_at is None:
            TableStore(self._address).check_format()
        self._backlog.drain(everything=everything, wait_sec=wait_sec)
        live, rules = read_live(self._store), read_pass_rules(self._store)
        with holding(self._lock):
            for name in TABLES:
                if name in self._tables:
                    self._refresh_table(name)
                elif name == _LEADING:
                    self._open_table(name)
            versions = {name: table.version for name, table in self._tables.items()}
            before = self._snapshot
            same = versions == before.versions and live == before.live and rules == before.pass_rules
            if not same or self._read_at is None:
                self._show(Snapshot(versions, self._read_files, live, rules))
        self._read_at = time.monotonic()

    def _show(self, snapshot: Snapshot) -> None:
        """From now on, answer from this one."""
        with holding(self._lock):
            self._close_cursors()
            self._snapshot = snapshot

    def _open_table(self, name: str) -> TableVersion:
        self._tables[name] = open_version(self._address, name, self._database.fetch)
        self._refresh_table(name)
        return self._tables[name]

    def _refresh_table(self, name: str) -> None:
        """Look at a table. One whose log is damaged has no rows; without `trajectories` there is no answer."""
        folder = self._address.folder
        try:
            if folder is not None and ((folder / name).is_symlink() or (folder / name / LOG).is_symlink()):
                raise StoreError(f"{str(folder / name)!r} is a symbolic link, which is not followed")
            self._tables[name].refresh()
        except (OutageError, StoreError) as error:
            if name == _LEADING or folder is None:
                raise
            self._damaged[folder / name] = str(error)

    def _read_files(self, name: str) -> list[DataFile]:
        """The files of a table now, without those that are known to be damaged."""
        table = self._tables.get(name)
        if table is None:
            table = self._open_table(name)
            self._snapshot.versions[name] = table.version
        files = table.files()
        return [file for file in files if self._path(name, file) not in self._damaged] if self._damaged else files

    def _path(self, table: str, file: DataFile) -> Path:
        return (self._address.folder or Path(self._address.url)) / table / file.path

    def _check_files(self, table: str, files: Sequence[DataFile]) -> list[DataFile]:
        """Those files that are as they were written; of each it is looked up once."""
        folder = self._address.folder
        if folder is None:
            return list(files)
        sound = []
        for file in files:
            path = self._path(table, file)
            if path not in self._sound:
                problem = self._find_problem(folder / table, table, file)
                if problem is not None:
                    self._damaged[path] = problem
                    continue
                self._sound.add(path)
            sound.append(file)
        return sound

    def _find_problem(self, folder: Path, table: str, file: DataFile, *, content: bool = True) -> str | None:
        """What is wrong with a file, without `content` only with its length and place. Raises `StaleError`."""
        try:
            # An image has a hash of its own, and nobody wants to wait for all others.
            return find_problem(folder, file, content=content and table != "blobs")
        except FileNotFoundError:
            self._refresh_table(table)
            if all(file.path != each.path for each in self._tables[table].files()):
                raise StaleError(f"{file.path} was replaced") from None
            return "it is missing"

    def _check_sizes(self, folder: Path, table: str, files: Sequence[DataFile]) -> None:
        for file in files:
            try:
                problem = self._find_problem(folder, table, file, content=False)
            except StaleError:
                continue
            if problem is not None:
                self._damaged[self._path(table, file)] = problem

    def version(self, step: int | None = None) -> str:
        """A text that is another one as soon as an answer about this step, or about all, may be another one."""
        self.refresh()
        with holding(self._lock):
            return self._snapshot.digest(step)

    @property
    def live(self) -> Sequence[LiveSnapshot]:
        """What each host was doing when its drainer last looked."""
        self.refresh()
        return self._snapshot.live

    @property
    def recording(self) -> frozenset[Experiment]:
        """Project and experiment of each process that records right now."""
        self.refresh()
        since_ns = time.time_ns() - int(_LIVE_SEC * 1e9)
        fresh = [host for host in self._snapshot.live if host.time_ns > since_ns]
        return frozenset((writer.project, writer.experiment) for host in fresh for writer in host.writers)

    @property
    def pass_rules(self) -> Mapping[Experiment, PassRule]:
        """What pass means, in the experiments for which somebody has chosen."""
        self.refresh()
        return self._snapshot.pass_rules

    def sizes(self) -> Counter[Experiment]:
        """How many bytes the files of each experiment have."""
        self.refresh()
        with holding(self._lock):
            return self._snapshot.sizes()

    def stored(self) -> Stored:
        """What is in the tables, as their logs say."""
        self.refresh()
        with holding(self._lock):
            files = {name: self._snapshot.files(name) for name in TABLES}
            if self._address.folder is not None:
                for name, own in files.items():
                    self._check_sizes(self._address.folder / name, name, own)
        rows = {name: sum(file.rows for file in found) for name, found in files.items() if found}
        return Stored(sum(map(len, files.values())), rows, sorted(self._damaged))

    def damaged(self, *, thorough: bool = False) -> list[tuple[Path, str]]:
        """Files that cannot be read, and why; with `thorough`, every byte of every file is checked."""
        with holding(self._looking):
            self._look()
            self._find_damage(None, thorough=thorough)
            return sorted([*self._damaged.items(), *self._backlog.hidden.items()])

    def incomplete(self) -> Incomplete:
        """What the answers so far lack, as far as reading them has shown."""
        hidden, damaged, waiting = self._backlog.hidden, self._damaged, self._backlog.waiting_bytes
        lost = self._count_lost()
        if not hidden and not damaged and not waiting and not lost:
            return COMPLETE
        missing = [Missing("journal", path, why) for path, why in sorted(hidden.items())]
        missing += [Missing("file", path, why) for path, why in sorted(damaged.items())]
        if lost:
            places = f"{lost} damaged {'place' if lost == 1 else 'places'} in journals"
            missing.append(Missing("damage", self._store / "losses", f"{places}: the records there are lost"))
        if waiting:
            missing.append(Missing("backlog", self._store / "journal", f"{waiting / 1e6:.1f} MB"))
        return Incomplete(tuple(missing))

    def _count_lost(self) -> int:
        """In how many places journals were damaged when they were drained. Such a loss is of no step."""
        folder = self._address.folder
        if folder is None or not (folder / "losses").is_dir():
            return 0
        with holding(self._lock):
            losses = [file for file in self._snapshot.files("losses") if file.place.step is None]
            paths = tuple(str(self._path("losses", file)) for file in self._check_files("losses", losses))
            if paths != self._lost[0]:
                try:
                    self._lost = paths, self._database.fetch(_DAMAGED_JOURNALS, [list(paths)])[0][0] if paths else 0
                except duckdb.Error:  # whoever asks for losses is told
                    return 0
        return self._lost[1]

    def _recover(self, scope: ScopeKey, asked: Snapshot) -> bool:
        """After a question failed: whether something is different now, so that trying again makes sense."""
        with holding(self._looking):
            if self._snapshot is not asked:  # somebody else had the same problem
                return True
            self.close()  # an internal error leaves the database unusable
            self._look()
            if self._snapshot is not asked:  # compacted or pruned while we read
                return True
            return self._find_damage(scope) or self._find_damage(scope, thorough=True)

    def _find_damage(self, scope: ScopeKey, *, thorough: bool = False) -> bool:
        """Find damaged files and leave them out from now on; whether there were any that were not known."""
        folder, known = self._address.folder, len(self._damaged)
        if folder is None:
            return False
        with holding(self._lock):
            connection = self._database.connect() if thorough else None
            for table in TABLES:
                for file in self._snapshot.files(table, scope):
                    path = self._path(table, file)
                    try:
                        problem = self._find_problem(folder / table, table, file)
                    except StaleError:
                        continue
                    problem = problem or find_damage(path, table, connection)
                    if problem is not None:
                        self._damaged[path] = problem
            if connection is not None:
                connection.close()
            if len(self._damaged) > known:
                now = self._snapshot
                self._show(Snapshot(now.versions, self._read_files, now.live, now.pass_rules))
        return len(self._damaged) > known


def _leave_to_parents() -> None:
    for engine in list(_engines):
        engine.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parents)
