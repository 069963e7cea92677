"""Compaction: the files of a step become one per table, with one row per key.

Each table is one Delta commit that removes the files it read and adds the file that stands for them. Whoever else has
compacted the same files first wins; the loser's commit conflicts, and it looks again later. What a drainer adds
meanwhile stays: a commit removes only what it has read. Small files of a step that is still moving are merged on the
way (`merge_batches`), without those that were merged before.

Rows of trajectories that were begun and then not kept are left out of every table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace._arrow import pa
from rolltrace._guard import logger
from rolltrace.errors import StoreError
from rolltrace.tables.columns import SCHEMA_OF, TABLE_SCHEMAS, Place, TableSchema, arrow_schema
from rolltrace.tables.data_file import delete_files, write_file
from rolltrace.tables.reduce import fill_ids, merge_rows, reduce_rows
from rolltrace.tables.relation import find_moving, open_scan, read_inside, sql_literal, stream_rows
from rolltrace.tables.store import TableStore
from rolltrace.tables.table import ConflictError, DataFile, FileKind

if TYPE_CHECKING:
    import duckdb

_LEVEL = 9
MAX_BATCH_FILES = 16
"""How many small files a table has in one place before they are merged, though the step is still moving."""
_MAX_PIECES = 1024
_WHOLE_STEPS = ("trajectories", "scores")
"""Tables whose rows depend on all others of the step, and have no payloads."""
_WHOLE_STEP_MEMORY = "2GB"
_MAX_SMALL_BYTES = 8 << 20
"""A batch file that is larger is not merged again before its step settles."""


class Compacted(NamedTuple):
    """What one compaction did."""

    removed: int
    """How many files it replaced."""
    conflicts: int
    """How many tables somebody else changed first; they are compacted the next time."""
    damaged: int = 0
    """How many tables have a file that cannot be read; they stay as they are."""


def compact_place(store: TableStore, place: Place) -> Compacted:
    """Compact all tables of one step."""
    import duckdb

    # The newest scores are read after the newest trajectories: a drainer commits them in the opposite order, so a score
    # that is missing here belongs to a row that this compaction does not remove.
    for schema in reversed(TABLE_SCHEMAS):
        store.table(schema.name).refresh()

    def choose_files(schema: TableSchema) -> list[DataFile]:
        files = store.files(schema.name, place)
        is_moving = place in find_moving(files)
        if schema.name == "trajectories":  # its rows hold what the scores of the step say
            is_moving |= place in find_moving(store.files("scores", place))
        return files if is_moving else []

    with open_scan() as connection:
        try:
            _find_dropped(store, connection, place)
        except (duckdb.Error, StoreError) as error:
            _log_damage("trajectories", place, error)
            return Compacted(0, 0, 1)
        return _replace_each(store, connection, place, choose_files, partial(_settle, store, connection, place))


def merge_batches(store: TableStore, place: Place) -> Compacted:
    """Merge the small batch files of a step that is still moving, table by table: rows stay partial."""

    def choose_files(schema: TableSchema) -> list[DataFile]:
        files = store.files(schema.name, place)
        small = [file for file in files if not file.is_settled and file.size_bytes < _MAX_SMALL_BYTES]
        return small if len(small) >= MAX_BATCH_FILES else []

    with open_scan() as connection:
        return _replace_each(store, connection, place, choose_files, merge_rows, kind="batch", level=1)


def moving_files(store: TableStore) -> dict[Place, list[DataFile]]:
    """The places that compaction has something to do for, with their files in the tables in which they move."""
    places: dict[Place, list[DataFile]] = {}
    for name in SCHEMA_OF:
        files = store.table(name).files()
        moving = find_moving(files)
        for file in files:
            if file.place in moving:
                places.setdefault(file.place, []).append(file)
    return places


def moving_places(store: TableStore) -> dict[Place, int]:
    """The places that compaction has something to do for, with how many files they have."""
    return {place: len(files) for place, files in moving_files(store).items()}


def _find_dropped(store: TableStore, connection: duckdb.DuckDBPyConnection, place: Place) -> None:
    """Make the table `_dropped`: the trajectories of a step that were not kept."""
    losses = read_inside(connection, store.address, "losses", store.files("losses", place))
    rows = read_inside(connection, store.address, "trajectories", store.files("trajectories", place))
    connection.execute(
        f"CREATE TEMP TABLE _dropped AS SELECT trajectory_id FROM {losses} WHERE trajectory_id IS NOT NULL "
        f"UNION SELECT trajectory_id FROM {rows} WHERE dropped"
    )


def _settle(
    store: TableStore, connection: duckdb.DuckDBPyConnection, place: Place, schema: TableSchema, rows: str
) -> str:
    """The rows of a step as they are written down for good."""
    if schema.name != "losses" and any(column.name == "trajectory_id" for column in schema.columns):
        rows = f"(SELECT * FROM {rows} WHERE trajectory_id IS NULL OR trajectory_id NOT IN (FROM _dropped))"
    if schema.name == "trajectories":
        scores = read_inside(connection, store.address, "scores", store.files("scores", place))
        return reduce_rows(schema, rows, scores)
    if schema.name == "scores":
        trajectories = read_inside(connection, store.address, "trajectories", store.files("trajectories", place))
        return fill_ids(rows, reduce_rows(SCHEMA_OF["trajectories"], trajectories, rows))
    return reduce_rows(schema, rows)


def _replace_each(
    store: TableStore,
    connection: duckdb.DuckDBPyConnection,
    place: Place,
    choose_files: Callable[[TableSchema], list[DataFile]],
    make_select: Callable[[TableSchema, str], str],
    *,
    kind: FileKind = "settled",
    level: int = _LEVEL,
) -> Compacted:
    """Replace the chosen files of each table, as far as nobody else does and they can be read."""
    import duckdb

    removed = conflicts = damaged = 0
    # `trajectories` first: as long as its scores are moving, somebody who was killed in between is made up for.
    for schema in reversed(TABLE_SCHEMAS):
        files = choose_files(schema)
        if not files:
            continue
        try:
            rows = read_inside(connection, store.address, schema.name, files)
            file = _write(store, connection, schema, place, partial(make_select, schema), rows, kind, level)
        except (duckdb.Error, StoreError) as error:
            damaged += 1
            _log_damage(schema.name, place, error)
            continue
        try:
            store.table(schema.name).commit([file], files)
            removed += len(files)
        except ConflictError:
            delete_files(store.address, schema.name, [file])
            conflicts += 1
    return Compacted(removed, conflicts, damaged)


def _log_damage(table: str, place: Place, error: Exception) -> None:
    logger.warning(
        "%s of step %s of %s / %s is left as it is: %s", table, place.step, place.project, place.experiment, error
    )


def _write(
    store: TableStore,
    connection: duckdb.DuckDBPyConnection,
    schema: TableSchema,
    place: Place,
    make_select: Callable[[str], str],
    rows: str,
    kind: FileKind,
    level: int,
) -> DataFile:
    """Write what a SELECT, which is made from these rows, gives; in pieces if it does not fit into memory."""
    import duckdb

    pieces = 1
    while True:
        try:
            stream = _stream(connection, schema, rows, make_select, pieces)
            return write_file(store.address, schema.name, place, stream, kind=kind, level=level)
        except duckdb.OutOfMemoryException:
            if pieces >= (4 if schema.name in _WHOLE_STEPS else _MAX_PIECES):
                raise
            if schema.name in _WHOLE_STEPS:
                connection.execute(f"SET memory_limit = '{_WHOLE_STEP_MEMORY}'")
            pieces *= 4


def _stream(
    connection: duckdb.DuckDBPyConnection,
    schema: TableSchema,
    rows: str,
    make_select: Callable[[str], str],
    pieces: int,
) -> Any:
    """The rows in the order of the table, so many trajectories at a time that they fit into memory."""
    order = ", ".join(f'"{name}"' for name in schema.sorted_by)
    if pieces == 1 or schema.name in _WHOLE_STEPS:
        return stream_rows(connection, f"SELECT * FROM ({make_select(rows)}) ORDER BY {order}", schema.name)
    first = f'"{schema.sorted_by[0]}"'
    parts = ", ".join(str(number / pieces) for number in range(1, pieces))
    (bounds,) = connection.sql(f"SELECT quantile_disc({first}, [{parts}]) FROM {rows}").fetchall()[0]
    edges = [None, *dict.fromkeys(bounds or ()), None]
    selects = []
    for low, high in itertools.pairwise(edges):
        conditions = [f"{first} > {sql_literal(low)}"] if low is not None else []
        conditions += [f"{first} <= {sql_literal(high)}"] if high is not None else []
        condition = " AND ".join(conditions) or "true"
        some = f"(SELECT * FROM {rows} WHERE {condition}{f' OR {first} IS NULL' if low is None else ''})"
        selects.append(f"SELECT * FROM ({make_select(some)}) ORDER BY {order}")
    batches = (batch for select in selects for batch in stream_rows(connection, select, schema.name))
    return pa.RecordBatchReader.from_batches(arrow_schema(schema.name), batches)
