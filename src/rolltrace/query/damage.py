"""What a store holds and an answer does not, because it could not be read: journals and data files.

A data file that is damaged, or not ours to read, is left out and the rest of the store is read. Records that were
damaged in a journal are lost: the losses of its experiment say so.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from rolltrace._address import address_in
from rolltrace._arrow import pa, pq
from rolltrace._guard import OURS
from rolltrace.errors import IncompleteWarning, UnknownNameWarning
from rolltrace.files import read_problem
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
_LONGEST_REASON = 80


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
        return f"{which} cannot be read ({reason[:_LONGEST_REASON]}): {lost} cannot be shown"


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
