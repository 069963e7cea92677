"""The chosen trajectories as a store of its own: Delta tables, whose files any tool that reads Parquet can read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from rolltrace.errors import ConfigError, StoreError
from rolltrace.exchange.selection import Exported, Selection
from rolltrace.query import Row
from rolltrace.tables import (
    TABLE_SCHEMAS,
    Place,
    StoreAddress,
    TableSchema,
    TableStore,
    address_in,
    match_scores,
    open_scan,
    read_files,
    read_rows,
    sql_literal,
    stream_rows,
    write_file,
)

if TYPE_CHECKING:
    import duckdb

_BLOB = '"hash":"([0-9a-f]{16,64})"'
_WITH_BLOBS = {"ops": "payload", "transitions": "concat(trace, fields)", "notes": "body", "trajectories": "tags"}
_LEVEL = 9


def write(selection: Selection, folder: Path) -> Exported:
    """Write the folder; it must be new or empty, and appears when all of it is there."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{str(folder)!r} already exists and is not empty; name a new folder with -o")
    folder.parent.mkdir(parents=True, exist_ok=True)
    hidden = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    try:
        copy = _Copy(TableStore(address_in(selection.store.path)), TableStore(StoreAddress(str(hidden.resolve()))))
        for place, rows in groupby(sorted(selection.rows, key=_order), key=_place):
            copy.add_place(place, [row["trajectory_id"] for row in rows])
        if folder.exists():
            folder.rmdir()
        os.rename(hidden, folder)
    except OSError as error:
        raise StoreError(f"cannot write {str(folder)!r}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return Exported(len(selection.rows))


def _place(row: Row) -> Place:
    return Place(row["project"], row["experiment"], row["step"])


def _order(row: Row) -> tuple[str, str, bool, int]:
    place = _place(row)
    return place.project, place.experiment, place.step is None, place.step or 0


class _Copy:
    """Copies places from one store to another."""

    def __init__(self, source: TableStore, target: TableStore) -> None:
        self._source, self._target = source, target
        self._experiments: set[tuple[str, str]] = set()
        target.prepare()

    def add_place(self, place: Place, trajectory_ids: list[str]) -> None:
        """Copy what belongs to these trajectories of one step, and what was lost there."""
        ids = f"trajectory_id IN ({', '.join(map(sql_literal, trajectory_ids))})"
        hashes: set[str] = set()
        with open_scan() as connection:
            for schema in TABLE_SCHEMAS:
                columns = {column.name for column in schema.columns}
                if schema.name == "losses":
                    self._copy(connection, schema, self._read(connection, schema.name, place), place)
                elif "trajectory_id" in columns:
                    rows = f"(SELECT * FROM {self._read(connection, schema.name, place)} WHERE {ids})"
                    hashes |= self._hashes(connection, schema.name, rows)
                    self._copy(connection, schema, rows, place)
            self._copy_rest(connection, place, hashes)

    def _copy_rest(self, connection: duckdb.DuckDBPyConnection, place: Place, hashes: Iterable[str]) -> None:
        """Copy the images of a step, which lie where they were first seen, and the runs of its experiment, once."""
        experiment = place[:2]
        files = [file for file in self._source.files("blobs") if file.place[:2] == experiment]
        blobs = read_files(connection, self._source.address, "blobs", files)
        chosen = ", ".join(map(sql_literal, sorted(hashes))) or "NULL"
        columns = ", ".join(f"{sql_literal(value)} AS {name}" for name, value in place._asdict().items())
        self._copy(
            connection,
            _schema("blobs"),
            f"(SELECT DISTINCT ON (hash) * REPLACE ({columns}) FROM {blobs} WHERE hash IN ({chosen}))",
            place,
        )
        if experiment not in self._experiments:
            self._experiments.add(experiment)
            for home in {file.place for file in self._source.files("runs") if file.place[:2] == experiment}:
                self._copy(connection, _schema("runs"), self._read(connection, "runs", home), home)

    def _read(self, connection: duckdb.DuckDBPyConnection, table: str, place: Place) -> str:
        """SQL of the rows of one table in one place, as readers see them."""
        address, files = self._source.address, self._source.files(table, place)
        scores = self._source.files("scores", place)
        if table != "scores":
            return read_rows(connection, address, table, files, scores)
        trajectories = read_rows(connection, address, "trajectories", self._source.files("trajectories", place), scores)
        return f"({match_scores(read_files(connection, address, 'scores', files), trajectories)})"

    def _hashes(self, connection: duckdb.DuckDBPyConnection, table: str, rows: str) -> set[str]:
        """The images that rows of a table point to."""
        if table == "messages":
            found = connection.execute(f"SELECT DISTINCT unnest(images) FROM {rows}").fetchall()
            return {name for (name,) in found}
        if table not in _WITH_BLOBS:
            return set()
        hashes = connection.execute(
            f"SELECT DISTINCT unnest(regexp_extract_all(text, '{_BLOB}', 1)) "
            f"FROM (SELECT {_WITH_BLOBS[table]} AS text FROM {rows}) WHERE contains(text, '$image')"
        )
        return {name for (name,) in hashes.fetchall()}

    def _copy(self, connection: duckdb.DuckDBPyConnection, schema: TableSchema, rows: str, place: Place) -> None:
        order = ", ".join(f'"{name}"' for name in schema.sorted_by)
        names = ", ".join(f'"{column.name}"' for column in schema.columns)
        if not connection.execute(f"SELECT 1 FROM {rows} LIMIT 1").fetchall():
            return
        stream = stream_rows(connection, f"SELECT {names} FROM {rows} ORDER BY {order}", schema.name)
        file = write_file(self._target.address, schema.name, place, stream, kind="settled", level=_LEVEL)
        table = self._target.table(schema.name)
        if table.version < 0:
            table.create()
        table.commit([file])


def _schema(name: str) -> TableSchema:
    return next(schema for schema in TABLE_SCHEMAS if schema.name == name)
