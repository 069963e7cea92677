"""Files of a store that cannot be read: whether an error is about one of them, which one, and what is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from rolltrace._arrow import pa, pq
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
