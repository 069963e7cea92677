"""Scores that were given by the id of a trajectory alone, long after it ended, come to the step of that trajectory.

Whoever gives such a score may know neither step nor experiment, and the drainer that gets it may never have seen the
trajectory. The row waits in a place without a step until somebody looks the trajectory up.
"""

from __future__ import annotations

from collections.abc import Sequence

from rolltrace._arrow import pa
from rolltrace.tables.columns import PARTITION_COLUMNS, Place, arrow_schema
from rolltrace.tables.data_file import delete_files, write_file
from rolltrace.tables.relation import open_scan, read_files, read_inside, sql_literal, stream_rows
from rolltrace.tables.store import LEADING_TABLE, TableStore
from rolltrace.tables.table import ConflictError, DataFile


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
    with open_scan() as connection:
        known = [file for file in store.files("trajectories") if file.place.step is not None]
        trajectories = read_inside(connection, store.address, "trajectories", known)
        waiting = read_inside(connection, store.address, "scores", files)
        connection.execute(
            "CREATE TEMP TABLE _home AS SELECT trajectory_id, arg_min({'project': project, 'experiment': experiment, "
            f"'step': step}}, start_ns) AS home FROM {trajectories} WHERE trajectory_id IN "
            f"(SELECT trajectory_id FROM {waiting}) AND start_ns IS NOT NULL GROUP BY trajectory_id"
        )
        sources = connection.sql(f"SELECT DISTINCT project, experiment FROM {waiting} JOIN _home USING (trajectory_id)")
        places = {Place(project, experiment, None) for project, experiment in sources.fetchall()}
        chosen = [file for file in files if file.place in places]
        if not chosen:
            return set()
        home = ", ".join(f"coalesce(home.{name}, {name}) AS {name}" for name in PARTITION_COLUMNS)
        connection.execute(
            f"CREATE TEMP TABLE _scores AS SELECT * EXCLUDE (home) REPLACE ({home}) "
            f"FROM {read_inside(connection, store.address, 'scores', chosen)} LEFT JOIN _home USING (trajectory_id)"
        )
        written = []
        names = ", ".join(PARTITION_COLUMNS)
        for row in connection.sql(f"SELECT DISTINCT {names} FROM _scores").fetchall():
            is_here = " AND ".join(f"{n} IS NOT DISTINCT FROM {sql_literal(v)}" for n, v in zip(PARTITION_COLUMNS, row))
            select = f"SELECT * FROM _scores WHERE {is_here} ORDER BY trajectory_id, time_ns"
            written.append(write_file(store.address, "scores", Place(*row), stream_rows(connection, select, "scores")))
    try:
        store.table("scores").commit(written, chosen)
    except ConflictError:
        delete_files(store.address, "scores", written)
        return set()
    targets = {file.place for file in written if file.place.step is not None}
    store.table("trajectories").commit([_write_mark(store, place) for place in targets])
    return targets


def _write_mark(store: TableStore, place: Place) -> DataFile:
    """A file that marks a step as moving: its scores have changed."""
    schema = arrow_schema("trajectories")
    row = dict.fromkeys(schema.names) | dict(zip(PARTITION_COLUMNS, place))
    return write_file(store.address, "trajectories", place, pa.Table.from_pylist([row], schema=schema))


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
