"""Recorded values as text of other tools: JSON that any reader takes, CSV that is safe to open in a spreadsheet.

In JSON, NaN and infinity are `{"$float": "nan"}`, as in the store. Traced text is data: no terminal obeys any of it,
and in CSV, text that a spreadsheet would run as a formula has a quote before it.
"""

from __future__ import annotations

import csv
import json
import math
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
    if was_json and (encoded := _encode_plain(value)) is not None:
        strict, text = value, encoded.decode()
    else:
        strict = _strict(value)
        text = _encode(strict).decode()
    # Of ASCII only DEL is left that is not printable, which is sooner told than by a look at each character.
    if "\x7f" not in text if text.isascii() else text.isprintable():
        return text
    return json.dumps(strict, separators=(",", ":"), allow_nan=False).replace("\x7f", "\\u007f")


def _encode_plain(value: Any) -> bytes | None:
    """What was JSON, encoded as it is; None if there is anything in it that strict JSON does not have.

    The library that writes it is quick and takes NaN for null, so another one, as quick, is asked whether there is any.
    """
    try:
        return None if "\\ud" in _find_faults(value) else _encode(value)  # perhaps half of a pair of surrogates
    except (ValueError, OverflowError, TypeError, RecursionError):
        return None


def _strict(value: Any) -> Any:
    """As `to_json`, which looks at every number; most of them are token ids and logprobs, checked here in one go."""
    kind = type(value)
    if value is None or kind is bool or (kind is str and value.isascii()):
        return value
    if (kind is int and -(1 << 63) <= value < 1 << 64) or (kind is float and math.isfinite(value)):
        return value
    if kind is dict:
        if _all_plain_texts(value):
            return {key: item if item is None else _strict(item) for key, item in value.items()}
    elif kind is list:
        return value if value and _all_numbers(value) else [_strict(item) for item in value]
    return to_json(value)


def _all_plain_texts(keys: dict[Any, Any]) -> bool:
    try:
        return "".join(keys).isascii()
    except TypeError:
        return False


def _all_numbers(values: list[Any]) -> bool:
    if type(values[0]) not in (int, float):
        return False
    try:
        return math.isfinite(sum(values)) and min(values) >= -(1 << 63) and max(values) < 1 << 64
    except (TypeError, OverflowError):
        return False


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
