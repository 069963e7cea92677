"""The slow, careful way to encode a value: for what msgspec refuses, and for values over a limit.

A walk goes down only where it must: a child that msgspec takes as it is becomes bytes at once, so one broken
string in a long prompt costs a walk along its own branch. Cycles end in a marker, limits in a `Cut`.

The first try gives every value the room it asks for. Only when that is over `max_bytes` does a second one
share the room out, so that nothing is cut from a value that fits.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Raw, Struct
from msgspec.msgpack import Ext

from rolltrace._guard import pass_on_signals
from rolltrace.record.convert import opaque, type_name
from rolltrace.record.values import Cut, Opaque, odd_text

_DEEPEST = 200
"""Where a walk gives up. Python's own stack ends at 1,000 frames, and the caller has used some of them."""
_MOST_NODES = 200_000
_MOST_REPEATS = 1_000
"""Where a walk stops descending, so that a huge graph of objects cannot hold up the rollout: a graph that
is no tree has far more paths than nodes, so objects met again count for more than new ones."""
_MOST_TRIES = 200
"""After so many refusals by msgspec a walk stops asking: each may have cost a deep recursion."""
_WRAP = 32
"""Bytes that a `Cut` needs for itself, with the head of what it kept: no value is given less room."""
_MOST_SEARCHED = 64
_NIL = b"\xc0"
NAMELESS = frozenset({str, int, float, bool, bytes, type(None)})
"""The types of most values, none of which is or holds a NamedTuple."""
_NUMBERS = frozenset({int, float, bool, type(None)})
_LEAVES = frozenset(
    {type(None), bool, int, float, bytes, bytearray, memoryview, Raw, Ext, uuid.UUID, decimal.Decimal}
    | {datetime.datetime, datetime.date, datetime.time, datetime.timedelta}
)
"""What msgspec encodes without looking inside; str is one too, with a way of its own."""


class _TooLarge(Exception):
    """The first try does not fit."""


