"""DuckDB over a store: which data a query sees, and what happens when a file cannot be read.

Invariants:
- Journals are read first and parts are listed after, because the drainer writes the parts and then removes the journal:
  a row may then be seen in both places, never in neither, and what is in a part is left out of the live rows.
- The database can read the parts of this store and nothing else, writes nowhere, and its settings are locked.
- A part that cannot be read is left out and reported; the rest of the store stays readable.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from xxhash import xxh3_64_hexdigest

from rolltrace.errors import QueryError, StoreError
from rolltrace.journal import read_problem
from rolltrace.query.incomplete import COMPLETE, Incomplete, Missing
from rolltrace.query.interruptible import interruptible
from rolltrace.query.limits import check_limit, running, taken
from rolltrace.query.live import LiveJournals, PartKey
from rolltrace.query.settled import SettledSteps
from rolltrace.query.views import DROPPED, LATE, LISTED, ROWS, late_statement, listing_statements, live_name, statements
from rolltrace.record.tables import FLAGS, LOSSES, SCORES, TEXTS, TRANSITIONS
from rolltrace.store import (
    SCHEMAS,
    check_version,
    checksum_problem,
    data_folder,
    list_parts,
    replaced_by,
    source_of,
    step_folder,
    table_of,
)
from rolltrace.store.dropped import dropped_in

FRESH_SEC = 0.9
"""A query sees data that is at most this old."""
WITHOUT_STEP = frozenset({SCORES.name, TRANSITIONS.name, FLAGS.name})
"""The tables whose rows may be given by id alone, long after: those lie in `step=none`, whatever their trajectory's."""
_MOST_CURSORS = 16
_TRIES = 8
_OF_THE_QUESTION = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.PermissionException)
_OF_FILES = (duckdb.IOException, duckdb.InternalException)
_CTRL_C = "KeyboardInterrupt"
_CORRUPTION = re.compile(r"parquet|corrupt|magic bytes|decompress|zstd|(read|reading|open) file", re.IGNORECASE)


