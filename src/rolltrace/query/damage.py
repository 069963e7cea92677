"""What a store holds and an answer does not, because it could not be read: journals and data files.

A data file that is damaged, or not ours to read, is left out and the rest of the store is read. Records that were
damaged in a journal are lost: the losses of its experiment say so.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from rolltrace._address import address_in
from rolltrace._amounts import size
from rolltrace._arrow import pa, pq
from rolltrace._guard import OURS
from rolltrace.errors import FormatError, IncompleteWarning, StoreError, UnknownNameWarning
from rolltrace.files import open_private, read_problem, write_problem
from rolltrace.journal import (
    HEADER_BYTES,
    SegmentReader,
    find_link,
    hidden_journals,
    is_live,
    journal_files,
    journal_folder,
)
from rolltrace.query.database import duckdb
from rolltrace.tables import arrow_schema

_OF_THE_QUESTION = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.PermissionException)
_OF_FILES = (duckdb.IOException, duckdb.InternalException)
_CTRL_C = "KeyboardInterrupt"
_CORRUPTION = re.compile(r"parquet|corrupt|magic bytes|decompress|zstd|(read|reading|open) file", re.IGNORECASE)


class StaleError(Exception):
    """A file is gone because somebody has replaced it: look at the tables again."""


class Stored(NamedTuple):
    """What is in the tables of a store."""

    files: int
    """How many data files there are."""
    rows: dict[str, int]
    """How many rows each table has; of a step that is moving, partial ones are counted one by one."""
    damaged: list[Path]
    """Files that were met and cannot be read; `Engine.damaged` looks for all."""


def is_interrupt(error: Exception) -> bool:
    """Whether Ctrl-C is the reason: DuckDB says so in three ways, by what it did when it was pressed."""
    return isinstance(error, duckdb.InterruptException) or str(error) == "Query interrupted" or _CTRL_C in str(error)


def is_of_files(error: duckdb.Error) -> bool:
    """Whether a file may be the reason, and not the question. DuckDB has no type of its own for that."""
    if isinstance(error, _OF_THE_QUESTION):
        return False
    return type(error) is duckdb.Error or isinstance(error, _OF_FILES) or _CORRUPTION.search(str(error)) is not None


def find_damage(path: Path, table: str, database: duckdb.DuckDBPyConnection | None) -> str | None:
    """What is wrong with the Parquet in a data file; None if it can be read. With a database, all of it is read."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=database is not None) as opened:
            expected = arrow_schema(table)
            for field in opened.schema_arrow:
                at = expected.get_field_index(field.name)
                if at >= 0 and not _is_same(expected.field(at).type, field.type):
                    return f"column {field.name} is {field.type}, not {expected.field(at).type}"
            if database is not None:
                for _ in opened.iter_batches():
                    pass
                # Each library looks at other things; what either cannot read is damaged.
                database.execute("SELECT sum(hash(t)) FROM read_parquet([?]) t", [str(path)]).fetchall()
    except FileNotFoundError:
        return "it is missing"
    except PermissionError as error:
        return read_problem(path, error)
    except (OSError, pa.ArrowException, duckdb.Error, KeyError, ValueError) as error:
        return str(error).partition("\n")[0] or type(error).__name__
    return None


def _is_same(expected: pa.DataType, found: pa.DataType) -> bool:
    """Names of items of lists and maps differ between the libraries that write them."""
    if pa.types.is_list(expected) and pa.types.is_list(found):
        return _is_same(expected.value_type, found.value_type)
    if pa.types.is_map(expected) and pa.types.is_map(found):
        return _is_same(expected.key_type, found.key_type) and _is_same(expected.item_type, found.item_type)
    return bool(expected == found)


Kind = Literal["journal", "file", "damage", "backlog"]
_NAMES: dict[Kind, str] = {"journal": "journal file", "file": "data file", "damage": "file", "backlog": "journal file"}
_MAX_REASON_LENGTH = 80


class Missing(NamedTuple):
    """A file that could not be read, or a folder of such files."""

    kind: Kind
    path: Path
    reason: str


