"""Recorded values, read back from the JSON of the store, what changed between two of them, and as bounded JSON.

Read back, NaN, infinity and huge integers are numbers again, and token lists that the store keeps in columns of their
own are back in their place. Bounded, they are JSON that any browser can take, with stubs where something was cut:

    {"$cut": {"type": "text", "size": 81234, "shown": "the first characters"}}
    {"$cut": {"type": "list", "size": 30000, "shown": [1, 2, ...]}}
    {"$cut": {"type": "object", "size": 900, "shown": {...}}}

`size` is in characters, items or keys. `branch_of` reads on where a stub stands. What JSON or JavaScript cannot hold is
written as in the store: `{"$float": "nan"}`, `{"$int": "0x..."}` for what has more than 53 bits.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from rolltrace.errors import NotFoundError
from rolltrace.record import to_json

Row = dict[str, Any]
_HEXADECIMAL = re.compile(r"-?0x[0-9a-f]+", re.ASCII)
_MISSING = object()
_MAX_CHANGES = 200
MAX_CHARS = 4_000
MAX_ITEMS = 100
MAX_LEVELS = 12
MAX_TOTAL = 50_000
"""About how many characters a bounded value has at most."""
_SAFE = 1 << 53
CUT = "$cut"


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
    return list(islice(_changes("", before, after), _MAX_CHANGES))


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


class _Budget:
    def __init__(self, chars: int) -> None:
        self.left = chars


def bounded(value: Any, *, total: int = MAX_TOTAL) -> Any:
    """The value as JSON, with stubs where it is too long, too deep or too much."""
    return _bounded(value, MAX_LEVELS, _Budget(total), MAX_CHARS, MAX_ITEMS)


def whole_value(value: Any) -> Any:
    """The value as JSON, all of it."""
    return to_json(value)


def branch_of(value: Any, path: Sequence[str | int], *, offset: int = 0) -> Any:
    """What stands at a path of a value, bounded; of a text or list, from `offset` on.

    Raises:
        NotFoundError: nothing stands there.
    """
    at = value
    for key in path:
        try:
            if not isinstance(at, dict | list):
                raise KeyError(key)
            at = at[key]  # type: ignore[index] # a wrong type of key is a TypeError
        except (KeyError, IndexError, TypeError):
            raise NotFoundError(f"there is no value at {list(path)!r:.200}: {key!r:.60} is not there") from None
    if isinstance(at, str | list):
        at = at[offset:]
    return _bounded(at, MAX_LEVELS, _Budget(10 * MAX_TOTAL), 5 * MAX_TOTAL, 10 * MAX_ITEMS)


def _bounded(value: Any, levels: int, budget: _Budget, chars: int, items: int) -> Any:
    budget.left -= 8
    if isinstance(value, str):  # first: most of what is recorded
        size = len(value)
        most = size if size <= 200 else max(200, min(chars, budget.left))
        if size <= most:
            budget.left -= size
            return value if value.isascii() else to_json(value)
        budget.left -= most
        return _cut("text", size, to_json(value[:most]))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_SAFE <= value <= _SAFE else {"$int": hex(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, list | tuple):
        if levels == 0 or budget.left <= 0:
            return _cut("list", len(value), []) if value else []
        return _list(value, levels, budget, chars, items)
    if isinstance(value, dict):
        if levels == 0 or budget.left <= 0:
            return _cut("object", len(value), {}) if value else {}
        return _object(value, levels, budget, chars, items)
    return _bounded(to_json(value), levels, budget, chars, items)


def _list(value: Sequence[Any], levels: int, budget: _Budget, chars: int, items: int) -> Any:
    shown = []
    for item in value[:items]:
        if budget.left <= 0:
            break
        shown.append(_bounded(item, levels - 1, budget, chars, items))
    return shown if len(shown) == len(value) else _cut("list", len(value), shown)


def _object(value: dict[Any, Any], levels: int, budget: _Budget, chars: int, items: int) -> Any:
    shown: dict[str, Any] = {}
    for key, item in value.items():
        if budget.left <= 0 or len(shown) == items:
            break
        name = str(key) if not isinstance(key, str) else key if key.isascii() else to_json(key)
        budget.left -= len(name)
        shown[name] = _bounded(item, levels - 1, budget, chars, items)
    return shown if len(shown) == len(value) else _cut("object", len(value), shown)


def _cut(kind: str, size: int, shown: Any) -> Any:
    return {CUT: {"type": kind, "size": size, "shown": shown}}
