"""A store of Delta tables, and a batch at a time to put into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from rolltrace._address import StoreAddress
from rolltrace.tables.columns import Place, arrow_schema
from rolltrace.tables.data_file import write_file
from rolltrace.tables.relation import read_rows
from rolltrace.tables.store import TableStore

Row = dict[str, Any]


class Tables:
    """What the tests do with a store, in one line each."""

    place = Place("maths", "grpo 7b/x", 3)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = TableStore(StoreAddress.parse(folder))
        self.store.prepare()
        self._offset = 0

    def rows(self, table: str, rows: list[Row], place: Place | None = None) -> pa.Table:
        schema = arrow_schema(table)
        project, experiment, step = place or self.place
        shared = {
            "project": project, "experiment": experiment, "step": step, "sample_index": "0", "rollout_n": 0,
            "validate": False, "run": "run-1", "run_ns": 1, "worker": "host-1",
        }  # fmt: skip
        whole = [{**shared, **row} for row in rows]
        return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in whole], schema=schema)

    def add(
        self, *, journal: str = "journal-1", offset: int | None = None, place: Place | None = None, **tables: list[Row]
    ) -> None:
        """Commit a batch; the positions of a journal count up by themselves."""
        if offset is None:
            self._offset += 1
            offset = self._offset
        place = place or self.place
        files = {
            table: [write_file(self.store.address, table, place, self.rows(table, rows, place))]
            for table, rows in tables.items()
        }
        self.store.commit_batch(files, {journal: offset})

    def read(self, table: str = "trajectories", columns: str = "*", store: TableStore | None = None) -> list[Any]:
        """The rows of a table as a reader sees them now."""
        store = store or self.store
        store.refresh()
        with duckdb.connect() as connection:
            rows = read_rows(connection, store.address, table, store.files(table), store.files("scores"))
            return connection.sql(f"SELECT {columns} FROM {rows} ORDER BY ALL").fetchall()


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path / "store")