class Incomplete(NamedTuple):
    """What an answer lacks; false if it lacks nothing."""

    missing: tuple[Missing, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing)

    def __str__(self) -> str:
        return "; ".join(map(self.of_kind, self.kinds))

    @property
    def kinds(self) -> list[Kind]:
        """What there is something missing of."""
        return [kind for kind in _NAMES if any(each.kind == kind for each in self.missing)]

    def of_kind(self, kind: Kind) -> str:
        """One line about what is missing of a kind."""
        files = [each for each in self.missing if each.kind == kind]
        if kind == "backlog":
            size = sum(float(each.reason.split()[0]) for each in files)
            return f"{size:.1f} MB of journals were not drained and are missing here: the store cannot be written to"
        if kind == "damage":
            few, more = files[0].reason, len(files) - 1
            return f"{few}" if not more else f"{few}; and in {more} more"
        path, reason = files[0].path, files[0].reason.replace(f"{files[0].path}", "it").partition(". ")[0]
        place = f"{path.parent.name}/{path.name}"
        which = f"the {'folder' if os.path.isdir(path) else _NAMES[kind]} {place}"
        if len(files) > 1:
            which = f"{len(files)} {_NAMES[kind]}s, such as {place},"
        lost = "what waits there to be drained" if kind == "journal" else "the rows there"
        return f"{which} cannot be read ({reason[:_MAX_REASON_LENGTH]}): {lost} cannot be shown"


COMPLETE = Incomplete()


class Teller:
    """Warns of what the answers of a store lack, once for each kind, and of names that it does not have."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._warned_of: set[str] = set()

    def tell_unknown(self, problems: Iterable[str]) -> None:
        for problem in problems:
            if problem not in self._warned_of:
                self._warned_of.add(problem)
                warnings.warn(problem, UnknownNameWarning, stacklevel=_caller_level())

    def tell(self, incomplete: Incomplete) -> None:
        for kind in incomplete.kinds if incomplete else ():
            if kind not in self._warned_of:
                self._warned_of.add(kind)
                line = f"{incomplete.of_kind(kind)}; see: rolltrace doctor {shlex.quote(address_in(self._store).url)}"
                warnings.warn(line, IncompleteWarning, stacklevel=_caller_level())


def _caller_level() -> int:
    """The `stacklevel` at which a warning of our caller names the line of whoever called rolltrace."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        level, frame = level + 1, frame.f_back
    return level


MAX_WAIT_SEC = 60.0
"""How long a first question waits for what was not drained."""
_QUIET_SEC = 1.0


class Backlog:
    """The journals of a store, as a reader sees them."""

    def __init__(self, store: Path, *, drains: bool = True) -> None:
        """`drains`: see to it that they are drained; without, they are only looked at."""
        self._store = store
        self._drains = drains
        self._is_first = True
        self.waiting_bytes = 0
        """How much is in journals and in no table, because we cannot drain it."""
        self.hidden: dict[Path, str] = {}
        """Journals that are not ours to read -> why."""

    def drain(self, *, everything: bool = False, wait_sec: float = 0.0) -> None:
        """See to it that what was recorded so far is in the tables, or soon will be.

        Args:
            everything: Wait for it, as the first time.
            wait_sec: Wait so long at most, and go on.
        """
        waits, self._is_first = everything or self._is_first, False
        self.hidden = dict(hidden_journals(self._store))
        self.waiting_bytes = 0
        if not self._drains or not journal_files(self._store):
            return
        from rolltrace.drain import catch_up

        progress = _Progress()
        try:
            left = catch_up(self._store, wait_sec=MAX_WAIT_SEC if waits else wait_sec, progress=progress)
        finally:
            progress.clear()
        self.hidden.update(_find_unreadable(self._store))
        is_closed = not os.access(journal_folder(self._store), os.W_OK) or write_problem(self._store) is not None
        if is_closed or find_link(self._store) is not None:
            self.waiting_bytes = left
        elif left and waits:
            raise StoreError(
                f"{size(left)} of journals are not in the tables of the store {address_in(self._store).url!r} yet, and "
                f"an answer would lack them; drain it first, with: rolltrace store drain "
                f"{shlex.quote(address_in(self._store).url)}"
            )


def _find_unreadable(store: Path) -> Iterator[tuple[Path, str]]:
    """The journal files that no drainer of ours can read, and why."""
    for path in journal_files(store):
        try:
            if not is_live(path):
                SegmentReader.open(path, HEADER_BYTES, 1)
            else:
                open_private(path).close()
        except FileNotFoundError:  # drained meanwhile
            continue
        except FormatError as error:
            yield path, str(error)
        except OSError as error:
            yield path, read_problem(path, error)


class _Progress:
    """A line on a terminal that says how much is drained, once that takes a while."""

    def __init__(self) -> None:
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._shows_at = time.monotonic() + _QUIET_SEC if is_terminal else math.inf
        self._width = 0

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        if time.monotonic() >= self._shows_at:
            self._print(f"draining journals: {size(done_bytes)} of {size(total_bytes)}")

    def clear(self) -> None:
        if self._width:
            self._print("")

    def _print(self, text: str) -> None:
        sys.stderr.write(f"\r{text:<{self._width}}" + ("" if text else "\r"))
        sys.stderr.flush()
        self._width = max(self._width, len(text))