class Engine:
    """Answers SQL over one store. Safe to use from any thread; one query runs at a time."""

    def __init__(self, store: Path, *, memory_limit: str | None = None) -> None:
        self._store = store
        self._memory_limit = memory_limit
        self._lock = threading.RLock()
        self._journals = LiveJournals(store)
        self._parts: list[Path] = []
        self._live: dict[str, pa.Table] = {}
        self._read_at: float | None = None
        self._changes = 0
        """How often there was new data."""
        self._moving: set[int | None] = set()
        """The steps of which journals hold something."""
        self._footers: dict[Path, str | None] = {}
        """Parts whose footer was checked -> what is wrong with it."""
        self._damaged: dict[Path, str] = {}
        self._unlisted: dict[Path, str] = {}
        """Folders of parts that cannot be listed -> why."""
        self._settled = SettledSteps()
        self._late: tuple[list[Path], pa.Table | None] = ([], None)
        """Late scores, and the parts that they are from."""
        self._cursors: dict[int | None, duckdb.DuckDBPyConnection] = {}
        self._database = self._connect()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        allowed = str(data_folder(self._store)).replace("'", "''")
        made = duckdb.connect(":memory:")
        for setting in (
            "temp_directory = ''",
            *([] if self._memory_limit is None else [f"memory_limit = '{self._memory_limit}'"]),
            "parquet_metadata_cache = true",
            "autoinstall_known_extensions = false",
            "autoload_known_extensions = false",
            "allow_community_extensions = false",
            "python_enable_replacements = false",
            f"allowed_directories = ['{allowed}']",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            made.execute(f"SET {setting}")
        return made

    def query(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = (), step: int | None = None) -> pa.Table:
        """The answer to one statement, over data that is at most a second old; with `step`, over that step alone."""
        with taken(self._lock):
            self.refresh()
            for _ in range(_TRIES):
                cursor = None
                try:
                    cursor = self._cursor(step)
                    with running(cursor):
                        return interruptible(partial(_answer, cursor, sql, parameters), cursor.interrupt)
                except (duckdb.Error, RuntimeError) as fault:
                    if _is_interrupt(fault):
                        check_limit()
                        raise KeyboardInterrupt from None
                    if not isinstance(fault, duckdb.Error):
                        raise
                    problem = fault
                    if cursor is not None and not _is_of_files(fault):
                        raise QueryError(str(fault)) from None
                    if not self._recover(step):
                        break
            raise StoreError(f"the store {str(self._store)!r} could not answer: {problem}") from problem

    def refresh(self, *, now: bool = False) -> None:
        """Look for new data, unless that was done within the last second."""
        with self._lock:
            if not now and self._read_at is not None and time.monotonic() - self._read_at < FRESH_SEC:
                return
            check_version(self._store)
            changed = self._journals.refresh()
            self._unlisted.clear()
            found = list_parts(self._store, on_unreadable=self._leave_out)
            listed = [part for part in found if part not in self._damaged]
            if changed or listed != self._parts or self._read_at is None:
                self._parts = listed
                self._live = self._journals.tables(self._drained())
                self._changes += 1
                self._moving = {step for rows in self._live.values() for step in rows["step"].unique().to_pylist()}
                self._forget()
            self._read_at = time.monotonic()

    def version(self, step: int | None = None) -> str:
        """A text that is another one as soon as an answer about this step, or about all, may be another one."""
        with taken(self._lock):
            self.refresh()
            parts = xxh3_64_hexdigest("\n".join(map(str, self._parts_of(step))).encode())
            moves = self._moving if step is None else self._moving & {step, None}
            return f"{parts}-{self._changes}" if moves else parts

    @property
    def recording(self) -> set[tuple[str, str]]:
        """Project and experiment of each process that writes right now."""
        with taken(self._lock):
            self.refresh()
            return self._journals.recording()

    def damaged(self, *, thorough: bool = False) -> list[tuple[Path, str]]:
        """Files that cannot be read, and why; with `thorough`, every byte of every part is checked."""
        with self._lock:
            self.refresh(now=True)
            self._check(self._parts, thorough=thorough)
            return sorted([*self._damaged.items(), *self._unlisted.items(), *self._journals.unreadable.items()])

    def incomplete(self) -> Incomplete:
        """What the answers so far lack, as far as reading them has shown."""
        with self._lock:
            journals, parts = self._journals.unreadable, {**self._unlisted, **self._damaged}
            if not journals and not parts:
                return COMPLETE
            missing = [Missing("journal", path, why) for path, why in sorted(journals.items())]
            return Incomplete((*missing, *(Missing("part", path, why) for path, why in sorted(parts.items()))))

    def _leave_out(self, folder: Path, fault: OSError) -> None:
        self._unlisted[folder] = read_problem(folder, fault)

    def _drained(self) -> set[PartKey]:
        return {
            PartKey(part.parent, table_of(part), source)
            for part in self._parts
            for source in (source_of(part), *(each.source for each in replaced_by(part)))
        }

    def _cursor(self, step: int | None) -> duckdb.DuckDBPyConnection:
        cursor = self._cursors.get(step)
        if cursor is None:
            if len(self._cursors) >= _MOST_CURSORS:
                self._cursors.pop(next(iter(self._cursors))).close()
            listing, late = self._listing(step), self._late_scores()
            cursor = self._with_live_rows(self._live)
            cursor.register(ROWS, listing)
            if late is not None:
                cursor.register(LATE, late)
            parts = self._parts_of(step)
            dropped = self._dropped(parts)
            if dropped:
                cursor.register(DROPPED, pa.table({"trajectory_id": pa.array(dropped, type=pa.string())}))
            made = statements(
                parts,
                late=late is not None,
                late_live=self._live[SCORES.name]["step"].null_count > 0,
                texts=len(self._live[TEXTS.name]) > 0,
                dropped=bool(dropped),
            )
            for statement in made:
                cursor.execute(statement)
            self._cursors[step] = cursor
        return cursor

    def _parts_of(self, step: int | None) -> list[Path]:
        """The parts of a step, and those in which rows without coordinates may belong to it."""
        if step is None:
            return self._parts
        late = step_folder(None)
        return [
            part
            for part in self._parts
            if part.parent.name == step_folder(step) or (part.parent.name == late and table_of(part) in WITHOUT_STEP)
        ]

    def _listing(self, step: int | None) -> pa.Table:
        """The listing of a step, or of all; without late scores."""
        own = [part for part in self._parts if step is None or part.parent.name == step_folder(step)]
        settled, active = self._settled.split(own, self._live, self._list)
        if settled is not None and not active and not any(len(self._live[table.name]) for table in LISTED):
            return settled
        moving = self._list(active, live=True)
        return moving if settled is None else pa.concat_tables([settled, moving])

    def _late_scores(self) -> pa.Table | None:
        parts = [
            part for part in self._parts if part.parent.name == step_folder(None) and table_of(part) == SCORES.name
        ]
        if parts != self._late[0]:
            found = self._ask(late_statement(parts)) if parts else None
            self._late = (parts, found if found is not None and len(found) else None)
        return self._late[1]

    def _dropped(self, parts: list[Path]) -> list[str]:
        """The ids of trajectories that were begun and then not kept."""
        live: list[str] = pc.drop_null(self._live[LOSSES.name]["trajectory_id"]).to_pylist()
        return live + [each for part in parts if table_of(part) == LOSSES.name for each in dropped_in(part)]

    def _with_live_rows(self, live: dict[str, pa.Table]) -> duckdb.DuckDBPyConnection:
        cursor = self._database.cursor()
        for table, rows in live.items():
            cursor.register(live_name(table), rows)
        return cursor

    def _list(self, parts: list[Path], *, live: bool = False) -> pa.Table:
        """The listing of these parts, by step; with the live rows or without."""
        return self._ask("SELECT * FROM _active_listing ORDER BY step", listing_statements(parts), live=live)

    def _ask(self, question: str, views: Iterable[str] = (), *, live: bool = False) -> pa.Table:
        """The answer to a question of our own, over views of its own."""
        cursor = self._with_live_rows(
            self._live if live else {name: rows.slice(0, 0) for name, rows in self._live.items()}
        )
        try:
            for statement in views:
                cursor.execute(statement)
            return cursor.sql(question).to_arrow_table()
        finally:
            cursor.close()

    def _forget(self) -> None:
        for cursor in self._cursors.values():
            cursor.close()
        self._cursors.clear()

    def _recover(self, step: int | None) -> bool:
        """After a failed query: whether something is different now, so that trying again makes sense."""
        before = self._parts
        self._forget()
        self._database.close()
        self._database = self._connect()  # an internal error leaves a database unusable
        self.refresh(now=True)
        if self._parts != before:  # compacted or pruned while we read
            return True
        suspects = self._parts_of(step)
        return self._check(suspects) or self._check(suspects, thorough=True)

    def _check(self, parts: list[Path], *, thorough: bool = False) -> bool:
        """Find damaged parts and leave them out from now on; whether there were any."""
        found = {}
        for part in parts:
            if part not in self._footers or thorough:
                self._footers[part] = problem_of(part, self._database if thorough else None)
            problem = self._footers[part]
            if problem:
                found[part] = problem
        if found:
            self._damaged.update(found)
            self._parts = [part for part in self._parts if part not in found]
            self._forget()
        return bool(found)


def _answer(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any] | dict[str, Any]) -> pa.Table:
    return cursor.sql(sql, params=parameters).to_arrow_table()


