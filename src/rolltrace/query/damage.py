"""Files of a store that cannot be read: whether an error is about one of them, which one, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rolltrace._arrow import pa, pc, pq
from rolltrace.files import read_problem
from rolltrace.query.database import duckdb
from rolltrace.store import SCHEMAS, checksum_problem, table_of

_OF_THE_QUESTION = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.PermissionException)
_OF_FILES = (duckdb.IOException, duckdb.InternalException)
_CTRL_C = "KeyboardInterrupt"
_CORRUPTION = re.compile(r"parquet|corrupt|magic bytes|decompress|zstd|(read|reading|open) file", re.IGNORECASE)


class Unreadable(Exception):
    """Parts that a question needs are damaged or cannot be fetched; it is asked again without them."""


class Stored(NamedTuple):
    """What is in the parts of a store."""

    parts: int
    """How many there are."""
    rows: dict[str, int]
    """How many rows each table has."""
    damaged: list[Path]
    """Parts that were met and cannot be read; `Engine.damaged` looks for all."""


class Counted(NamedTuple):
    """How many rows of each table some parts have, and which of them cannot be read."""

    rows: dict[str, int]
    unreadable: list[Path]


def count_rows(parts: Iterable[Path]) -> Counted:
    """The rows of some parts, by table."""
    counted = Counted({}, [])
    for part in parts:
        try:
            count = int(pq.read_metadata(part).num_rows)
        except FileNotFoundError:  # compacted since it was listed
            continue
        except (OSError, ValueError, pa.ArrowException):
            counted.unreadable.append(part)
            continue
        counted.rows[table_of(part)] = counted.rows.get(table_of(part), 0) + count
    return counted


def count_values(parts: Iterable[Path], column: str) -> int:
    """How many rows of some parts have a value in this column."""
    total = 0
    for part in parts:
        values = pq.read_table(part, columns=[column])[column]
        total += len(values) - values.null_count
    return total


def count_damaged(losses: Path) -> int:
    """How many places of journals were damaged, as a part of losses has it; 0 if it cannot be read."""
    try:
        rows = pq.read_table(losses, columns=["reason", "count"], partitioning=None)
    except (OSError, ValueError, pa.ArrowException):  # whoever asks for losses is told
        return 0
    return pc.sum(rows.filter(pc.equal(rows["reason"], "damaged"))["count"]).as_py() or 0


def problem_of_listing(file: Path) -> str | None:
    """What is wrong with the listing of a summary; None if it can be read."""
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            for _ in opened.iter_batches():
                pass
    except (OSError, ValueError, pa.ArrowException) as fault:
        return str(fault)
    return None


def is_interrupt(fault: Exception) -> bool:
    """Whether Ctrl-C is the reason: DuckDB says so in three ways, by what it did when it was pressed."""
    return isinstance(fault, duckdb.InterruptException) or str(fault) == "Query interrupted" or _CTRL_C in str(fault)


def is_of_files(fault: duckdb.Error) -> bool:
    """Whether a file may be the reason, and not the question. DuckDB has no type of its own for that."""
    if isinstance(fault, _OF_THE_QUESTION):
        return False
    return type(fault) is duckdb.Error or isinstance(fault, _OF_FILES) or _CORRUPTION.search(str(fault)) is not None


def problem_of(part: Path, database: duckdb.DuckDBPyConnection | None = None) -> str | None:
    """What is wrong with a part; None if it can be read. With a database, all of it is read and checksums compared."""
    thorough = database is not None
    try:
        if thorough and (problem := checksum_problem(part)) is not None:
            return problem
        with pq.ParquetFile(part, page_checksum_verification=thorough) as file:
            expected = SCHEMAS[table_of(part)]
            for field in file.schema_arrow:
                at = expected.get_field_index(field.name)
                if at >= 0 and expected.field(at).type != field.type:
                    return f"column {field.name} is {field.type}, not {expected.field(at).type}"
            if database is not None:
                for _ in file.iter_batches():
                    pass
                # Each library looks at other things; what either cannot read is damaged.
                database.cursor().execute("SELECT sum(hash(t)) FROM read_parquet([?]) t", [str(part)]).fetchall()
    except FileNotFoundError:
        return None  # compacted or pruned: there is nothing wrong with it
    except PermissionError as fault:
        return read_problem(part, fault)
    except (OSError, pa.ArrowException, duckdb.Error, KeyError, ValueError) as fault:
        return str(fault).partition("\n")[0] or type(fault).__name__
    return None
