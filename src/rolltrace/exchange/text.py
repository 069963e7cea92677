"""Recorded values as text of other tools: JSON that any reader takes, CSV that is safe to open in a spreadsheet.

In JSON, NaN and infinity are `{"$float": "nan"}`, as in the store. Traced text is data: no terminal obeys any of it,
and in CSV, text that a spreadsheet would run as a formula has a quote before it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import msgspec

from rolltrace.record import plain_text, to_json

_FORMULA = ("=", "+", "-", "@")
_NOT_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_encode = msgspec.json.Encoder().encode
_find_faults = json.JSONEncoder(allow_nan=False, check_circular=False).encode


def json_text(value: Any, *, was_json: bool = False) -> str:
    """A value as one line of strict JSON. Readable text stays so, unless a terminal could obey some of it.

    Args:
        value: Made of what Python makes of JSON, or of what `to_json` takes.
        was_json: It is of the first kind, so every key is text. NaN, infinity and large integers may be in it.
    """
    encoded = _encode_plain(value) if was_json else None
    if encoded is None:
        value = to_json(value)
        encoded = _encode(value)
    text = encoded.decode()
    # Of ASCII only DEL is left that is not printable, which is sooner told than by a look at each character.
    if "\x7f" not in text if text.isascii() else text.isprintable():
        return text
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("\x7f", "\\u007f")


def _encode_plain(value: Any) -> bytes | None:
    """What was JSON, encoded as it is; None if there is anything in it that strict JSON does not have.

    The library that writes it is quick and takes NaN for null, so another one, as quick, is asked whether there is any.
    """
    try:
        return None if "\\ud" in _find_faults(value) else _encode(value)  # perhaps half of a pair of surrogates
    except (ValueError, OverflowError, TypeError, RecursionError):
        return None


def _number(value: dict[str, Any]) -> Any:
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key == "$float" and isinstance(inner, str) and inner in _NOT_NUMBERS:
            return _NOT_NUMBERS[inner]
        if key == "$int" and isinstance(inner, str):
            try:
                return int(inner, 16)
            except ValueError:
                return value
    return value


decoder = json.JSONDecoder(object_hook=_number)


def parse(line: str | bytes) -> Any:
    """The value of a line that `json_text` wrote."""
    return json.loads(line, object_hook=_number)


def parse_if_json(value: Any) -> Any:
    """What JSON in a text stands for; the value itself if it is no text, or no JSON."""
    try:
        return parse(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def as_bytes(value: Any) -> bytes:
    """A value as bytes, the same for the same value: what the id of a trajectory without one is made of."""
    return json.dumps(value, sort_keys=True, default=repr, separators=(",", ":")).encode()


def write_csv(out: TextIO, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Write a line of names and the rows; returns how many rows there were."""
    writer, count = csv.writer(out, lineterminator="\n"), 0
    writer.writerow([_cell(name) for name in names])
    for row in rows:
        writer.writerow([_cell(value) for value in row])
        count += 1
    return count


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list | int):
        try:
            value = json.dumps(value, ensure_ascii=False, default=str)
        except ValueError:  # Python writes no integer of over 4300 digits
            value = json_text(value)
    text = str(value)
    if isinstance(value, str) and text.startswith(_FORMULA) and not _is_number(text):
        text = f"'{text}"
    return "\n".join(plain_text(line.replace("\t", "    ")) for line in text.replace("\r\n", "\n").split("\n"))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
