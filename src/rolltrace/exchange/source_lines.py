"""Cuts a file into lines: a line of JSON, an item of an array, a document, whatever its format has one record in.

A named pipe would wait for a writer that may never come, a device never ends, and a file that is empty on the disk may
still have terabytes of zeros: all three are refused before a byte is read. No more of a file is in memory than a
document may have.
"""

from __future__ import annotations

import errno
import io
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from rolltrace.exchange.text import as_bytes, decoder, parse

MAX_DOCUMENT_BYTES = 256 << 20
"""Of one JSON document or line, unpacked: its values take about ten times as much memory."""
_MAX_HOLE_BYTES = 64 << 20
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_CHUNK = 1 << 20
_BOM = b"\xef\xbb\xbf"
_BETWEEN = " \t\r\n,"
_MAX_TOKEN_CHARS = 64
"""How far before the end of a text a JSON parser may name a problem that is only that the text goes on."""


class Line(NamedTuple):
    """A record of a file, or what is wrong with it."""

    number: int
    """Of the line, or of the item, from 1 on; 0 if it is the whole file."""
    raw: bytes
    """What its trajectory is known by, if that has no id."""
    value: Any = None
    problem: str | None = None


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
            raise OSError(errno.EINVAL, f"{kind}; write its content to a file first", str(path))
        if status.st_size - status.st_blocks * 512 > _MAX_HOLE_BYTES and _has_hole(descriptor, status.st_size):
            raise OSError(errno.EINVAL, f"a sparse file: of its {status.st_size:,} bytes, most are not on the disk")
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def _has_hole(descriptor: int, size: int) -> bool:
    """Whether a file has a hole; one on a compressed filesystem takes few blocks and has none."""
    try:
        return hasattr(os, "SEEK_HOLE") and os.lseek(descriptor, 0, os.SEEK_HOLE) < size
    except OSError:  # a filesystem that cannot tell
        return False
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)


def read_lines(file: BinaryIO) -> Iterator[bytes | None]:
    """The lines of a file; None for one that is longer than a document may be."""
    while line := file.readline(MAX_DOCUMENT_BYTES + 1):
        if len(line) <= MAX_DOCUMENT_BYTES:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(1 << 20)
        yield None


def json_records(path: Path) -> Iterator[Line]:
    """The records of a file of JSON: one a line, the items of one array, or one document over several lines."""
    with open_regular(path) as file:
        begins_array = _stripped(file.read(_CHUNK)).startswith(b"[")
        file.seek(0)
        lines = (line if line is None else _stripped(line) for line in read_lines(file))
        filled = (line for line in lines if line is None or line)
        first = next(filled, b"")
        goes_on = first is None
        if first is not None:
            try:
                text = first.decode()
                parse(text)
                goes_on = begins_array and next(filled, b"") == b""
            except json.JSONDecodeError as error:
                goes_on = text[:1] in ("[", "{") and error.pos >= len(text) - 1
            except (ValueError, RecursionError):
                pass
    if goes_on and begins_array:
        return _read_array(path)
    if goes_on and first is not None:
        document = next(whole_document(path))
        if document.problem is None:
            return iter([document])
    return json_lines(path)


def json_lines(path: Path) -> Iterator[Line]:
    """Every line that is not empty."""
    with open_regular(path) as file:
        for number, raw in enumerate(read_lines(file), start=1):
            if raw is None:
                yield Line(number, b"", problem=f"longer than {MAX_DOCUMENT_BYTES:,} bytes")
            elif text := _stripped(raw):
                yield parse_line(number, text)


def whole_document(path: Path) -> Iterator[Line]:
    """The one JSON document that a file is."""
    with open_regular(path) as file:
        raw = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(raw) > MAX_DOCUMENT_BYTES:
        yield Line(0, b"", problem=f"a JSON document of more than {MAX_DOCUMENT_BYTES:,} bytes")
    else:
        yield parse_line(0, raw)


def whole_session(path: Path) -> Iterator[Line]:
    """All lines of a file as one record with `lines`: what the session files of agents are made of."""
    size = path.stat().st_size
    if size > MAX_DOCUMENT_BYTES:
        yield Line(0, b"", problem=f"a session of {size:,} bytes; at most {MAX_DOCUMENT_BYTES:,} are read")
        return
    objects: list[Any] = []
    for line in json_lines(path):
        if isinstance(line.value, dict):
            objects.append(line.value)
        else:
            kind = type(line.value).__name__
            yield line._replace(problem=line.problem or f"a line is a JSON object, not {kind}")
    if objects:
        yield Line(0, b"", {"lines": objects})


def parse_line(number: int, raw: bytes) -> Line:
    """A record from its text."""
    try:
        return Line(number, raw, parse(raw.removeprefix(_BOM).decode()))
    except RecursionError:
        return Line(number, raw, problem="nested too deeply")
    except ValueError as error:
        return Line(number, raw, problem=f"not JSON: {error}")


def number_items(values: list[Any]) -> Iterator[Line]:
    """The items of a list in a document, each a record."""
    return (Line(number, as_bytes(value), value) for number, value in enumerate(values, start=1))


def _stripped(raw: bytes) -> bytes:
    return raw.removeprefix(_BOM).strip()


def _read_array(path: Path) -> Iterator[Line]:
    """The items of an array, one at a time, however large it is."""
    text, at, number = "", 0, 0
    with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig") as file:
        try:
            while text[at : at + 1] != "[":
                text, at = file.read(_CHUNK).lstrip(), 0
            at += 1
            while True:
                while at < len(text) and text[at] in _BETWEEN:
                    at += 1
                if text[at : at + 1] == "]":
                    break
                problem = "the array does not end"
                try:
                    value, end = decoder.raw_decode(text, at)
                except json.JSONDecodeError as error:
                    problem = f"{error.msg} before {text[error.pos : error.pos + 20]!r}"
                    goes_on = error.pos >= len(text) - _MAX_TOKEN_CHARS or error.msg.startswith("Unterminated string")
                    if not goes_on or len(text) - at > MAX_DOCUMENT_BYTES:
                        raise ValueError(problem) from None
                    end = len(text)
                if end == len(text):  # perhaps cut off: with as much again, an item is read a few times at most
                    more = file.read(max(_CHUNK, len(text) - at))
                    if not more:
                        raise ValueError(problem)
                    text, at = text[at:] + more, 0
                    continue
                number += 1
                yield Line(number, text[at:end].encode("utf-8", "surrogatepass"), value)
                at = end
        except RecursionError:
            yield Line(number + 1, b"", problem="nested too deeply")
        except ValueError as error:
            yield Line(number + 1, b"", problem=f"not JSON: {error}; the rest of the array is not read")
        else:
            if not number:
                yield Line(0, b"", problem="an empty JSON array")
