"""All tables of a store: opened when asked for, committed to in one order, repaired after a power cut.

STORE/format.json           version of the format
STORE/TABLE/_delta_log/     one Delta table per kind of row (`tables.columns`)
STORE/TABLE/data/
STORE/journal/HOST/         what the drainer has not taken yet; on another disk if the store is a bucket
STORE/live/HOST             what is running there right now
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rolltrace._guard import logger
from rolltrace.errors import FormatError, StoreError
from rolltrace.files import make_store, read_page, replace_file
from rolltrace.tables.address import StoreAddress
from rolltrace.tables.columns import STORE_FORMAT, TABLE_SCHEMAS
from rolltrace.tables.schema import Place
from rolltrace.tables.table import LOG, DataFile, Table

_FORMAT_FILE = "format.json"
LEADING_TABLE = "trajectories"
"""Committed last in every batch: how far a journal was drained is what this table says."""


class TableStore:
    """The tables at one address."""

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self._tables: dict[str, Table] = {}

    def prepare(self, share: str | None = None) -> None:
        """Make the store if there is none, and repair what a power cut left.

        Raises:
            FormatError: it has another format.
        """
        folder = self.address.folder
        if folder is not None:
            make_store(folder, share)
            self.check_format()
            for schema in TABLE_SCHEMAS:
                _remove_torn_entry(folder / schema.name / LOG)
            if not (folder / _FORMAT_FILE).exists():
                replace_file(folder / _FORMAT_FILE, json.dumps({"format": STORE_FORMAT}).encode(), durable=True)

    def check_format(self) -> None:
        """Raise a FormatError unless this version can read the store."""
        folder = self.address.folder
        if folder is None:
            return
        try:
            page = read_page(folder / _FORMAT_FILE)
        except FileNotFoundError:
            return
        try:
            version = json.loads(page)["format"]
        except (ValueError, KeyError, TypeError):
            raise FormatError(
                f'{str(folder / _FORMAT_FILE)!r} is damaged; it should read {{"format": {STORE_FORMAT}}}'
            ) from None
        if version != STORE_FORMAT:
            raise FormatError(
                f"the store {str(folder)!r} has format {version}, and this rolltrace reads format {STORE_FORMAT}; "
                "record into another folder, or read it with the version that wrote it"
            )

    def table(self, name: str) -> Table:
        """A table as it was when it was last looked at; now, if it never was."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(self.address, name)
            table.refresh()
        return table

    def files(self, table: str, place: Place | None = None) -> list[DataFile]:
        """The files of a table, or of one place in it."""
        files = self.table(table).files()
        return files if place is None else [file for file in files if file.place == place]

    def refresh(self) -> None:
        """Look at all tables that were opened as they are now: the one that is committed last first, so that what it
        lists is in the others."""
        for name in sorted(self._tables, key=lambda name: name != LEADING_TABLE):
            self._tables[name].refresh()

    def position(self, journal: str) -> int:
        """How far a journal was committed to all tables; -1 if never."""
        return self.table(LEADING_TABLE).position(journal)

    def commit_batch(self, files: Mapping[str, Sequence[DataFile]], positions: Mapping[str, int]) -> None:
        """Commit a batch: the files of each table, and how far each journal has got with them.

        A table that has these positions already, because a drainer died between two tables, is left as it is.

        Raises:
            ConflictError: another drainer has committed one of these journals; start again from where that got to.
        """
        for schema in TABLE_SCHEMAS:
            adds = files.get(schema.name, ())
            if not adds and schema.name != LEADING_TABLE:
                continue
            table = self.table(schema.name)
            if table.version < 0:
                table.create()
            if all(table.position(journal) < offset for journal, offset in positions.items()):
                table.commit(adds, positions=positions)


def _remove_torn_entry(log: Path) -> None:
    """Remove the newest entry of a log if a power cut left it empty or cut: the journal still has its rows."""
    entries = sorted(log.glob("*.json"))
    if not entries:
        return
    try:
        for line in entries[-1].read_bytes().splitlines():
            json.loads(line)
        if entries[-1].stat().st_size:
            return
    except ValueError:
        pass
    except OSError as error:
        raise StoreError(f"{str(entries[-1])!r} cannot be read: {error}") from error
    logger.warning("removed %s, which a power cut left incomplete; its rows are drained again", entries[-1])
    entries[-1].unlink()
