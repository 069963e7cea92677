"""Questions over a store: which data they see, and what happens when a file cannot be read.

Invariants:
- Journals are read first and parts are listed after, because the drainer writes the parts and then removes the journal:
  a row may then be seen in both places, never in neither, and what is in a part is left out of the live rows.
- A part that cannot be read is left out and reported; the rest of the store stays readable. A summary that cannot be
  read is done without.
- A view is made when a question names it, and a question that names its steps looks at those alone: what is not needed
  is not even opened.
- Of the locks, `_looking` is taken before `_lock`.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from rolltrace._amounts import size_of
from rolltrace._arrow import pa
from rolltrace.errors import QueryError, StoreError
from rolltrace.files import read_problem
from rolltrace.journal import hidden_journals, journal_files, journal_folder, start_drainer
from rolltrace.lake import mirror_in
from rolltrace.pass_rule import Experiment, PassRule, read_rules
from rolltrace.query.ahead import KEEP_SEC, LONGEST_LOOK_SEC, OLDEST_SEC, Ahead
from rolltrace.query.coverage import drained, parts_for
from rolltrace.query.cursors import Cursors
from rolltrace.query.damage import (
    Counted,
    Stored,
    Unreadable,
    count_damaged,
    count_rows,
    is_interrupt,
    is_of_files,
    problem_of,
    problem_of_listing,
)
from rolltrace.query.database import Parameters, arrow_answer, bounded_answer, duckdb, plain_answer
from rolltrace.query.incomplete import COMPLETE, Incomplete, Missing
from rolltrace.query.limits import check_limit, holding, interruptible, running
from rolltrace.query.plain import PlainTable
from rolltrace.query.snapshot import JournalState, ScopeKey, Snapshot, scope_of
from rolltrace.query.summary import Folder, Folders, listing_file
from rolltrace.query.views import Cursor
from rolltrace.record import LOSSES
from rolltrace.store import SCHEMAS, Partition, check_version, checksum_problem, is_part_name, step_folder, table_of

if TYPE_CHECKING:
    from rolltrace.query.live import LiveJournals

T = TypeVar("T")
FRESH_SEC = 0.9
"""A query sees data that is at most this old."""
LAKE_FRESH_SEC = 5.0
"""The same for a lake: looking asks object storage."""
_MOST_CURSORS = 16
_TRIES = 8
_engines: WeakSet[Engine] = WeakSet()
_of_parents: list[object] = []


class Engine:
    """Answers SQL over one store. Safe to use from any thread; one query runs at a time."""

    def __init__(
        self, store: Path, *, live: bool = True, memory_limit: str | None = None, threads: int | None = None
    ) -> None:
        """Without `live`, journals are left alone; `threads`: as many as there are cores, if not given."""
        self._store = store
        self._most_bytes = None if memory_limit is None else size_of("memory_limit", memory_limit)
        self._lock = threading.RLock()
        """Held while a question is asked."""
        self._looking = threading.RLock()
        """Held while somebody looks for new data."""
        self._look_since: float | None = None
        """When the look under way began."""
        self._ahead: Ahead | None = None
        self._reads_journals = live
        self._has_started = False
        self._journals: LiveJournals | None = None
        self._journal_state = JournalState()
        self._known_folders = Folders(store)
        self._mirror = mirror_in(store)
        self._snapshot = Snapshot({}, {name: {} for name in SCHEMAS}, 0)
        self._asked_at: dict[ScopeKey, float] = {}
        self._read_at: float | None = None
        self._fresh_sec = FRESH_SEC
        self._footers: dict[Path, str | None] = {}
        """Parts whose footer was checked -> what is wrong with it."""
        self._damaged: dict[Path, str] = {}
        self._intact: set[Path] = set()
        """Parts and listings whose checksum was compared."""
        self._bad_listings: set[Path] = set()
        """Folders of steps whose listing is damaged, until the next look."""
        self._lost: dict[Path, int] = {}
        """Parts of losses -> how many places of journals were damaged."""
        self._unlisted: dict[Path, str] = {}
        """Folders of parts that cannot be listed -> why."""
        self._cursors = Cursors(store, self._most_bytes, threads, self._fetch)
        _engines.add(self)

    def leave_to_parent(self) -> None:
        """In a child that was forked: begin with a database and locks of one's own."""
        _of_parents.append(self._snapshot.cursors)
        self._lock, self._looking, self._look_since = threading.RLock(), threading.RLock(), None
        self._snapshot.cursors = {}
        self._cursors.leave_to_parent()
        if self._ahead is not None:
            self.look_ahead()

    def close(self) -> None:
        """Give back memory and files. The next question opens them again."""
        if self._ahead is not None:
            self._ahead.stop()
        self._close_database()

    def _close_database(self) -> None:
        with self._lock:
            for cursor in self._snapshot.cursors.values():
                cursor.connection.close()
            self._snapshot.cursors.clear()
            self._cursors.close()

    def look_ahead(self) -> None:
        """From now on, while questions are asked and journals are written, look for new data in a thread."""
        self._ahead = Ahead(self.refresh, lambda: (self._read_at or 0.0) + self._fresh_sec)

    @property
    def _is_ahead(self) -> bool:
        return self._ahead is not None and self._ahead.is_running

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] | dict[str, Any] = (),
        scope: ScopeKey = None,
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
        scope: ScopeKey = None,
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
        self._freshen()
        for _ in range(_TRIES):
            cursor, snapshot = None, self._snapshot
            try:
                with holding(self._lock):
                    snapshot = self._snapshot
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
                if not self._recover(scope, snapshot):
                    break
        raise StoreError(f"the store {str(self._store)!r} could not answer: {problem}") from problem

    def _freshen(self) -> Snapshot:
        """What questions see: not too old."""
        ahead = self._ahead
        if ahead is None or self._journal_state.is_empty:
            self.refresh()
            return self._snapshot
        ahead.ask()
        now, read_at = time.monotonic(), self._read_at
        limit = OLDEST_SEC if self._look_since is None else LONGEST_LOOK_SEC
        if read_at is None or now - read_at > max(limit, self._fresh_sec):
            self.refresh()
        return self._snapshot

    def refresh(self, *, now: bool = False, everything: bool = False) -> None:
        """Look for new data, unless that was done within the last second; `everything`: however long it takes."""
        with holding(self._looking):
            if now or self._read_at is None or time.monotonic() - self._read_at >= self._fresh_sec:
                self._look(everything)

    def _look(self, everything: bool = False) -> None:
        begun = self._look_since = time.monotonic()
        try:
            if self._mirror is not None:
                self._mirror.refresh()
            check_version(self._store)
            changed = self._refresh_journals(everything)
            for path in self._bad_listings:
                self._known_folders.forget_summary(path)
            self._bad_listings = set()
            self._unlisted = unlisted = dict[Path, str]()
            folders = self._known_folders.scan(lambda folder, fault: _leave_out(unlisted, folder, fault))
            listed = {path: self._without_damaged(folder) for path, folder in folders.items()}
            rules = read_rules(self._store)
            is_new = listed != self._snapshot.folders or rules != self._snapshot.pass_rules
            if changed or is_new or self._read_at is None:
                live: Mapping[str, dict[Path, list[pa.Table]]] = {name: {} for name in SCHEMAS}
                if self._journals is not None and not self._journals.is_empty:
                    live = self._journals.tables(drained(listed))
                self._show(Snapshot(listed, live, self._snapshot.number + 1, rules))
            self._read_at = time.monotonic()
            # One question asks several times, and is not to read on each time while there is too much to read.
            behind = self.unread_bytes and self._ahead is None
            usual_sec = FRESH_SEC if self._mirror is None else LAKE_FRESH_SEC
            self._fresh_sec = max(usual_sec, 4 * (self._read_at - begun)) if behind else usual_sec
        finally:
            self._look_since = None

    def _show(self, snapshot: Snapshot) -> None:
        """From now on, answer from this one."""
        before, generation = self._snapshot, self._cursors.generation
        shared = self._prepare(snapshot, before) if self._is_ahead else set()
        with holding(self._lock):
            if self._cursors.generation != generation:  # the database was closed meanwhile
                snapshot.cursors.clear()
            for key in shared:
                if key not in before.cursors:  # closed meanwhile, to make room for another one
                    snapshot.cursors.pop(key, None)
            self._snapshot = snapshot
            for key, cursor in before.cursors.items():
                if key not in shared:
                    self._cursors.close_cursor(cursor)
            before.cursors = {}
            self._cursors.drop_outdated(snapshot.cursors.values())

    def _prepare(self, snapshot: Snapshot, before: Snapshot) -> set[ScopeKey]:
        """Open the cursors that will be needed, while questions are still answered from those of before. Those of
        which keys are shared by both."""
        shared = set[ScopeKey]()
        since = time.monotonic() - KEEP_SEC
        asked = sorted(((at, key) for key, at in self._asked_at.copy().items() if at > since), key=lambda each: each[0])
        self._asked_at = {key: at for at, key in asked}
        for _, key in asked[-_MOST_CURSORS:]:
            same = before.cursors.get(key)
            try:
                if same is not None and snapshot.has_same_rows(before, key):
                    snapshot.cursors[key] = same
                    shared.add(key)
                else:
                    cursor = snapshot.cursors[key] = self._cursors.open(snapshot, key)
                    cursor.make(() if same is None else list(same.created))
            except (duckdb.Error, Unreadable):  # a part went meanwhile, or is damaged: whoever asks sees to that
                if (failed := snapshot.cursors.pop(key, None)) is not None:
                    failed.connection.close()
        return shared

    @property
    def unread_bytes(self) -> int:
        """How much of the journals is not in the answers yet, because there was too much for one look."""
        return sum(self._journal_state.unread.values())

    def _refresh_journals(self, everything: bool) -> bool:
        """Read what is new in journals; whether anything was. While there are none, no drainer needs to be loaded."""
        if self._journals is None:
            if not self._reads_journals or not (journal_files(self._store) or hidden_journals(self._store)):
                return False
            from rolltrace.query.live import LiveJournals

            self._journals = LiveJournals(self._store)
        changed = self._journals.refresh(everything=everything)
        self._journal_state = JournalState(
            self._journals.is_empty,
            frozenset(self._journals.recording()),
            dict(self._journals.unread),
            dict(self._journals.unreadable),
            self._journals.damaged(),
        )
        if self._journals.unread and not self._has_started:
            self._has_started = True
            if os.access(journal_folder(self._store), os.W_OK):
                start_drainer(self._store)
        return changed

    def version(self, step: int | None = None) -> str:
        """A text that is another one as soon as an answer about this step, or about all, may be another one."""
        return self._freshen().version(step)

    @property
    def recording(self) -> frozenset[tuple[str, str]]:
        """Project and experiment of each process that writes right now."""
        self._freshen()
        return self._journal_state.recording

    @property
    def pass_rules(self) -> Mapping[Experiment, PassRule]:
        """What pass means, in the experiments for which somebody has chosen."""
        return self._freshen().pass_rules

    def scope_of(self, places: Iterable[Partition]) -> frozenset[Path] | None:
        """Where rows of these steps lie, to look nowhere else; None if that cannot be told."""
        scope = frozenset(place.folder(self._store) for place in places)
        snapshot = self._snapshot
        present = snapshot.folders.keys() | snapshot.live_folders
        return scope if self._cursors.is_regular and scope <= present else None

    def sizes(self) -> Counter[Path]:
        """How many bytes the parts have, by the folder of their experiment."""
        return self._freshen().sizes

    def may_have_terms(self, project: str, experiment: str) -> bool:
        """Whether scores of this experiment may have terms: no summary says that none has."""
        snapshot = self._freshen()
        folder = Partition(project, experiment, None).folder(self._store).parent
        settled = {
            path for path, each in snapshot.folders.items() if each.summary is not None and not each.summary.terms
        }
        return any(path.parent == folder for path in (snapshot.folders.keys() | snapshot.live_folders) - settled)

    def stored(self) -> Stored:
        """What is in the parts. Those of steps that have a summary are not looked at."""
        snapshot = self._freshen()
        count, rows, damaged = 0, dict[str, int](), list(self._damaged)
        for folder in snapshot.folders.values():
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
        with holding(self._looking):
            self._look()
            if thorough:
                with suppress(Unreadable):  # they are among the damaged ones now
                    self._fetch(self._snapshot.parts(lambda path: True))
            if thorough or self._mirror is None:
                there = [part for part in self._snapshot.parts(lambda path: True) if part not in self._damaged]
                self._check(there, thorough=thorough)
            unreadable = self._journal_state.unreadable
            return sorted([*self._damaged.items(), *self._unlisted.items(), *unreadable.items()])

    def incomplete(self) -> Incomplete:
        """What the answers so far lack, as far as reading them has shown."""
        _, _, unread, journals, damaged = self._journal_state
        parts, lost = {**self._unlisted, **self._damaged}, self._lost_places()
        if not journals and not parts and not unread and not damaged and not lost:
            return COMPLETE
        missing = [Missing("journal", path, why) for path, why in sorted(journals.items())]
        missing += [Missing("part", path, why) for path, why in sorted(parts.items())]
        for path, places in sorted({**damaged, **lost}.items()):
            which = (
                f"the journal file {path.parent.name}/{path.name}" if path in damaged else "journals that are drained"
            )
            what = f"{places} damaged {'place' if places == 1 else 'places'} in {which}"
            missing.append(Missing("damage", path, f"{what}: the records there are lost"))
        return Incomplete((*missing, *(Missing("backlog", *each) for each in _sizes(unread))))

    def _lost_places(self) -> dict[Path, int]:
        """Parts of losses that tell of damage in journals, and of how many places. It is of no step."""
        lost = {}
        for path, folder in self._snapshot.folders.items():
            for part in folder.parts if path.name == step_folder(None) else ():
                if table_of(part) == LOSSES.name:
                    if part not in self._lost and self._is_here(part):
                        self._lost[part] = count_damaged(part)
                    if self._lost.get(part):
                        lost[part] = self._lost[part]
        return lost

    def _fetch(self, files: Iterable[Path]) -> None:
        """See to it that these files are here, if they are in a lake, and that they are as they were written.

        Raises:
            Unreadable: some are not; they are left out from now on, or are not in the lake any more.
        """
        if self._mirror is None:
            self._compare_checksums(files)
            return
        problems = self._mirror.fetch(files)
        if problems:
            unreadable = {file: problem for file, problem in problems.items() if problem is not None}
            self._damaged = {**self._damaged, **unreadable}
            raise Unreadable(f"{len(problems)} parts cannot be read")

    def _compare_checksums(self, files: Iterable[Path]) -> None:
        """Of each file once: DuckDB compares none, and would answer with whatever the bytes are now."""
        damaged: dict[Path, str] = {}
        for file in files:
            if file in self._intact:
                continue
            try:
                problem = checksum_problem(file, required=False)
            except OSError:  # gone, or not ours to read: who reads it sees to that
                continue
            if problem is None:
                self._intact.add(file)
            else:
                damaged[file] = problem
        if damaged:
            self._damaged = {**self._damaged, **{file: damaged[file] for file in damaged if is_part_name(file.name)}}
            self._bad_listings |= {
                path
                for path, folder in self._snapshot.folders.items()
                if folder.summary is not None and listing_file(self._store, folder) in damaged
            }
            raise Unreadable(f"{len(damaged)} files are damaged")

    def _fetch_for(self, cursor: Cursor, sql: str | None, scope: ScopeKey) -> None:
        """See to it that the parts which a statement reads can be read; all, if it is not given."""
        tables = cursor.tables_read(sql)
        parts = parts_for(self._snapshot.folders, scope_of(scope))
        self._fetch(part for part in parts if table_of(part) in tables)

    def _without_damaged(self, folder: Folder) -> Folder:
        if self._damaged.keys().isdisjoint(folder.parts):
            return folder
        return folder._replace(parts=[part for part in folder.parts if part not in self._damaged])

    def _cursor(self, scope: ScopeKey) -> Cursor:
        snapshot = self._snapshot
        if scope is not None and all(map(scope_of(scope), chain(snapshot.folders, snapshot.live_folders))):
            scope = None  # the same rows, whose views may be made already
        self._asked_at[scope] = time.monotonic()
        cursor = snapshot.cursors.get(scope)
        if cursor is None:
            if len(snapshot.cursors) >= _MOST_CURSORS:
                self._cursors.close_cursor(snapshot.cursors.pop(next(iter(snapshot.cursors))))
            cursor = snapshot.cursors[scope] = self._cursors.open(snapshot, scope)
        return cursor

    def _recover(self, scope: ScopeKey, asked: Snapshot) -> bool:
        """After a question failed: whether something is different now, so that trying again makes sense."""
        with holding(self._looking):
            if self._snapshot is not asked:  # somebody else had the same problem
                return True
            before = asked.folders
            self._close_database()  # an internal error leaves it unusable
            self._look()
            if self._snapshot.folders != before:  # compacted or pruned while we read
                return True
            if self._mirror is not None and self._mirror.has_lost():  # another process has made room in the cache
                return True
            wanted = scope_of(scope)
            unreadable = [
                path
                for path, folder in self._snapshot.folders.items()
                if wanted(path) and folder.summary is not None and self._has_bad_listing(folder)
            ]
            if unreadable:
                for path in unreadable:
                    self._known_folders.forget_summary(path)
                self._look()
                return True
            suspects = [part for part in parts_for(self._snapshot.folders, wanted) if self._is_here(part)]
            return self._check(suspects) or self._check(suspects, thorough=True)

    def _is_here(self, file: Path) -> bool:
        return self._mirror is None or self._mirror.has(file)

    def _has_bad_listing(self, folder: Folder) -> bool:
        listing = listing_file(self._store, folder)
        return self._is_here(listing) and problem_of_listing(listing) is not None

    def _check(self, parts: list[Path], *, thorough: bool = False) -> bool:
        """Find damaged parts and leave them out from now on; whether there were any."""
        problems = {}
        connection = self._cursors.connection() if thorough else None
        for part in parts:
            if part not in self._footers or thorough:
                self._footers[part] = problem_of(part, connection)
            problem = self._footers[part]
            if problem:
                problems[part] = problem
        if connection is not None:
            connection.close()
        if problems:
            self._damaged = {**self._damaged, **problems}
            folders = {path: self._without_damaged(folder) for path, folder in self._snapshot.folders.items()}
            self._show(Snapshot(folders, self._snapshot.live, self._snapshot.number, self._snapshot.pass_rules))
        return bool(problems)


def _leave_out(unlisted: dict[Path, str], folder: Path, fault: OSError) -> None:
    unlisted[folder] = read_problem(folder, fault)


def _sizes(unread: Mapping[Path, int]) -> list[tuple[Path, str]]:
    return [(path, f"{size / 1e6:.1f} MB") for path, size in sorted(unread.items())]


def _leave_to_parents() -> None:
    for engine in list(_engines):
        engine.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parents)
