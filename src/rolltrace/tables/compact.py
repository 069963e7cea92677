"""Compaction: the files of a step become one per table, with one row per key.

Each table is one Delta commit that removes the files it read and adds the file that stands for them. Whoever else has
compacted the same files first wins; the loser's commit conflicts, and it looks again later. What a drainer adds
meanwhile stays: a commit removes only what it has read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import Any, NamedTuple

from rolltrace.tables.columns import TABLE_SCHEMAS
from rolltrace.tables.data_file import write_file
from rolltrace.tables.reduce import match_scores, reduce_rows
from rolltrace.tables.relation import find_moving, read_files
from rolltrace.tables.schema import SCHEMA_OF, Place, arrow_schema
from rolltrace.tables.store import TableStore
from rolltrace.tables.table import ConflictError, DataFile, Table

_LEVEL = 9
_MEMORY_LIMIT = "256MB"
_BATCH_ROWS = 1024


class Compacted(NamedTuple):
    """What one compaction did."""

    removed: int
    """How many files it replaced."""
    conflicts: int
    """How many tables somebody else changed first; they are compacted the next time."""


def compact_place(store: TableStore, place: Place) -> Compacted:
    """Compact all tables of one step."""
    removed = conflicts = 0
    # The newest scores are read after the newest trajectories: a drainer commits them in the opposite order, so a score
    # that is missing here belongs to a row that this compaction does not remove.
    for schema in reversed(TABLE_SCHEMAS):
        store.table(schema.name).refresh()
    for schema in TABLE_SCHEMAS:
        table = store.table(schema.name)
        files = [file for file in table.files() if file.place == place]
        if place not in find_moving(files):
            continue
        try:
            _compact_files(store, table, place, files)
            removed += len(files)
        except ConflictError:
            conflicts += 1
    return Compacted(removed, conflicts)


def moving_places(store: TableStore, tables: Iterable[str] = ()) -> dict[Place, int]:
    """The places that compaction has something to do for, with how many files they have."""
    places: dict[Place, int] = {}
    for name in tables or SCHEMA_OF:
        files = store.table(name).files()
        moving = find_moving(files)
        for file in files:
            if file.place in moving:
                places[file.place] = places.get(file.place, 0) + 1
    return places


def _compact_files(store: TableStore, table: Table, place: Place, files: list[DataFile]) -> None:
    import duckdb

    schema = SCHEMA_OF[table.name]
    with duckdb.connect() as connection, tempfile.TemporaryDirectory() as spill:
        connection.execute(f"SET memory_limit = '{_MEMORY_LIMIT}'; SET temp_directory = '{spill}'; SET threads = 1")
        rows = read_files(connection, store.address, table.name, files)
        if table.name == "trajectories":
            select = reduce_rows(
                schema, rows, read_files(connection, store.address, "scores", store.files("scores", place))
            )
        elif table.name == "scores":
            trajectories = read_files(connection, store.address, "trajectories", store.files("trajectories", place))
            select = _with_ids(rows, reduce_rows(SCHEMA_OF["trajectories"], trajectories, rows))
        else:
            select = reduce_rows(schema, rows)
        order = ", ".join(f'"{name}"' for name in schema.sorted_by)
        reader: Any = connection.sql(f"SELECT * FROM ({select}) ORDER BY {order}").to_arrow_reader(_BATCH_ROWS)
        settled = write_file(store.address, table.name, place, _cast(reader, table.name), kind="settled", level=_LEVEL)
    table.commit([settled], files)


def _with_ids(scores: str, trajectories: str) -> str:
    """The scores of a step; those by coordinates with the id of their trajectory, as far as there is one."""
    numbered = f"(SELECT *, row_number() OVER () AS _number FROM {scores})"
    return f"""
WITH _scores AS MATERIALIZED (SELECT * FROM {numbered}),
_matched AS (
    SELECT _number, trajectory_id FROM ({match_scores("_scores", f"({trajectories})")}) WHERE trajectory_id IS NOT NULL
)
SELECT _scores.* EXCLUDE (_number) REPLACE (coalesce(_scores.trajectory_id, _matched.trajectory_id) AS trajectory_id)
FROM _scores LEFT JOIN _matched USING (_number)
"""


def _cast(reader: Any, table: str) -> Any:
    import pyarrow as pa

    schema = arrow_schema(table)
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in reader))
