"""Cuts a file of JSON into records: one a line, the items of one array, or one document over several lines.

Which of these a file is shows in its first line. The items of an array are read one at a time, however large it is.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from rolltrace.exchange.opening import MAX_DOCUMENT_BYTES, open_regular, read_lines
from rolltrace.exchange.text import decoder, parse

_CHUNK = 1 << 20
_BOM = b"\xef\xbb\xbf"
_BETWEEN = " \t\r\n,"
_LONGEST_TOKEN = 64
"""How far before the end of a text a JSON parser may name a problem that is only that the text goes on."""


class JsonRecord(NamedTuple):
    """A record, or what is wrong with it."""

    number: int
    """Of the line, or of the item of an array, from 1 on; 0 if it is the whole file."""
    raw: bytes
    value: Any = None
    problem: str | None = None


class _Layout(Enum):
    LINES = "one record a line"
    ARRAY = "the items of one array"
    DOCUMENT = "one document"


def read_json_records(path: Path) -> Iterator[JsonRecord]:
    """The records of a file of JSON.

    Raises:
        OSError: it cannot be read.
    """
    layout = _layout(path)
    if layout is _Layout.ARRAY:
        yield from _read_array(path)
        return
    if layout is _Layout.DOCUMENT:
        document = read_document(path)
        if document.problem is None:
            yield document
            return
    yield from read_json_lines(path)


def read_json_lines(path: Path) -> Iterator[JsonRecord]:
    """Every line that is not empty.

    Raises:
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        for number, raw in enumerate(read_lines(file), start=1):
            if raw is None:
                yield JsonRecord(number, b"", problem=f"longer than {MAX_DOCUMENT_BYTES:,} bytes")
            elif text := _stripped(raw):
                yield parse_record(number, text)


def read_document(path: Path) -> JsonRecord:
    """The one document that a file is.

    Raises:
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        raw = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(raw) > MAX_DOCUMENT_BYTES:
        return JsonRecord(0, b"", problem=f"a JSON document of more than {MAX_DOCUMENT_BYTES:,} bytes")
    return parse_record(0, raw)


def parse_record(number: int, raw: bytes) -> JsonRecord:
    """A record from its text."""
    try:
        return JsonRecord(number, raw, parse(raw.removeprefix(_BOM).decode()))
    except RecursionError:
        return JsonRecord(number, raw, problem="nested too deeply")
    except ValueError as fault:
        return JsonRecord(number, raw, problem=f"not JSON: {fault}")


def _stripped(raw: bytes) -> bytes:
    return raw.removeprefix(_BOM).strip()


def _layout(path: Path) -> _Layout:
    with open_regular(path) as file:
        begins_array = _stripped(file.read(_CHUNK)).startswith(b"[")
        file.seek(0)
        lines = (line if line is None else _stripped(line) for line in read_lines(file))
        filled = (line for line in lines if line is None or line)
        first = next(filled, b"")
        if first is None:
            return _Layout.ARRAY if begins_array else _Layout.LINES
        try:
            text = first.decode()
            parse(text)
        except json.JSONDecodeError as fault:
            if text[:1] in ("[", "{") and fault.pos >= len(text) - 1:  # it goes on in the next line
                return _Layout.ARRAY if begins_array else _Layout.DOCUMENT
        except (ValueError, RecursionError):
            pass
        else:
            if begins_array and next(filled, b"") == b"":
                return _Layout.ARRAY
        return _Layout.LINES


def _read_array(path: Path) -> Iterator[JsonRecord]:
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
                except json.JSONDecodeError as fault:
                    problem = f"{fault.msg} before {text[fault.pos : fault.pos + 20]!r}"
                    goes_on = fault.pos >= len(text) - _LONGEST_TOKEN or fault.msg.startswith("Unterminated string")
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
                yield JsonRecord(number, text[at:end].encode("utf-8", "surrogatepass"), value)
                at = end
        except RecursionError:
            yield JsonRecord(number + 1, b"", problem="nested too deeply")
        except ValueError as fault:
            yield JsonRecord(number + 1, b"", problem=f"not JSON: {fault}; the rest of the array is not read")
        else:
            if not number:
                yield JsonRecord(0, b"", problem="an empty JSON array")
