"""Scores that were given by the id of a trajectory alone, long after it ended, come to the step of that trajectory.

Whoever gives such a score may know neither step nor experiment, and the drainer that gets it may never have seen the
trajectory. The row waits in a place without a step until somebody looks the trajectory up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rolltrace._arrow import pa
from rolltrace.tables.columns import PARTITION_COLUMNS
from rolltrace.tables.data_file import delete_files, write_file
from rolltrace.tables.relation import open_scan, read_files, read_inside, sql_literal, stream_rows
from rolltrace.tables.schema import Place, arrow_schema
from rolltrace.tables.store import LEADING_TABLE, TableStore
from rolltrace.tables.table import ConflictError, DataFile

if TYPE_CHECKING:
    import duckdb


def waiting_scores(store: TableStore) -> list[DataFile]:
    """The files that may have scores whose step is not known."""
    return [file for file in store.files("scores") if file.place.step is None]


def place_late_scores(store: TableStore) -> set[Place]:
    """Move scores without a step to the steps of their trajectories; the places that have more scores now.

    One commit to `scores`, then a row without an id in `trajectories` of each of these places, which marks the step as
    moving: readers and the next compaction apply the scores. If somebody else has changed the same files meanwhile,
    nothing happens; look again later.
    """
    store.table("trajectories").refresh()
    store.table("scores").refresh()
    files = waiting_scores(store)
    if not files:
        return set()
    written: list[DataFile] = []
    with open_scan() as connection:
        sources = _find_places(store, connection, files)
        if not sources:
            return set()
        targets = [
            Place(*row) for row in connection.sql("SELECT DISTINCT project, experiment, step FROM _place").fetchall()
        ]
        chosen = [file for file in files if file.place in sources]
        scores = read_inside(connection, store.address, "scores", chosen)
        rest = f"SELECT s.* FROM {scores} s LEFT JOIN _place p USING (trajectory_id) WHERE p.step IS NULL"
        moved = (
            "SELECT s.* REPLACE (p.project AS project, p.experiment AS experiment, p.step AS step) "
            f"FROM {scores} s JOIN _place p USING (trajectory_id)"
        )
        for place in sources:
            written += _write(store, connection, place, rest, "s")
        for place in targets:
            written += _write(store, connection, place, moved, "p")
    try:
        store.table("scores").commit(written, chosen)
    except ConflictError:
        delete_files(store.address, "scores", written)
        return set()
    mark_places(store, targets)
    return set(targets)


def mark_places(store: TableStore, places: list[Place]) -> None:
    """Mark steps as moving: their scores have changed."""
    schema = arrow_schema("trajectories")
    files = []
    for place in places:
        row = dict.fromkeys(schema.names) | dict(zip(PARTITION_COLUMNS, place))
        files.append(write_file(store.address, "trajectories", place, pa.Table.from_pylist([row], schema=schema)))
    store.table("trajectories").commit(files)


def _find_places(store: TableStore, connection: duckdb.DuckDBPyConnection, files: list[DataFile]) -> set[Place]:
    """Make the table `_place`: the step of each trajectory that a waiting score names; the places they wait in."""
    scores = read_inside(connection, store.address, "scores", files)
    known = [file for file in store.files("trajectories") if file.place.step is not None]
    trajectories = read_inside(connection, store.address, "trajectories", known)
    connection.execute(
        f"CREATE TEMP TABLE _waiting AS SELECT DISTINCT trajectory_id, project, experiment FROM {scores} "
        "WHERE trajectory_id IS NOT NULL"
    )
    connection.execute(
        "CREATE TEMP TABLE _place AS SELECT trajectory_id, arg_min(project, start_ns) AS project, "
        "arg_min(experiment, start_ns) AS experiment, arg_min(step, start_ns) AS step "
        f"FROM {trajectories} WHERE trajectory_id IN (SELECT trajectory_id FROM _waiting) AND start_ns IS NOT NULL "
        "GROUP BY trajectory_id"
    )
    sources = "SELECT DISTINCT w.project, w.experiment FROM _waiting w JOIN _place USING (trajectory_id)"
    return {Place(project, experiment, None) for project, experiment in connection.sql(sources).fetchall()}


def _write(
    store: TableStore, connection: duckdb.DuckDBPyConnection, place: Place, select: str, alias: str
) -> list[DataFile]:
    """The rows of a SELECT that are of one place, as a batch file; none if there are none."""
    condition = " AND ".join(
        f"{alias}.{name} IS NOT DISTINCT FROM {sql_literal(value)}" for name, value in zip(PARTITION_COLUMNS, place)
    )
    joined = f"{select} {'AND' if ' WHERE ' in select else 'WHERE'} {condition}"
    (count,) = connection.sql(f"SELECT count(*) FROM ({joined})").fetchall()[0]
    if not count:
        return []
    rows = stream_rows(connection, f"{joined} ORDER BY s.trajectory_id, s.time_ns", "scores")
    return [write_file(store.address, "scores", place, rows)]


def find_places(store: TableStore, trajectory_ids: Sequence[str]) -> dict[str, Place]:
    """Where these trajectories are, as far as the table has them."""
    files = store.files(LEADING_TABLE)
    if not files or not trajectory_ids:
        return {}
    with open_scan() as connection:
        rows = read_files(connection, store.address, LEADING_TABLE, files)
        found = connection.execute(
            f"SELECT DISTINCT trajectory_id, project, experiment, step FROM {rows} "
            "WHERE trajectory_id IN (SELECT unnest(?::VARCHAR[])) ORDER BY ALL",
            [list(trajectory_ids)],
        ).fetchall()
    return {trajectory_id: Place(*place) for trajectory_id, *place in found}