class Walk:
    """One walk over one value."""

    def __init__(
        self,
        encode_plain: Callable[[Any], bytes],
        encode: Callable[[Any], bytes],
        convert: Callable[[Any], Any],
        *,
        max_bytes: int,
        max_items: int | None,
        max_depth: int | None,
    ) -> None:
        self._encode_plain = encode_plain
        self._encode = encode
        self._convert = convert
        self._max_bytes = max_bytes
        self._max_items = max_items
        self._max_depth = max_depth if max_depth is not None else _DEEPEST
        self._limited = max_items is not None or max_depth is not None
        self._sharing = False
        self._open: set[int] = set()
        self._met: set[int] = set()
        self._converted: list[Any] = []
        """Alive until the end, or another object could get the id of one that was met."""
        self._nodes = 0
        self._refused = 0
        self.cuts = 0

    def run(self, value: Any) -> bytes:
        """The value as msgpack, of at most `max_bytes` (or the few bytes that say it was cut)."""
        try:
            raw = self._walk(value, self._max_bytes, 0)
            if len(raw) <= self._max_bytes:
                return raw
        except _TooLarge:
            pass
        self._sharing = True
        self._nodes = self.cuts = 0
        self._met.clear()
        return self._walk(value, self._max_bytes, 0)

    def _walk(self, value: Any, budget: int, depth: int) -> bytes:
        """msgpack of the value, of at most `budget` or `_WRAP` bytes."""
        kind = type(value)
        if kind is str:
            return self._text(value, budget)
        if kind in _LEAVES:
            return self._leaf(value, budget)
        if id(value) in self._open:
            return self._leaf(Opaque(type_name(kind), {}, "refers to itself").ext(), budget)
        # Without limits the whole has been tried before the walk began.
        whole = self._try_whole(value, budget) if depth or self._limited else None
        if whole is not None:
            return whole
        self._nodes += 1
        self._met.add(id(value))
        if depth >= self._max_depth or self._too_many():
            return self._cut("depth", _length(value), _NIL)
        if self._sharing and budget < 2 * _WRAP:
            return self._cut("bytes", _length(value), _NIL)
        self._open.add(id(value))
        try:
            return self._descend(value, budget, depth)
        except _TooLarge:
            raise
        except RecursionError:  # raised again here if the stack is still too full, and marked further up
            return self._cut("depth", _length(value), _NIL)
        except Exception as fault:
            pass_on_signals()
            return self._leaf(opaque(value, f"{type(fault).__name__} while it was recorded"), budget)
        finally:
            self._open.discard(id(value))

    def _too_many(self) -> bool:
        return self._nodes > _MOST_NODES or self._nodes - len(self._met) > _MOST_REPEATS

    def _try_whole(self, value: Any, budget: int) -> bytes | None:
        if self._refused >= _MOST_TRIES or has_names(value):
            return None
        if self._limited and not (type(value) is str or type(value) in _LEAVES or _plain_numbers(value)):
            return None
        try:
            whole = self._encode_plain(value)  # no Python code runs in it, so nobody can change the value meanwhile
        except TypeError:
            return None  # an object inside needs converting: not a costly refusal
        except Exception:
            pass_on_signals()
            self._refused += 1
            return None
        return whole if len(whole) <= budget else None

    def _descend(self, value: Any, budget: int, depth: int) -> bytes:
        # By type, as msgspec does: what `isinstance`, `items` or `__iter__` say is up to the value.
        kind: Any = type(value)
        if issubclass(kind, enum.Enum):
            return self._walk(value._value_, budget, depth + 1)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._map(list(zip(kind._fields, tuple.__iter__(value))), budget, depth)
        if issubclass(kind, dict):
            return self._map(list(dict.items(value)), budget, depth)
        for base in (list, tuple, set, frozenset):
            if issubclass(kind, base):
                return self._list(list(base.__iter__(value)), budget, depth)
        if hasattr(kind, "__dataclass_fields__"):
            return self._fields(value, [each.name for each in dataclasses.fields(kind)], budget, depth)
        if hasattr(kind, "__attrs_attrs__"):
            names = [each.name for each in kind.__attrs_attrs__ if not each.name.startswith("_")]
            return self._fields(value, names, budget, depth)
        if issubclass(kind, Struct):
            return self._fields(value, kind.__struct_fields__, budget, depth)
        converted = self._convert(value)
        self._converted.append(converted)
        return self._walk(converted, budget, depth)

    def _fields(self, value: Any, names: Iterable[str], budget: int, depth: int) -> bytes:
        return self._map([(name, getattr(value, name)) for name in names if hasattr(value, name)], budget, depth)

    def _list(self, items: list[Any], budget: int, depth: int) -> bytes:
        allowed = items[: self._max_items]
        parts = self._in_turn(allowed, budget - (_WRAP if self._sharing else 1), depth)
        body = _list_head(len(parts)) + b"".join(parts)
        if len(parts) == len(items):
            return body
        return self._cut("items" if len(parts) == len(allowed) else "bytes", len(items), body)

    def _map(self, pairs: list[tuple[Any, Any]], budget: int, depth: int) -> bytes:
        allowed = [(_plain_key(key), item) for key, item in pairs[: self._max_items]]
        if self._sharing:
            parts = self._shared_out(allowed, budget - _WRAP, depth)
        else:
            parts = self._in_turn([each for pair in allowed for each in pair], budget - 1, depth)
        count = len(parts) // 2
        body = _map_head(count) + b"".join(parts)
        if count == len(pairs):
            return body
        return self._cut("items" if count == len(allowed) else "bytes", len(pairs), body)

    def _in_turn(self, items: list[Any], left: int, depth: int) -> list[bytes]:
        """Each item in as much room as the ones before it have left."""
        parts: list[bytes] = []
        for item in items:
            if left < (_WRAP if self._sharing else 1):
                if self._sharing:
                    break
                raise _TooLarge
            part = self._walk(item, left, depth + 1)
            parts.append(part)
            left -= len(part)
        return parts

    def _shared_out(self, pairs: list[tuple[Any, Any]], left: int, depth: int) -> list[bytes]:
        """Keys and items in turn. Small items get what they need, then the large ones share what is left."""
        parts: list[bytes] = []
        waiting: list[int] = []
        small = left // (2 * len(pairs) or 1)
        for key, item in pairs:
            name = self._walk(key, left, depth + 1)
            whole = self._try_whole(item, small)
            need = len(name) + (_WRAP if whole is None else len(whole))
            if need > left:
                break
            left -= need
            if whole is None:
                waiting.append(len(parts) + 1)
            parts += (name, whole or b"")
        for place, at in enumerate(waiting):
            room = _WRAP + left // (len(waiting) - place)
            parts[at] = self._walk(pairs[at // 2][1], room, depth + 1)
            left -= len(parts[at]) - _WRAP
        return parts

    def _text(self, value: str, budget: int) -> bytes:
        if len(value) <= max(budget, _WRAP):
            body = self._utf8(value)
            if self._fits(body, budget):
                return body
        raw = value[: max(0, budget)].encode("utf-8", "surrogatepass")
        end = max(0, budget - _WRAP)
        while 0 < end < len(raw) and raw[end] & 0xC0 == 0x80:  # not inside a character
            end -= 1
        return self._cut("bytes", len(value), self._utf8(raw[:end].decode("utf-8", "surrogatepass")))

    def _utf8(self, value: str) -> bytes:
        try:
            return self._encode(value)
        except UnicodeEncodeError:
            return self._encode(odd_text(value))

    def _leaf(self, value: Any, budget: int) -> bytes:
        try:
            body = self._encode(value)
        except Exception:  # an int over 64 bits, a time zone that leads out of the calendar
            pass_on_signals()
            body = self._encode(self._convert(value))
        if self._fits(body, budget):
            return body
        if type(value) in (bytes, bytearray):
            return self._cut("bytes", len(value), self._encode(bytes(value[: max(0, budget - _WRAP)])))
        return self._cut("bytes", len(body), _NIL)

    def _fits(self, body: bytes, budget: int) -> bool:
        return len(body) <= budget or (self._sharing and len(body) <= _WRAP)

    def _cut(self, limit: str, full_length: int, kept: bytes) -> bytes:
        if limit == "bytes" and not self._sharing:
            raise _TooLarge
        self.cuts += 1
        return self._encode(Cut(limit, full_length, Raw(kept)).ext())


def has_names(value: Any) -> bool:
    """Whether the value, or one right inside it, is a NamedTuple: msgspec would keep items, lose the names.

    Only so deep, and only the first item of a list: a full search would cost more than the encoding itself.
    NamedTuples further down are kept as plain lists.
    """
    kind = type(value)
    if kind is dict and len(value) <= _MOST_SEARCHED:
        for item in value.values():  # noqa: SIM110 (a generator would cost more than the loop)
            if type(item) not in NAMELESS and _named_tuples(item):
                return True
        return False
    return _named_tuples(value)


def _named_tuples(value: Any) -> bool:
    kind = type(value[0]) if type(value) is list and value else type(value)
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _plain_numbers(value: Any) -> bool:
    """Token ids, logprobs and masks are kept whole whatever the limit on items."""
    return type(value) in (list, tuple) and bool(value) and _NUMBERS.issuperset(map(type, value))


def _plain_key(key: Any) -> Any:
    """A NamedTuple as a key stays a tuple, so that it can be a key again."""
    return tuple(key) if issubclass(type(key), tuple) else key


def _length(value: Any) -> int:
    return len(value) if type(value) in (list, tuple, dict, set, frozenset) else 0


def _map_head(length: int) -> bytes:
    return bytes([0x80 | length]) if length < 16 else b"\xdf" + length.to_bytes(4, "big")


def _list_head(length: int) -> bytes:
    return bytes([0x90 | length]) if length < 16 else b"\xdd" + length.to_bytes(4, "big")
