"""The database of a store: connections in which the views of a snapshot can be asked, and the listings they share.

Invariants:
- The database can read the parts and summaries of this store and nothing else, writes nowhere, and its settings are
  locked.
- A table that a listing is in is dropped when no cursor reads it any more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path

from rolltrace._arrow import pa
from rolltrace.query.coverage import CoversFolder, dropped_ids, has_live_strays, live_rows, parts_for
from rolltrace.query.database import IS_OLDER, arrow_answer, duckdb, register
from rolltrace.query.listing import PLACE, Division, Listed, Listings, Range, rows_of
from rolltrace.query.snapshot import ScopeKey, Snapshot, scope_of
from rolltrace.query.step_rows import given_rows
from rolltrace.query.summary import Folder, is_among, listing_file, summary_folder
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
from rolltrace.store import Partition, data_folder, step_folder, table_of

_FOR_OLDER_VERSIONS = ["disabled_optimizers = 'join_filter_pushdown'"] if IS_OLDER else []
"""DuckDB 1.5 passes Bloom filters on to Arrow tables, which do not take them: `Pushdown Filter Type BLOOM_FILTER`."""
_LISTED_NAMES = frozenset(table.name for table in LISTED)
_of_parents: list[object] = []


class Cursors:
    """Makes cursors over snapshots. Safe to use from any thread; one is made at a time."""

    def __init__(
        self, store: Path, most_bytes: int | None, threads: int | None, fetch: Callable[[Iterable[Path]], None]
    ) -> None:
        """`fetch`: sees to it that parts and listings are here, where the store shows a lake."""
        self._store = store
        self._fetch = fetch
        self._most_bytes = most_bytes
        self._threads = threads
        self._lock = threading.RLock()
        self._listings = Listings(store)
        self._late: tuple[list[Path], pa.Table | None] = ([], None)
        """Late scores, and the parts that they are from."""
        self._numbers = count()
        """Of the tables that listings are in."""
        self._outdated: set[str] = set()
        """Tables that no new cursor reads."""
        self._database: duckdb.DuckDBPyConnection | None = None
        self.generation = 0
        """Of the database: cursors of an earlier one are closed."""

    def leave_to_parent(self) -> None:
        """In a child that was forked: begin with a database of one's own. That of the parent has threads which are not
        here, so it could neither answer nor be closed; it stays as it is."""
        _of_parents.append(self._database)
        self._lock = threading.RLock()
        self._begin_anew()

    def close(self) -> None:
        """Give back memory and files. The next cursor opens them again."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._listings.forget()
        self._outdated.clear()
        self._database = None
        self.generation += 1

    @property
    def is_regular(self) -> bool:
        """Every row was found in the folder that its project, experiment and step say."""
        return self._listings.is_regular

    @property
    def late_parts(self) -> list[Path]:
        """The parts that the late scores are from."""
        return self._late[0]

    def connected(self) -> duckdb.DuckDBPyConnection:
        """The database."""
        with self._lock:  # two at once would make two, and tables of one be looked for in the other
            if self._database is None:
                self._database = self._connect()
            return self._database

    def connection(self) -> duckdb.DuckDBPyConnection:
        """A connection of one's own, without any views."""
        return self.connected().cursor()

    def _connect(self) -> duckdb.DuckDBPyConnection:
        allowed = ", ".join(_quoted(folder) for folder in (data_folder(self._store), summary_folder(self._store)))
        connection = duckdb.connect(":memory:")
        for setting in (
            "temp_directory = ''",
            *([] if self._most_bytes is None else [f"memory_limit = '{self._most_bytes}B'"]),
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
        connection.execute(no_live_rows())
        return connection

    def open(self, snapshot: Snapshot, key: ScopeKey) -> Cursor:
        """A connection in which the views of these steps can be asked."""
        with self._lock:
            return self._open(snapshot, scope_of(key))

    def close_cursor(self, cursor: Cursor) -> None:
        with self._lock:
            cursor.connection.close()
            self.drop(cursor.tables)

    def drop_outdated(self, cursors: Iterable[Cursor]) -> None:
        """Drop the tables that none of these cursors, which are all there are, reads."""
        with self._lock:
            unused = self._outdated - {table for cursor in cursors for table in cursor.reads}
            self.drop(unused)
            self._outdated -= unused

    def _open(self, snapshot: Snapshot, scope: CoversFolder) -> Cursor:
        unsummarised = (each for path, each in snapshot.folders.items() if scope(path) and each.summary is None)
        self._fetch(part for each in unsummarised for part in each.parts if table_of(part) == LOSSES.name)
        divided, late = self._divide(snapshot, scope), self.late_scores(snapshot)
        parts, live = parts_for(snapshot.folders, scope), live_rows(snapshot.live, scope)
        connection = self.with_live_rows(live)
        late_live = SCORES.name in live and live[SCORES.name]["step"].null_count > 0
        touched = self.touched(divided.summarised, late, live[SCORES.name] if late_live else None)
        summed = given_rows(
            row
            for folder in divided.summarised
            if folder.path not in touched and folder.summary is not None
            for row in folder.summary.steps
        )
        connection.execute(f"CREATE TEMP TABLE {SUMMED} AS {summed.sql}", summed.parameters)
        if late is not None:
            register(connection, LATE, late)
        dropped = dropped_ids(snapshot.folders, scope, live)
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
            pass_rules=snapshot.pass_rules,
        )
        return Cursor(connection, views(sources), set(), divided.moving, {each.table for each in divided.computed})

    def _divide(self, snapshot: Snapshot, scope: CoversFolder) -> Division:
        """How the steps of a scope are listed."""
        folders, live_of = snapshot.folders, snapshot.live
        moving = {path for table in (*LISTED, LOSSES) for path in live_of[table.name]}
        # Rows whose trajectory is not in the same place may belong to one of another experiment.
        names = {path.name for path in moving if has_live_strays(folders, live_of, path)}
        moving |= {path for path in folders if path.name in names}
        wanted = [path for path in folders if scope(path)]
        has_namesakes = len({path.name for path in {*folders, *moving}}) < len({*folders, *moving})
        live = live_rows(live_of, lambda path: scope(path) or path.name in names)

        def make(parts: Sequence[Path], with_live: bool) -> Listed:
            return self.list_parts(parts, live if with_live else {}, look_for_strays=has_namesakes)

        in_scope = {path for path in moving if scope(path) or path.name in names}
        before = self._listings.tables()
        divided = self._listings.divide(folders, wanted, in_scope, make)
        self._outdated |= before - self._listings.tables()  # a cursor that still answers may read them
        return divided

    def touched(self, folders: list[Folder], late: pa.Table | None, live_scores: pa.Table | None) -> set[Path]:
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
        connection = self.connected().cursor()
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

    def late_scores(self, snapshot: Snapshot) -> pa.Table | None:
        """The scores that were given by id alone, of all parts; None if there are none."""
        parts = [
            part
            for path, folder in snapshot.folders.items()
            if path.name == step_folder(None)
            for part in folder.parts
            if table_of(part) == SCORES.name
        ]
        if parts != self._late[0]:
            self._fetch(parts)
            scores = arrow_answer(self.connected().cursor(), late_statement(parts)) if parts else None
            self._late = (parts, scores if scores is not None and len(scores) else None)
        return self._late[1]

    def with_live_rows(self, live: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
        """A connection that knows these rows."""
        cursor = self.connected().cursor()
        for table, rows in live.items():
            register(cursor, live_name(table), rows)
        return cursor

    def list_parts(
        self, parts: Sequence[Path], live: Mapping[str, pa.Table], *, look_for_strays: bool = True
    ) -> Listed:
        """The listing of these parts and live rows, by folder."""
        self._fetch(part for part in parts if table_of(part) in _LISTED_NAMES)
        cursor = self.with_live_rows(live)
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

    def drop(self, tables: Iterable[str]) -> None:
        """Remove tables that `list_parts` made."""
        for table in tables:
            self.connected().execute(f"DROP TABLE IF EXISTS {table}")


def _wanted_threads() -> int | None:
    """`OMP_NUM_THREADS`, which Arrow follows too: torchrun and Slurm set it where many processes share a machine."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # later items are for nested regions
    return int(wanted) if wanted.isdecimal() and int(wanted) > 0 else None


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
