"""The tables that imported rows go to: what they have already, and one batch of rows at a time.

A batch is committed as a drainer's is: under the name of its file and its number, to `trajectories` last. The hash of
its rows is kept with it, so the same rows are not written twice. If a file says something else than when it was last
imported, because it or a file beside it has changed, its batch replaces what it had brought.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xxhash

from rolltrace.drain import Row, TableRows, catch_up
from rolltrace.errors import OutageError, StoreError
from rolltrace.exchange.draft import ImportedPlace, ImportedRow
from rolltrace.files import is_store
from rolltrace.tables import (
    TABLE_SCHEMAS,
    ConflictError,
    Place,
    RowChange,
    TableStore,
    address_in,
    open_scan,
    read_files,
    rewrite_rows,
    sql_literal,
)

_WAIT_SEC = 60.0
_WORKER = ImportedPlace._field_defaults["worker"]


class ImportTables:
    """The tables of one store, as an import sees them."""

    def __init__(self, folder: Path) -> None:
        self._store = TableStore(address_in(folder))
        self.ids: set[str] = set()
        """The trajectories that are there."""
        self._imported: set[str] = set()
        """Those of them that were not recorded here."""
        if folder.is_dir() and is_store(folder):
            catch_up(folder, wait_sec=_WAIT_SEC)
            self._store.check_format()
            self._read_ids()
        self._stored = frozenset(self.ids)
        """Those that were there before this import."""

    def _read_ids(self) -> None:
        import duckdb

        with duckdb.connect() as connection:
            for name in ("trajectories", "group_records"):
                rows = read_files(connection, self._store.address, name, self._store.files(name))
                select = f"SELECT DISTINCT trajectory_id, worker FROM {rows} WHERE trajectory_id IS NOT NULL"
                for trajectory_id, worker in connection.execute(select).fetchall():
                    self.ids.add(trajectory_id)
                    if worker == _WORKER:
                        self._imported.add(trajectory_id)

    def list_foreign(self, source: str) -> set[str]:
        """The trajectories that are there and not from this file, so that it must leave them as they are."""
        was_imported = self._store.position(f"{source}-0") >= 0
        return self.ids - self._imported if was_imported else set(self.ids)

    def add_ids(self, ids: set[str], foreign: set[str]) -> None:
        """These trajectories are there now, all but the foreign ones from a file."""
        self.ids |= ids
        self._imported |= ids - foreign

    def commit(self, source: str, number: int, rows: list[ImportedRow]) -> None:
        """Commit a batch of a file."""
        if not rows:
            return
        name = f"{source}-{number}"
        content = f"{name}-{_hash_rows(rows)}"
        try:
            self._store.prepare()  # not before there is something to keep: a failed import leaves no empty store
            last = max(self._store.table(schema.name).position(name) for schema in TABLE_SCHEMAS)
            if last >= 0:
                # What was deleted since (`rolltrace store rm`) is brought again.
                if self._store.position(content) == last and _find_ids(rows) <= self._stored:
                    return
                self._remove_imported(rows)
            shaped = TableRows()
            shaped.add_rows(Row.of(*each) for each in rows)
            files = shaped.write_files(self._store.address)
            self._store.commit_batch(files, {name: last + 1, content: last + 1})
        except ConflictError:  # another process imports the same file, and was faster
            return
        except OutageError:
            raise
        except OSError as error:
            raise StoreError(f"cannot write to the store: {error.strerror or error}") from error

    def _remove_imported(self, rows: list[ImportedRow]) -> None:
        """Remove what an import has brought of these trajectories. What was said of them here since stays."""
        places = {Place(*(each.fields[name] for name in Place._fields)) for each in rows}
        ids = ", ".join(sorted(map(sql_literal, _find_ids(rows))))
        with open_scan() as connection:
            for schema in TABLE_SCHEMAS:
                if "trajectory_id" in (column.name for column in schema.columns):
                    whose = "" if schema.name == "trajectories" else f" AND worker = {sql_literal(_WORKER)}"
                    change = RowChange(f"trajectory_id IN ({ids}){whose}")
                    rewrite_rows(self._store, connection, schema.name, places, change)


def _find_ids(rows: list[ImportedRow]) -> set[str]:
    return {each.fields["trajectory_id"] for each in rows if each.fields.get("trajectory_id") is not None}


def _hash_rows(rows: list[ImportedRow]) -> str:
    digest = xxhash.xxh3_128()
    for table, fields in rows:
        digest.update(table.name.encode())
        for value in fields.values():
            digest.update(_to_bytes(value) + b"\0")
    return digest.hexdigest()


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace")
    return repr(value.to_pylist() if hasattr(value, "to_pylist") else value).encode()  # an Arrow array shows its ends