def _is_interrupt(fault: Exception) -> bool:
    """Whether Ctrl-C is the reason: DuckDB says so in three ways, by what it did when it was pressed."""
    return isinstance(fault, duckdb.InterruptException) or str(fault) == "Query interrupted" or _CTRL_C in str(fault)


def _is_of_files(fault: duckdb.Error) -> bool:
    """Whether a file may be the reason, and not the question. DuckDB has no type of its own for that."""
    if isinstance(fault, _OF_THE_QUESTION):
        return False
    return type(fault) is duckdb.Error or isinstance(fault, _OF_FILES) or _CORRUPTION.search(str(fault)) is not None


def problem_of(part: Path, database: duckdb.DuckDBPyConnection | None = None) -> str | None:
    """What is wrong with a part; None if it can be read. With a database, all of it is read and checksums compared."""
    thorough = database is not None
    try:
        if thorough and (problem := checksum_problem(part)) is not None:
            return problem
        with pq.ParquetFile(part, page_checksum_verification=thorough) as file:
            expected = SCHEMAS[table_of(part)]
            for field in file.schema_arrow:
                at = expected.get_field_index(field.name)
                if at >= 0 and expected.field(at).type != field.type:
                    return f"column {field.name} is {field.type}, not {expected.field(at).type}"
            if database is not None:
                for _ in file.iter_batches():
                    pass
                # Each library looks at other things; what either cannot read is damaged.
                database.cursor().execute("SELECT sum(hash(t)) FROM read_parquet([?]) t", [str(part)]).fetchall()
    except FileNotFoundError:
        return None  # compacted or pruned: there is nothing wrong with it
    except PermissionError as fault:
        return read_problem(part, fault)
    except (OSError, pa.ArrowException, duckdb.Error, KeyError, ValueError) as fault:
        return str(fault).partition("\n")[0] or type(fault).__name__
    return None
