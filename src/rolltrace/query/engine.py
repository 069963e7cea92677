"""DuckDB over a store: which data a query sees, and what happens when a file cannot be read.

Invariants:
- Journals are read first and parts are listed after, because the drainer writes the parts and then removes the journal:
  a row may then be seen in both places, never in neither, and what is in a part is left out of the live rows.
- The database can read the parts and summaries of this store and nothing else, writes nowhere, and its settings are
  locked.
- A part that cannot be read is left out and reported; the rest of the store stays readable. A summary that cannot be
  read is done without.
- A view is made when a question names it, and a question that names its steps looks at those alone: what is not needed
  is not even opened.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from xxhash import xxh3_64_hexdigest

from rolltrace._amounts import size_of
from rolltrace._arrow import pa
from rolltrace.errors import QueryError, StoreError
from rolltrace.files import read_problem
from rolltrace.journal import hidden_journals, journal_files, journal_folder, start_drainer
from rolltrace.lake.place import mirror_in
from rolltrace.query.coverage import (
    Scope,
    drained,
    dropped_ids,
    has_live_strays,
    live_rows,
    parts_for,
)
from rolltrace.query.damage import (
    Counted,
    Stored,
    count_rows,
    is_interrupt,
    is_of_files,
    problem_of,
    problem_of_listing,
)
from rolltrace.query.database import IS_OLDER, Parameters, arrow_answer, bounded_answer, duckdb, plain_answer, register
from rolltrace.query.incomplete import COMPLETE, Incomplete, Missing
from rolltrace.query.limits import check_limit, interruptible, running, taken
from rolltrace.query.listing import PLACE, Division, Listed, Listings, Range, rows_of
from rolltrace.query.plain import PlainTable
from rolltrace.query.step_rows import given_rows
from rolltrace.query.summary import Folder, Folders, is_among, listing_file, summary_folder
from rolltrace.query.views import (
    DROPPED,
    LATE,
    LISTED,
    SUMMED,
    Cursor,
    Sources,
    late_statement,
    listing_question,
    live_name,
    no_live_rows,
    strays_question,
    views,
)
from rolltrace.record import LOSSES, SCORES, TEXTS
from rolltrace.store import (
    SCHEMAS,
    Partition,
    check_version,
    data_folder,
    step_folder,
    table_of,
)

if TYPE_CHECKING:
    from rolltrace.query.live import LiveJournals

T = TypeVar("T")
FRESH_SEC = 0.9
"""A query sees data that is at most this old."""
LAKE_FRESH_SEC = 5.0
"""The same for a lake: looking asks object storage."""
_FOR_OLDER_VERSIONS = ["disabled_optimizers = 'join_filter_pushdown'"] if IS_OLDER else []
"""DuckDB 1.5 passes Bloom filters on to Arrow tables, which do not take them: `Pushdown Filter Type BLOOM_FILTER`."""
_LISTED_NAMES = frozenset(table.name for table in LISTED)
_MOST_CURSORS = 16
_TRIES = 8
_engines: WeakSet[Engine] = WeakSet()
_of_parents: list[object] = []


class Unreadable(Exception):
    """Parts that a question needs cannot be fetched; it is asked again without them."""


class Engine:
    """Answers SQL over one store. Safe to use from any thread; one query runs at a time."""

    def __init__(
        self, store: Path, *, live: bool = True, memory_limit: str | None = None, threads: int | None = None
    ) -> None:
        """Without `live`, journals are left alone; `threads`: as many as there are cores, if not given."""
        self._store = store
        self._most_bytes = None if memory_limit is None else size_of("memory_limit", memory_limit)
        self._threads = threads
        self._lock = threading.RLock()
        self._reads_journals = live
        self._has_started = False
        self._journals: LiveJournals | None = None
        self._known_folders = Folders(store)
        self._mirror = mirror_in(store)
        self._folders: dict[Path, Folder] = {}
        self._live: dict[str, dict[Path, list[pa.Table]]] = {}
        self._read_at: float | None = None
        self._fresh_sec = FRESH_SEC
        self._changes = 0
        """How often there was new data."""
        self._footers: dict[Path, str | None] = {}
        """Parts whose footer was checked -> what is wrong with it."""
        self._damaged: dict[Path, str] = {}
        self._unlisted: dict[Path, str] = {}
        """Folders of parts that cannot be listed -> why."""
        self._listings = Listings(store)
        self._late: tuple[list[Path], pa.Table | None] = ([], None)
        """Late scores, and the parts that they are from."""
        self._numbers = count()
        """Of the tables that listings are in."""
        self._cursors: dict[object, Cursor] = {}
        self._database: duckdb.DuckDBPyConnection | None = None
        _engines.add(self)

    def leave_to_parent(self) -> None:
        """In a child that was forked: begin with a database of one's own. That of the parent has threads which are not
        here, so it could neither answer nor be closed; it stays as it is."""
        _of_parents.append((self._database, self._cursors))
        self._lock = threading.RLock()
        self._listings.forget()
        self._cursors = {}
        self._database = None

    def close(self) -> None:
        """Give back memory and files. The next question opens them again."""
        with self._lock:
            for cursor in self._cursors.values():
                cursor.connection.close()
            self._cursors.clear()
            self._listings.forget()
            if self._database is not None:
                self._database.close()
            self._database = None

    def _connected(self) -> duckdb.DuckDBPyConnection:
        if self._database is None:
            self._database = self._connect()
        return self._database

    def _connect(self) -> duckdb.DuckDBPyConnection:
        allowed = ", ".join(_quoted(folder) for folder in (data_folder(self._store), summary_folder(self._store)))
        connection = duckdb.connect(":memory:")
        for setting in (
            "temp_directory = ''",
            *([] if self._most_bytes is None else [f"memory_limit = '{self._most_bytes}B'"]),
            *([] if self._threads is None else [f"threads = {self._threads}"]),
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
        connection.execute(no_live_rows())
        return connection

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] | dict[str, Any] = (),
        scope: int | frozenset[Path] | None = None,
        *,
        bounded: bool = False,
    ) -> pa.Table:
        """The answer to one statement, over data that is at most a second old.

        Args:
            sql: The statement.
            parameters: The values of its `?`, or by name of its `$name`.
            scope: Look at one step alone, or at these folders of steps; at all if not given.
            bounded: Refuse an answer that is larger than the memory limit, which DuckDB applies to its own work only.
        """
        ask = partial(bounded_answer, self._most_bytes) if bounded and self._most_bytes is not None else arrow_answer
        return self._query(ask, sql, parameters, scope)

    def plain_rows(
        self,
        sql: str,
        parameters: Sequence[Any] | dict[str, Any] = (),
        scope: int | frozenset[Path] | None = None,
    ) -> pa.Table | PlainTable:
        """As `query`, for an answer that has few rows, or whose rows are all wanted as dicts: these need no Arrow."""
        return self._query(plain_answer, sql, parameters, scope)

    def _query(
        self,
        ask: Callable[[duckdb.DuckDBPyConnection, str, Parameters], T],
        sql: str,
        parameters: Parameters,
        scope: int | frozenset[Path] | None,
    ) -> T:
        with taken(self._lock):
            self.refresh()
            for _ in range(_TRIES):
                cursor = None
                try:
                    cursor = self._cursor(scope)
                    self._fetch_for(cursor, sql, scope)
                    cursor.make_views(sql)
                    connection = cursor.connection
                    answer = partial(ask, connection, sql, parameters)
                    with running(connection):
                        try:
                            return interruptible(answer, connection.interrupt)
                        except duckdb.CatalogException:  # a view that the statement names in a way that we do not see
                            self._fetch_for(cursor, None, scope)
                            cursor.make_views(None)
                            return interruptible(answer, connection.interrupt)
                except Unreadable as fault:
                    problem: Exception = fault
                    self.refresh(now=True)
                except (duckdb.Error, RuntimeError) as fault:
                    if is_interrupt(fault):
                        check_limit()
                        raise KeyboardInterrupt from None
                    if not isinstance(fault, duckdb.Error):
                        raise
                    problem = fault
                    if cursor is not None and not is_of_files(fault):
                        raise QueryError(str(fault)) from None
                    if not self._recover(scope):
                        break
            raise StoreError(f"the store {str(self._store)!r} could not answer: {problem}") from problem

    def refresh(self, *, now: bool = False, everything: bool = False) -> None:
        """Look for new data, unless that was done within the last second; `everything`: however long it takes."""
        with self._lock:
            begun = time.monotonic()
            if not now and self._read_at is not None and begun - self._read_at < self._fresh_sec:
                return
            if self._mirror is not None:
                self._mirror.refresh()
            check_version(self._store)
            changed = self._refresh_journals(everything)
            self._unlisted.clear()
            folders = self._known_folders.scan(self._leave_out)
            listed = {path: self._without_damaged(folder) for path, folder in folders.items()}
            if changed or listed != self._folders or self._read_at is None:
                self._folders = listed
                self._live = {name: {} for name in SCHEMAS}
                if self._journals is not None and not self._journals.is_empty:
                    self._live = self._journals.tables(drained(self._folders))
                self._changes += 1
                self._forget()
            self._read_at = time.monotonic()
            # One question asks several times, and is not to read on each time while there is too much to read.
            usual_sec = FRESH_SEC if self._mirror is None else LAKE_FRESH_SEC
            self._fresh_sec = max(usual_sec, 4 * (self._read_at - begun)) if self.unread_bytes else usual_sec

    @property
    def unread_bytes(self) -> int:
        """How much of the journals is not in the answers yet, because there was too much for one look."""
        return sum(self._journals.unread.values()) if self._journals is not None else 0

    def _refresh_journals(self, everything: bool) -> bool:
        """Read what is new in journals; whether anything was. While there are none, no drainer needs to be loaded."""
        if self._journals is None:
            if not self._reads_journals or not (journal_files(self._store) or hidden_journals(self._store)):
                return False
            from rolltrace.query.live import LiveJournals

            self._journals = LiveJournals(self._store)
        changed = self._journals.refresh(everything=everything)
        if self._journals.unread and not self._has_started:
            self._has_started = True
            if os.access(journal_folder(self._store), os.W_OK):
                start_drainer(self._store)
        return changed

    def version(self, step: int | None = None) -> str:
        """A text that is another one as soon as an answer about this step, or about all, may be another one."""
        with taken(self._lock):
            self.refresh()
            scope = self._scope(step)
            parts = xxh3_64_hexdigest("\n".join(map(str, parts_for(self._folders, scope))).encode())
            moves = any(scope(path) or path.name == step_folder(None) for path in self._live_folders())
            return f"{parts}-{self._changes}" if moves else parts

    @property
    def recording(self) -> set[tuple[str, str]]:
        """Project and experiment of each process that writes right now."""
        with taken(self._lock):
            self.refresh()
            return self._journals.recording() if self._journals is not None else set()

    def scope_of(self, places: Iterable[Partition]) -> frozenset[Path] | None:
        """Where rows of these steps lie, to look nowhere else; None if that cannot be told."""
        scope = frozenset(place.folder(self._store) for place in places)
        present = self._folders.keys() | self._live_folders()
        return scope if self._listings.is_regular and scope <= present else None

    def sizes(self) -> Counter[Path]:
        """How many bytes the parts have, by the folder of their experiment."""
        with taken(self._lock):
            self.refresh()
            sizes: Counter[Path] = Counter()
            for folder in self._folders.values():
                for part in folder.parts:
                    with suppress(FileNotFoundError):  # compacted or pruned meanwhile
                        sizes[folder.path.parent] += part.stat().st_size
            return sizes

    def may_have_terms(self, project: str, experiment: str) -> bool:
        """Whether scores of this experiment may have terms: no summary says that none has."""
        with taken(self._lock):
            self.refresh()
            folder = Partition(project, experiment, None).folder(self._store).parent
            settled = {
                path for path, each in self._folders.items() if each.summary is not None and not each.summary.terms
            }
            return any(path.parent == folder for path in (self._folders.keys() | self._live_folders()) - settled)

    def _live_folders(self) -> set[Path]:
        return {path for folders in self._live.values() for path in folders}

    def stored(self) -> Stored:
        """What is in the parts. Those of steps that have a summary are not looked at."""
        with self._lock:
            self.refresh()
            count, rows, damaged = 0, dict[str, int](), list(self._damaged)
            for folder in self._folders.values():
                count += len(folder.parts)
                if folder.summary is not None:
                    counted = Counted(folder.summary.rows, [])
                elif self._mirror is not None:
                    counted = Counted(self._mirror.row_counts(folder.parts), [])
                else:
                    counted = count_rows(folder.parts)
                damaged += counted.unreadable
                for table, number in counted.rows.items():
                    rows[table] = rows.get(table, 0) + number
            return Stored(count, rows, sorted(damaged))

    def damaged(self, *, thorough: bool = False) -> list[tuple[Path, str]]:
        """Files that cannot be read, and why; with `thorough`, every byte of every part is checked."""
        with self._lock:
            self.refresh(now=True)
            if thorough:
                with suppress(Unreadable):  # they are among the damaged ones now
                    self._fetch(self._parts(lambda path: True))
            self._check(self._parts(lambda path: True), thorough=thorough)
            unreadable = self._journals.unreadable if self._journals is not None else {}
            return sorted([*self._damaged.items(), *self._unlisted.items(), *unreadable.items()])

    def incomplete(self) -> Incomplete:
        """What the answers so far lack, as far as reading them has shown."""
        with self._lock:
            journals = self._journals.unreadable if self._journals is not None else {}
            unread = self._journals.unread if self._journals is not None else {}
            parts = {**self._unlisted, **self._damaged}
            if not journals and not parts and not unread:
                return COMPLETE
            missing = [Missing("journal", path, why) for path, why in sorted(journals.items())]
            missing += [Missing("part", path, why) for path, why in sorted(parts.items())]
            return Incomplete((*missing, *(Missing("backlog", *each) for each in _sizes(unread))))

    def _leave_out(self, folder: Path, fault: OSError) -> None:
        self._unlisted[folder] = read_problem(folder, fault)

    def _without_damaged(self, folder: Folder) -> Folder:
        if self._damaged.keys().isdisjoint(folder.parts):
            return folder
        return folder._replace(parts=[part for part in folder.parts if part not in self._damaged])

    def _parts(self, scope: Scope) -> list[Path]:
        return [part for path, folder in self._folders.items() if scope(path) for part in folder.parts]

    def _scope(self, scope: int | frozenset[Path] | None) -> Scope:
        if scope is None:
            return lambda path: True
        if isinstance(scope, frozenset):
            return scope.__contains__
        name = step_folder(scope)
        return lambda path: path.name == name

    def _cursor(self, scope: int | frozenset[Path] | None) -> Cursor:
        if isinstance(scope, frozenset) and scope >= self._folders.keys() | self._live_folders():
            scope = None  # the same rows, whose views may be made already
        cursor = self._cursors.get(scope)
        if cursor is None:
            if len(self._cursors) >= _MOST_CURSORS:
                self._close_cursor(next(iter(self._cursors)))
            cursor = self._cursors[scope] = self._open_cursor(self._scope(scope))
        return cursor

    def _fetch_for(self, cursor: Cursor, sql: str | None, scope: int | frozenset[Path] | None) -> None:
        """Of a lake: see to it that the parts which a statement reads are here; all, if it is not given."""
        if self._mirror is not None:
            tables = cursor.tables_read(sql)
            self._fetch(part for part in parts_for(self._folders, self._scope(scope)) if table_of(part) in tables)

    def _fetch(self, files: Iterable[Path]) -> None:
        """Of a lake: see to it that these files are here.

        Raises:
            Unreadable: some cannot be; they are left out from now on, or are not in the lake any more.
        """
        if self._mirror is None:
            return
        problems = self._mirror.fetch(files)
        if problems:
            self._damaged.update({file: problem for file, problem in problems.items() if problem is not None})
            self._folders = {path: self._without_damaged(folder) for path, folder in self._folders.items()}
            self._forget()
            raise Unreadable(f"{len(problems)} parts cannot be read")

    def _open_cursor(self, scope: Scope) -> Cursor:
        if self._mirror is not None:
            told = (folder for path, folder in self._folders.items() if scope(path) and folder.summary is None)
            self._fetch(part for folder in told for part in folder.parts if table_of(part) == LOSSES.name)
        divided, late = self._divide(scope), self._late_scores()
        parts, live = parts_for(self._folders, scope), live_rows(self._live, scope)
        connection = self._with_live_rows(live)
        late_live = SCORES.name in live and live[SCORES.name]["step"].null_count > 0
        touched = self._touched(divided.summarised, late, live[SCORES.name] if late_live else None)
        summed = given_rows(
            row
            for folder in divided.summarised
            if folder.path not in touched and folder.summary is not None
            for row in folder.summary.steps
        )
        connection.execute(f"CREATE TEMP TABLE {SUMMED} AS {summed.sql}", summed.parameters)
        if late is not None:
            register(connection, LATE, late)
        dropped = dropped_ids(self._folders, scope, live)
        if dropped:
            ids = "SELECT unnest(?::VARCHAR[]) AS trajectory_id"
            connection.execute(f"CREATE TEMP TABLE {DROPPED} AS {ids}", [dropped])
        listings = {folder.path: listing_file(self._store, folder) for folder in divided.summarised}
        self._fetch(listings.values())
        sources = Sources(
            parts,
            computed=rows_of(divided.computed),
            listings=list(listings.values()),
            touched=[file for path, file in listings.items() if path in touched],
            late=late is not None,
            late_live=late_live,
            texts=TEXTS.name in live,
            dropped=bool(dropped),
        )
        return Cursor(connection, views(sources), set(), divided.moving)

    def _divide(self, scope: Scope) -> Division:
        """How the steps of a scope are listed."""
        moving = {path for table in (*LISTED, LOSSES) for path in self._live[table.name]}
        # Rows whose trajectory is not in the same place may belong to one of another experiment.
        names = {path.name for path in moving if has_live_strays(self._folders, self._live, path)}
        moving |= {path for path in self._folders if path.name in names}
        wanted = [path for path in self._folders if scope(path)]
        has_namesakes = len({path.name for path in {*self._folders, *moving}}) < len({*self._folders, *moving})
        live = live_rows(self._live, lambda path: scope(path) or path.name in names)

        def make(parts: Sequence[Path], with_live: bool) -> Listed:
            return self._list(parts, live if with_live else {}, look_for_strays=has_namesakes)

        in_scope = {path for path in moving if scope(path) or path.name in names}
        before = self._listings.tables()
        divided = self._listings.divide(self._folders, wanted, in_scope, make)
        self._drop(before - self._listings.tables())
        return divided

    def _touched(self, folders: list[Folder], late: pa.Table | None, live_scores: pa.Table | None) -> set[Path]:
        """The summarised steps that have late scores which are not in the numbers of their summary."""
        data = data_folder(self._store)
        parts = self._late[0]
        behind_late: dict[tuple[str, ...], bool] = {}

        def is_behind(folder: Folder) -> bool:
            names = tuple(folder.summary.late) if folder.summary is not None else ()
            if names not in behind_late:
                behind_late[names] = not all(is_among(part, data, frozenset(names)) for part in parts)
            return behind_late[names]

        behind = [folder for folder in folders if live_scores is not None or is_behind(folder)]
        if not behind or (late is None and live_scores is None):
            return set()
        ids = pa.chunked_array(
            [chunk for rows in (late, live_scores) if rows is not None for chunk in rows["trajectory_id"].chunks]
        )
        self._fetch(listing_file(self._store, folder) for folder in behind)
        connection = self._connected().cursor()
        try:
            register(connection, "_ids", pa.table({"trajectory_id": ids}))
            files = ", ".join(_quoted(listing_file(self._store, folder)) for folder in behind)
            places = connection.execute(
                f"SELECT DISTINCT project, experiment, step FROM read_parquet([{files}], hive_partitioning=false) "
                "SEMI JOIN _ids USING (trajectory_id)"
            ).fetchall()
        finally:
            connection.close()
        return {Partition(*place).folder(self._store) for place in places}

    def _late_scores(self) -> pa.Table | None:
        parts = [
            part
            for path, folder in self._folders.items()
            if path.name == step_folder(None)
            for part in folder.parts
            if table_of(part) == SCORES.name
        ]
        if parts != self._late[0]:
            self._fetch(parts)
            scores = arrow_answer(self._connected().cursor(), late_statement(parts)) if parts else None
            self._late = (parts, scores if scores is not None and len(scores) else None)
        return self._late[1]

    def _with_live_rows(self, live: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
        cursor = self._connected().cursor()
        for table, rows in live.items():
            register(cursor, live_name(table), rows)
        return cursor

    def _list(self, parts: Sequence[Path], live: Mapping[str, pa.Table], *, look_for_strays: bool = True) -> Listed:
        """The listing of these parts and live rows, by folder."""
        self._fetch(part for part in parts if table_of(part) in _LISTED_NAMES)
        cursor = self._with_live_rows(live)
        table = f"_listed_{next(self._numbers)}"
        try:
            cursor.execute(f"CREATE TABLE {table} AS {listing_question(parts)}")
            places = cursor.execute(
                f"SELECT DISTINCT {PLACE}, {', '.join(Partition._fields)} FROM {table} ORDER BY {PLACE}"
            ).fetchall()
            strays = cursor.execute(strays_question(parts)).fetchall() if look_for_strays else []
        finally:
            cursor.close()
        placed = (place for place in strays if None not in place[:2])
        return Listed(
            Range(table, 1, len(places)),
            [
                # A part that is not ours has no project.
                (Partition(project or "unknown", experiment or "unknown", step), Range(table, number, number))
                for number, project, experiment, step in places
            ],
            [Partition(*place).folder(self._store) for place in placed],
        )

    def _forget(self) -> None:
        while self._cursors:
            self._close_cursor(next(iter(self._cursors)))

    def _close_cursor(self, scope: object) -> None:
        cursor = self._cursors.pop(scope)
        cursor.connection.close()
        self._drop(cursor.tables)

    def _drop(self, tables: Iterable[str]) -> None:
        for table in tables:
            self._connected().execute(f"DROP TABLE IF EXISTS {table}")

    def _recover(self, scope: int | frozenset[Path] | None) -> bool:
        """After a failed query: whether something is different now, so that trying again makes sense."""
        before = self._folders
        self.close()  # an internal error leaves a database unusable
        self.refresh(now=True)
        if self._folders != before:  # compacted or pruned while we read
            return True
        wanted = self._scope(scope)
        if self._mirror is not None and self._mirror.has_hollow(parts_for(self._folders, wanted)):
            return True  # another process has made room in the cache while we read
        unreadable = [
            path
            for path, folder in self._folders.items()
            if wanted(path) and folder.summary is not None and problem_of_listing(listing_file(self._store, folder))
        ]
        if unreadable:
            for path in unreadable:
                self._known_folders.forget_summary(path)
            self.refresh(now=True)
            return True
        suspects = parts_for(self._folders, wanted)
        return self._check(suspects) or self._check(suspects, thorough=True)

    def _check(self, parts: list[Path], *, thorough: bool = False) -> bool:
        """Find damaged parts and leave them out from now on; whether there were any."""
        problems = {}
        for part in parts:
            if part not in self._footers or thorough:
                self._footers[part] = problem_of(part, self._connected() if thorough else None)
            problem = self._footers[part]
            if problem:
                problems[part] = problem
        if problems:
            self._damaged.update(problems)
            self._folders = {path: self._without_damaged(folder) for path, folder in self._folders.items()}
            self._forget()
        return bool(problems)


def _sizes(unread: Mapping[Path, int]) -> list[tuple[Path, str]]:
    return [(path, f"{size / 1e6:.1f} MB") for path, size in sorted(unread.items())]


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _leave_to_parents() -> None:
    for engine in list(_engines):
        engine.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parents)
