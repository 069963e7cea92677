"""How a file that is not JSON lines is cut into records, one at a time: a JSON document, the rows of a Parquet file.

A reader chooses one with `source.split = ...`. Whatever is wrong with a file becomes a `BadLine`. Sizes are looked at
before anything is unpacked, because a few bytes of a compressed file can stand for gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rolltrace.exchange.import_rows import Malformed
from rolltrace.exchange.importer import BadLine, Line, Source, json_lines, line_of
from rolltrace.exchange.json_records import parse_record, read_document
from rolltrace.exchange.opening import MAX_DOCUMENT_BYTES
from rolltrace.exchange.text import as_bytes

_MOST_ROW_GROUP_BYTES = 2 << 30
_ROWS_AT_ONCE = 32


def whole_document(source: Source) -> Iterator[Line | BadLine]:
    """The one JSON document that a file is."""
    yield line_of(source, read_document(source.path))


def whole_session(source: Source) -> Iterator[Line | BadLine]:
    """All lines of a file as one record with `lines`: what the session files of agents are made of."""
    size = source.path.stat().st_size
    if size > MAX_DOCUMENT_BYTES:
        yield BadLine(source.path, 0, f"a session of {size:,} bytes; at most {MAX_DOCUMENT_BYTES:,} are read")
        return
    lines: list[Any] = []
    for line in json_lines(source):
        if isinstance(line, BadLine):
            yield line
        elif isinstance(line.value, dict):
            lines.append(line.value)
        else:
            yield BadLine(source.path, line.number, f"a line is a JSON object, not {type(line.value).__name__}")
    if lines:
        yield Line(0, b"", {"lines": lines}, source.time_ns)


def document(source: Source, number: int, raw: bytes, inside: str = "") -> Line | BadLine:
    """A JSON document as a record.

    Args:
        source: The file that it is in.
        number: Which document of that file; 0 if it is the only one.
        raw: Its text.
        inside: What it is called there.
    """
    line = line_of(source, parse_record(number, raw))
    return line._replace(reason=f"{inside}: {line.reason}") if inside and isinstance(line, BadLine) else line


def parquet_rows(source: Source) -> Iterator[Line | BadLine]:
    """The rows of a Parquet file, as objects."""
    number = 0
    try:
        for number, row in enumerate(read_parquet(source.path), start=1):
            yield Line(number, as_bytes(row), row, source.time_ns + 1000 * number)
    except Malformed as fault:
        yield BadLine(source.path, number and number + 1, str(fault))


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file.

    Raises:
        Malformed: it is no such file, is damaged, or too large in one piece.
    """
    try:
        with pq.ParquetFile(path) as file:
            for at in range(file.metadata.num_row_groups):
                size = file.metadata.row_group(at).total_byte_size
                if size > _MOST_ROW_GROUP_BYTES:
                    raise Malformed(f"row group {at} has {size:,} bytes; at most {_MOST_ROW_GROUP_BYTES:,} are read")
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as fault:
        if isinstance(fault, Malformed):
            raise
        raise Malformed(f"not a Parquet file that can be read: {_first_line(fault)}") from None


def parquet_columns(path: Path) -> frozenset[str]:
    """The names of the columns of a Parquet file; none if it is no such file."""
    try:
        return frozenset(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError):
        return frozenset()


def _first_line(fault: BaseException) -> str:
    return str(fault).partition("\n")[0][:200] or type(fault).__name__
