"""JSON that any reader takes and no terminal obeys; NaN and infinity are `{"$float": "nan"}`, as in the store."""

from __future__ import annotations

import json
from typing import Any

from rolltrace.record import to_json

_NOT_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def json_text(value: Any) -> str:
    """A value as one line of strict JSON. Readable text stays so, unless a terminal could obey some of it."""
    strict = to_json(value)
    text = json.dumps(strict, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if text.isprintable():
        return text
    return json.dumps(strict, separators=(",", ":"), allow_nan=False).replace("\x7f", "\\u007f")


def parse(line: str | bytes) -> Any:
    """The value of a line that `json_text` wrote."""
    return json.loads(line, object_hook=_number)


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
