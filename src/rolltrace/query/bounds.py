"""Recorded values, bounded: as JSON that any browser can take, with stubs where something was cut.

    {"$cut": {"type": "text", "size": 81234, "shown": "the first characters"}}
    {"$cut": {"type": "list", "size": 30000, "shown": [1, 2, ...]}}
    {"$cut": {"type": "object", "size": 900, "shown": {...}}}

`size` is in characters, items or keys. `branch_of` reads on where a stub stands. What JSON or JavaScript cannot hold is
written as in the store: `{"$float": "nan"}`, `{"$int": "0x..."}` for what has more than 53 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rolltrace.errors import NotFoundError
from rolltrace.record import to_json

MOST_CHARS = 4_000
MOST_ITEMS = 100
MOST_LEVELS = 12
MOST_TOTAL = 50_000
"""About how many characters a bounded value has at most."""
_SAFE = 1 << 53
CUT = "$cut"


class _Budget:
    def __init__(self, chars: int) -> None:
        self.left = chars


def bounded(value: Any, *, total: int = MOST_TOTAL) -> Any:
    """The value as JSON, with stubs where it is too long, too deep or too much."""
    return _bounded(value, MOST_LEVELS, _Budget(total), MOST_CHARS, MOST_ITEMS)


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
    return _bounded(at, MOST_LEVELS, _Budget(10 * MOST_TOTAL), 5 * MOST_TOTAL, 10 * MOST_ITEMS)


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
