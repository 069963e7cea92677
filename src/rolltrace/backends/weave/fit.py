"""Values made small enough for a vendor's limit, with a mark where something was cut.

The mark is the store's own: `{"$cut": {"limit": "bytes", "full_length": N, "kept": ...}}`.
"""

from __future__ import annotations

import json
from typing import Any

_LEAST = 64
"""With less room than this, a part of a value says nothing."""


def json_bytes(value: Any) -> int:
    """How long the JSON of a value is, as most services write it: with spaces, and all but ASCII escaped."""
    return len(json.dumps(value))


def fit(value: Any, most_bytes: int) -> Any:
    """A JSON value whose JSON has about `most_bytes` at most: the value itself, or what is kept of it.

    A dict stays a dict. Its small items stay whole and the large ones share the rest.
    """
    if json_bytes(value) <= most_bytes:
        return value
    if isinstance(value, dict):
        return _fit_dict(value, most_bytes)
    if isinstance(value, list):
        return _cut(len(value), _first_items(value, most_bytes - _LEAST))
    if isinstance(value, str):
        return _cut(len(value), _first_letters(value, most_bytes - _LEAST))
    return _cut(1, None)  # a number that has no room


def _cut(full_length: int, kept: Any) -> dict[str, Any]:
    return {"$cut": {"limit": "bytes", "full_length": full_length, "kept": kept}}


def _fit_dict(value: dict[str, Any], room: int) -> dict[str, Any]:
    room -= _LEAST
    sizes = {name: json_bytes(name) + json_bytes(item) + 4 for name, item in value.items()}
    fitted: dict[str, Any] = {}
    for left, name in zip(range(len(value), 0, -1), sorted(value, key=sizes.__getitem__)):
        allowance = room // left
        if sizes[name] > allowance:
            for_item = allowance - json_bytes(name) - 4
            if for_item < 2 * _LEAST:
                continue
            fitted[name] = fit(value[name], for_item)
            room -= allowance
        else:
            fitted[name] = value[name]
            room -= sizes[name]
    in_order = {name: fitted[name] for name in value if name in fitted}
    return in_order if len(in_order) == len(value) else {**in_order, **_cut(len(value), None)}


def _first_items(value: list[Any], room: int) -> list[Any]:
    fitted: list[Any] = []
    for item in value:
        size = json_bytes(item) + 2
        if size > room:
            if room > 2 * _LEAST:
                fitted.append(fit(item, room))
            break
        fitted.append(item)
        room -= size
    return fitted


def _first_letters(value: str, room: int) -> str:
    text = value[: max(room, 0)]
    while text and (size := json_bytes(text)) > room:
        text = text[: min(len(text) * room // size, len(text) - 1)] if room > 0 else ""
    return text
