"""Change rows of a table for good: the files that have them are written again without, in one Delta commit.

A commit removes the files it has read. If somebody else has changed one of them meanwhile, the commit conflicts,
nothing of it has happened, and it is made again from the files there are then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from rolltrace._guard import logger
from rolltrace.errors import StoreError
from rolltrace.tables.columns import SCHEMA_OF, Place
from rolltrace.tables.data_file import delete_files, folder_name, write_file
from rolltrace.tables.relation import read_inside, stream_rows
from rolltrace.tables.store import TableStore
from rolltrace.tables.table import ConflictError, DataFile, FileKind

if TYPE_CHECKING:
    import duckdb

    from rolltrace._arrow import pa

_MAX_TRIES = 20
_LEVEL = 9
_ROW_BYTES = 32
"""About what a row takes besides its payload, before compression: for estimates."""


IS_CHOSEN = "trajectory_id IN (SELECT trajectory_id FROM _chosen)"
"""SQL: which rows are of trajectories that `choose_trajectories` was given."""
Chosen = Mapping[Place, Collection[str]]
"""The ids of trajectories, by the place that they are in."""


def choose_trajectories(connection: duckdb.DuckDBPyConnection, chosen: Chosen) -> None:
    """Make the table `_chosen` for changes that name these trajectories."""
    ids = sorted(set().union(*chosen.values()))
    connection.execute("CREATE TEMP TABLE _chosen AS SELECT unnest(?::VARCHAR[]) AS trajectory_id", [ids])


class RowChange(NamedTuple):
    """What happens to rows of one table."""

    goes: str = "false"
    """SQL: which rows go."""
    changes: str = "false"
    """SQL: which of the others lose what is in `blanks`."""
    blanks: tuple[str, ...] = ()
    """The columns that become null there."""

    @property
    def hits(self) -> str:
        """SQL: which rows change at all."""
        valued = " OR ".join(f'"{name}" IS NOT NULL' for name in self.blanks) or "false"
        return f"(coalesce({self.goes}, false) OR (coalesce({self.changes}, false) AND ({valued})))"

    def apply(self, rows: str) -> str:
        """The rows after the change."""
        blanks = ", ".join(f'CASE WHEN {self.changes} THEN NULL ELSE "{name}" END AS "{name}"' for name in self.blanks)
        replaced = f" REPLACE ({blanks})" if blanks else ""
        return f"SELECT *{replaced} FROM {rows} WHERE NOT coalesce({self.goes}, false)"


def rewrite_rows(
    store: TableStore,
    connection: duckdb.DuckDBPyConnection,
    table: str,
    places: Collection[Place],
    change: RowChange,
    *,
    kind: FileKind | None = None,
    adds: Callable[[], Mapping[Place, pa.Table]] = dict,
    once: str | None = None,
) -> tuple[int, int]:
    """Change the rows of a table in some places: how many lost something or are gone, and how many bytes smaller the
    table is once the old files are deleted.

    Args:
        store, connection, table, places, change: Where, and what; its SQL may name temporary tables of the connection.
        kind: What the new files are called; as those that they stand for, if not given.
        adds: Gives rows to add in the same commit, as the table is then.
        once: Two commits of this name that are made at the same time conflict, though they remove no file.
    """
    delta = store.table(table)
    for _ in range(_MAX_TRIES):
        delta.refresh()
        written: list[DataFile] = []
        removed: list[DataFile] = []
        rows = 0
        try:
            for file in [file for file in delta.files() if file.place in places]:
                estimate = estimate_change(store, connection, table, file, change)
                if not estimate.hits and estimate.stays:
                    continue
                rows += estimate.hits
                removed.append(file)
                if estimate.stays:
                    own_kind: FileKind = "settled" if file.is_settled else "batch"
                    sql = change.apply(read_inside(connection, store.address, table, [file]))
                    stream, level = stream_rows(connection, sql, table), _LEVEL if file.is_settled else 1
                    written.append(
                        write_file(store.address, table, file.place, stream, kind=kind or own_kind, level=level)
                    )
            less = sum(file.size_bytes for file in removed) - sum(file.size_bytes for file in written)
            extras = adds()
            if extras and delta.version < 0:
                delta.create()
            written += [write_file(store.address, table, place, extra) for place, extra in extras.items()]
            if written or removed:
                positions = {} if once is None else {once: delta.position(once) + 1}
                delta.commit(written, removed, positions)
            return rows, less
        except ConflictError:
            delete_files(store.address, table, written)
    raise StoreError(f"others change the store {store.address.url!r} all the time; try again later")


def give_back(store: TableStore, table: str, places: Collection[Place]) -> None:
    """Delete the files of some places that were removed from a table, now or before, though somebody may be reading
    them: who asks for space, or to forget something, does not want to wait for `vacuum`."""
    if store.table(table).version >= 0:
        folders = {folder_name(place): place for place in places}
        paths = [(path, folders.get(path.rpartition("/")[0])) for path in store.table(table).removed_paths()]
        delete_files(store.address, table, [DataFile(path, 0, 0, place) for path, place in paths if place is not None])


class Estimate(NamedTuple):
    """What a change of one file would come to."""

    hits: int
    """Rows that lose something, or go."""
    stays: int
    """Rows that do not go."""
    bytes: int
    """About how many bytes would go."""


def estimate_change(
    store: TableStore, connection: duckdb.DuckDBPyConnection, table: str, file: DataFile, change: RowChange
) -> Estimate:
    """What a change of one file would come to. A damaged file stays as it is: `rolltrace doctor` names it."""
    import duckdb

    if change.goes == "true":
        return Estimate(file.rows, 0, file.size_bytes)
    size = _payload_bytes(table)
    try:
        rows = read_inside(connection, store.address, table, [file])
        counts = f"count(*) FILTER ({change.hits}), count(*) FILTER (NOT coalesce({change.goes}, false))"
        hits, stays = connection.sql(f"SELECT {counts} FROM {rows}").fetchall()[0]
        if not hits:
            return Estimate(0, stays, 0)
        share = f"sum({size}) FILTER ({change.hits}) / sum({size})"
        ((part,),) = connection.sql(f"SELECT {share} FROM {rows}").fetchall()
    except (duckdb.Error, StoreError) as error:
        logger.warning("%s/%s is left as it is: %s", table, file.path, error)
        return Estimate(0, file.rows, 0)
    return Estimate(hits, stays, round(file.size_bytes * part))


def _payload_bytes(table: str) -> str:
    """SQL: about how many bytes a row takes, before compression."""
    terms = [f"{_ROW_BYTES}"]
    for column in SCHEMA_OF[table].columns:
        if column.type in ("long text", "json"):
            terms.append(f'coalesce(strlen("{column.name}"), 0)')
        elif column.type == "bytes":
            terms.append(f'coalesce(octet_length("{column.name}"), 0)')
        elif column.type in ("int32[]", "float32[]", "int8[]"):
            terms.append(f'{1 if column.type == "int8[]" else 4} * coalesce(len("{column.name}"), 0)')
    return f"({' + '.join(terms)})"
