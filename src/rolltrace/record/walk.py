"""The slow, careful way to encode a value: for what msgspec refuses, and for values over a limit.

A walk goes down only where it must: a child that msgspec takes as it is becomes raw bytes at once, so
one broken string in a long prompt costs a walk along its own branch. Cycles end in a marker, limits in a `Cut`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Raw
from msgspec.msgpack import Ext

from rolltrace.record.convert import opaque, type_name
from rolltrace.record.values import Cut, Opaque, big_int, odd_text

_DEEPEST = 200
"""Where a walk gives up. Python's own stack ends at 1,000 frames, and the caller has used some of them."""
_MOST_NODES = 200_000
"""Where a walk stops descending, so that a huge graph of objects cannot hold up the rollout."""
_MOST_TRIES = 200
"""After so many refusals by msgspec a walk stops asking: each may have cost a deep recursion."""
_MOST_SEARCHED = 64
_NAMELESS = frozenset({str, int, float, bool, bytes, dict, type(None)})
_SCALARS = (type(None), bool, float, bytes, bytearray)


class Walk:
    """One walk over one value."""

    def __init__(
        self,
        encode: Callable[[Any], bytes],
        convert: Callable[[Any], Any],
        *,
        max_bytes: int,
        max_items: int | None,
        max_depth: int | None,
    ) -> None:
        self._encode = encode
        self._convert = convert
        self._max_bytes = max_bytes
        self._max_items = max_items
        self._max_depth = max_depth if max_depth is not None else _DEEPEST
        self._limited = max_items is not None or max_depth is not None
        self._open: set[int] = set()
        self._nodes = 0
        self._refused = 0
        self.cuts = 0

    def run(self, value: Any) -> bytes:
        """The value as msgpack, of at most about `max_bytes`."""
        return bytes(self._walk(value, self._max_bytes, 0))

    def _walk(self, value: Any, budget: int, depth: int) -> bytes:
        """msgpack of the value. Containers are put together from their children's bytes."""
        kind = type(value)
        if kind is str:
            return self._text(value, budget)
        if kind is int:
            return self._encode(value if -(1 << 63) <= value < 1 << 64 else big_int(value))
        if kind is Raw and len(value) <= budget:
            return bytes(value)
        if kind in _SCALARS or kind is Ext:
            return self._blob(value, budget)
        # The whole has been tried, or must not be, before a walk begins.
        whole = self._try_whole(value, budget) if depth else None
        if whole is not None:
            return whole
        if id(value) in self._open:
            return self._encode(Opaque(type_name(kind), {}, "refers to itself").ext())
        self._nodes += 1
        if depth >= self._max_depth or self._nodes > _MOST_NODES:
            return self._cut("depth", len(value) if hasattr(kind, "__len__") else 0, b"\xc0")
        self._open.add(id(value))
        try:
            return self._descend(value, budget, depth)
        finally:
            self._open.discard(id(value))

    def _try_whole(self, value: Any, budget: int) -> bytes | None:
        if (self._limited and not _plain_numbers(value)) or self._refused >= _MOST_TRIES or has_names(value):
            return None
        try:
            whole = self._encode(value)
        except Exception:
            self._refused += 1
            return None
        return whole if len(whole) <= budget else None

    def _descend(self, value: Any, budget: int, depth: int) -> bytes:
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._map(list(zip(value._fields, value, strict=False)), budget, depth)
        if isinstance(value, dict):
            return self._map(list(value.items()), budget, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return self._list(value, budget, depth)
        if isinstance(value, enum.Enum):
            return self._walk(value.value, budget, depth + 1)
        if dataclasses.is_dataclass(value) or hasattr(type(value), "__attrs_attrs__"):
            names = [each.name for each in getattr(value, "__attrs_attrs__", None) or dataclasses.fields(value)]  # type: ignore[arg-type]
            return self._map([(n, getattr(value, n)) for n in names if hasattr(value, n)], budget, depth)
        converted = self._convert(value)
        if converted is value:
            return self._encode(opaque(value))
        return self._walk(converted, budget, depth)

    def _map(self, pairs: list[tuple[Any, Any]], budget: int, depth: int) -> bytes:
        """Small children first get what they need, then the large ones share what is left."""
        full = len(pairs)
        pairs = pairs[: self._max_items]
        keys = [self._walk(key, budget, depth + 1) for key, _ in pairs]
        left = budget - sum(map(len, keys))
        made: dict[int, bytes] = {}
        waiting: list[int] = []
        for at, (_, child) in enumerate(pairs):
            whole = None if isinstance(child, str) and len(child) > left else self._small(child)
            if whole is not None and len(whole) <= left // (2 * len(pairs)) + 1:
                made[at] = whole
                left -= len(whole)
            else:
                waiting.append(at)
        for place, at in enumerate(waiting):
            made[at] = self._walk(pairs[at][1], max(0, left // (len(waiting) - place)), depth + 1)
            left -= len(made[at])
        body = _map_head(len(pairs)) + b"".join(part for at, key in enumerate(keys) for part in (key, made[at]))
        return body if len(pairs) == full else self._cut("items", full, body)

    def _small(self, child: Any) -> bytes | None:
        return self._encode(child) if type(child) in (type(None), bool, float) else self._try_whole(child, self._max_bytes)

    def _list(self, values: Iterable[Any], budget: int, depth: int) -> bytes:
        parts: list[bytes] = []
        items = list(values)
        left, limit = budget, "items"
        for item in items[: self._max_items]:
            if left <= 0:
                limit = "bytes"
                break
            part = self._walk(item, left, depth + 1)
            parts.append(part)
            left -= len(part)
        body = _list_head(len(parts)) + b"".join(parts)
        return body if len(parts) == len(items) else self._cut(limit, len(items), body)

    def _text(self, value: str, budget: int) -> bytes:
        kept = value if len(value) <= budget else value[: max(0, budget)]
        try:
            body = self._encode(kept)
        except UnicodeEncodeError:
            body = self._encode(odd_text(kept))
        return body if len(kept) == len(value) else self._cut("bytes", len(value), body)

    def _blob(self, value: Any, budget: int) -> bytes:
        if isinstance(value, bytes | bytearray) and len(value) > budget:
            return self._cut("bytes", len(value), self._encode(bytes(value[: max(0, budget)])))
        if isinstance(value, Ext) and len(value.data) > budget:
            return self._cut("bytes", len(value.data), b"\xc0")
        return self._encode(value)

    def _cut(self, limit: str, full_length: int, kept: bytes) -> bytes:
        self.cuts += 1
        return self._encode(Cut(limit, full_length, Raw(kept)).ext())


def has_names(value: Any) -> bool:
    """Whether the value, or one right inside it, is a NamedTuple: msgspec would keep the items, lose the names.

    Only so deep, and only the first item of a list: a full search would cost more than the encoding itself.
    NamedTuples further down are kept as plain lists.
    """
    kind = type(value)
    if kind is dict and len(value) <= _MOST_SEARCHED:
        for item in value.values():
            if type(item) not in _NAMELESS and _named_tuples(item):
                return True
        return False
    return kind not in _NAMELESS and _named_tuples(value)


def _named_tuples(value: Any) -> bool:
    kind = type(value[0]) if type(value) is list and value else type(value)
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _plain_numbers(value: Any) -> bool:
    """Token ids and logprobs are kept whole whatever the limit on items."""
    return type(value) in (list, tuple) and bool(value) and {int, float}.issuperset(map(type, value))


def _map_head(length: int) -> bytes:
    return bytes([0x80 | length]) if length < 16 else b"\xdf" + length.to_bytes(4, "big")


def _list_head(length: int) -> bytes:
    return bytes([0x90 | length]) if length < 16 else b"\xdd" + length.to_bytes(4, "big")
