"""Find the place of trajectories by their ids."""

from __future__ import annotations

from collections.abc import Sequence

from rolltrace.tables.relation import read_files
from rolltrace.tables.schema import Place
from rolltrace.tables.store import LEADING_TABLE, TableStore


def find_places(store: TableStore, trajectory_ids: Sequence[str]) -> dict[str, Place]:
    """Where these trajectories are, as far as the table has them."""
    files = store.files(LEADING_TABLE)
    if not files or not trajectory_ids:
        return {}
    import duckdb

    with duckdb.connect() as connection:
        rows = read_files(connection, store.address, LEADING_TABLE, files)
        found = connection.execute(
            f"SELECT DISTINCT trajectory_id, project, experiment, step FROM {rows} "
            "WHERE trajectory_id IN (SELECT unnest(?::VARCHAR[])) ORDER BY ALL",
            [list(trajectory_ids)],
        ).fetchall()
    return {trajectory_id: Place(*place) for trajectory_id, *place in found}
