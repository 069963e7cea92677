"""All tables of a store: opened when asked for, committed to in one order, repaired after a power cut.

STORE/format.json           version of the format
STORE/TABLE/_delta_log/     one Delta table per kind of row (`tables.columns`)
STORE/TABLE/data/
STORE/journal/HOST/         what the drainer has not taken yet; on another disk if the store is a bucket
STORE/live/HOST             what is running there right now
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rolltrace._address import StoreAddress
from rolltrace._guard import logger
from rolltrace.errors import FormatError, StoreError
from rolltrace.files import make_store, replace_file
from rolltrace.tables.columns import STORE_FORMAT, TABLE_SCHEMAS, Place
from rolltrace.tables.storage import read_shared, write_shared
from rolltrace.tables.table import LOG, DataFile, Table

_FORMAT_FILE = "format.json"
MAX_WRITING_SEC = 3600.0
"""How old an unfinished file is of which it is certain that nobody writes it any more."""
LEADING_TABLE = "trajectories"
"""Committed last in every batch: how far a journal was drained is what this table says."""
FIRST_TABLE = "ops"
"""Committed first in every batch, so that of two drainers at one journal one gets a conflict before anything of its
batch is there. Which batch was begun is what this table says."""


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
        folder, page = self.address.folder, json.dumps({"format": STORE_FORMAT}).encode()
        if folder is None:
            if not self.check_format():
                write_shared(self.address, _FORMAT_FILE, page)
            return
        make_store(folder, share)
        is_new = not self.check_format()
        for schema in TABLE_SCHEMAS:
            torn = find_torn_entry(folder / schema.name / LOG)
            if torn is not None:
                logger.warning("removed %s, which a power cut left incomplete; its rows are drained again", torn)
                torn.unlink()
        if is_new:
            replace_file(folder / _FORMAT_FILE, page, durable=True)

    def check_format(self) -> bool:
        """Raise a FormatError unless this version can read the store; whether there is one already."""
        page = read_shared(self.address, "").get(_FORMAT_FILE)
        if page is None:
            return False
        try:
            version = json.loads(page)["format"]
        except (ValueError, KeyError, TypeError):
            raise FormatError(
                f'{self.address.table(_FORMAT_FILE)!r} is damaged; it should read {{"format": {STORE_FORMAT}}}'
            ) from None
        if version != STORE_FORMAT:
            raise FormatError(
                f"the store {self.address.url!r} has format {version}, and this rolltrace reads format {STORE_FORMAT}; "
                "record into another folder, or read it with the version that wrote it"
            )
        return True

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

    def commit_batch(
        self, files: Mapping[str, Sequence[DataFile]], positions: Mapping[str, int], *, is_repeated: bool = True
    ) -> None:
        """Commit a batch: the files of each table, and how far each journal has got with them.

        A table that has these positions already, because a drainer died between two tables, is left as it is. Looking
        that up costs more than a commit, so it is not done for a batch that is known not to be repeated.

        Raises:
            ConflictError: another drainer has committed one of these journals; start again from where that got to.
        """
        for name in sorted((schema.name for schema in TABLE_SCHEMAS), key=lambda name: name != FIRST_TABLE):
            adds = files.get(name, ())
            if not adds and name not in (FIRST_TABLE, LEADING_TABLE):
                continue
            is_new = name not in self._tables
            table = self.table(name)
            if table.version < 0:
                is_new = True
                table.create()
            is_unknown = is_repeated or is_new  # somebody may have finished the batch in our place
            if not is_unknown or all(table.position(journal) < offset for journal, offset in positions.items()):
                table.commit(adds, positions=positions)


def hidden_files(store: TableStore) -> list[Path]:
    """Data files that a process which was killed did not finish, in a folder: nobody reads them, nor does deltalake
    see them."""
    paths = []
    for schema in TABLE_SCHEMAS if store.address.folder is not None else ():
        for path in Path(store.address.table(schema.name), "data").glob("*/*/.*.parquet"):
            with suppress(OSError):  # finished since it was listed
                if path.lstat().st_mtime < time.time() - MAX_WRITING_SEC:
                    paths.append(path)
    return sorted(paths)


def find_torn_entry(log: Path) -> Path | None:
    """The newest entry of a log, if a power cut left it empty or cut: the journal still has its rows."""
    newest = max(log.glob("*.json"), default=None)
    if newest is None:
        return None
    try:
        lines = newest.read_bytes().splitlines()
        return None if [json.loads(line) for line in lines] else newest
    except ValueError:
        return newest
    except OSError as error:
        raise StoreError(f"{str(newest)!r} cannot be read: {error}") from error
