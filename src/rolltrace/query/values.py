"""Recorded values, read back from the JSON of the store, and what changed between two of them. Pure functions.

NaN, infinity and huge integers are numbers again, and token lists that the store keeps in columns of their own are back
in their place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import Any, NamedTuple

Row = dict[str, Any]
_HEXADECIMAL = re.compile(r"-?0x[0-9a-f]+", re.ASCII)
_MISSING = object()
_MOST_CHANGES = 200


def tags_of(stored: str | dict[str, Any] | None) -> dict[str, Any]:
    """The tags of a trajectory, whether they were read already or not."""
    if isinstance(stored, dict):
        return stored
    return {} if stored is None else as_object(stored, "tags")


def as_object(text: str, name: str) -> dict[str, Any]:
    """The value of a column that holds objects; whoever reads it relies on that."""
    value = as_value(text)
    return value if isinstance(value, dict) else {name: value}


def as_value(text: str | None, columns: Row | None = None) -> Any:
    """The value of a JSON column. One that is no JSON, or deeper than any that we write, does not hide the rest."""
    if text is None:
        return None
    try:
        value = json.loads(text)
        return restore(value, {} if columns is None else columns) if '"$' in text else value
    except (ValueError, RecursionError):
        return {"$opaque": {"type": "unknown", "fields": {"bytes": len(text)}, "reason": "cannot be read"}}


def restore(value: Any, columns: Row) -> Any:
    """A JSON value as it was recorded: token columns put back, numbers that JSON cannot hold made again."""
    if isinstance(value, list):
        return [restore(item, columns) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key == "$column" and isinstance(inner, str) and inner in columns:
            return columns[inner]
        if key == "$float" and inner in ("nan", "inf", "-inf"):
            return float(inner)
        if key == "$int" and isinstance(inner, str) and _HEXADECIMAL.fullmatch(inner):
            return int(inner, 16)
    return {key: restore(item, columns) for key, item in value.items()}


class Change(NamedTuple):
    """A place where two values differ; None for what is not there."""

    path: str
    """Such as `board[2].owner`."""
    before: Any
    after: Any


def changes_between(before: Any, after: Any) -> list[Change]:
    """The places where two values differ, at most 200, as deep as both are objects or lists."""
    return list(islice(_changes("", before, after), _MOST_CHANGES))


def _changes(path: str, before: Any, after: Any) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from _changes(
                f"{path}.{key}" if path else str(key), before.get(key, _MISSING), after.get(key, _MISSING)
            )
    elif isinstance(before, list) and isinstance(after, list):
        for at, (one, other) in enumerate(zip_longest(before, after, fillvalue=_MISSING)):
            yield from _changes(f"{path}[{at}]", one, other)
    elif type(before) is not type(after) or (before != after and repr(before) != repr(after)):
        yield Change(path, *(None if each is _MISSING else each for each in (before, after)))
