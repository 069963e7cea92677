"""The slow, careful way to encode a value: for what msgspec refuses, and for values that are large or over a limit.

A walk goes down only where it must: what msgspec takes as it is, in pieces of bounded size, becomes bytes at once, so
one broken string in a long prompt costs a walk along its own branch. Cycles end in a marker, limits in a `Cut`.

The first try gives every value the room it asks for. Only when that is over `max_bytes` does a second one
share the room out, so that nothing is cut from a value that fits. Either may do only so much work: what is left
when that is done is cut.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.msgpack import Ext

from rolltrace._guard import pass_on_signals
from rolltrace.record.bounded import NUMBERS, BoundedEncoder, TooLong, has_long_text
from rolltrace.record.convert import (
    OBJECTS_TOO_DEEP,
    TOO_MANY_OBJECTS,
    Converters,
    TooManyObjects,
    opaque,
    type_name,
)
from rolltrace.record.fields import DEEPEST
from rolltrace.record.values import Cut, Opaque, odd_text

_MAX_WORK = 400_000
"""Where a walk stops, so that no value can hold up the rollout for long. One unit is about a microsecond: a value
looked at, or 128 bytes that were encoded in vain."""
_MAX_REPEATS = 1_000
"""A graph that is no tree has far more paths than nodes: so often may it come back to what it has seen."""
_PIECE_BYTES = 128 << 10
"""What is encoded at once, or refused after as much work."""
_LATER_PIECE_BYTES = (_PIECE_BYTES, _PIECE_BYTES >> 3, _PIECE_BYTES >> 6)
"""The same after refusals: of a tree whose nodes know their parents, no node fits, however large the piece. (Before
Python 3.13 its encoding ends early, because of the stack.)"""
_PIECE_ITEMS = 4096
_FEWEST_ITEMS = 8
_MAX_SHARED = 1024
"""So many fields share out their room; of larger maps the first ones are kept."""
_WRAP = 32
"""Bytes that a `Cut` needs for itself, with the head of what it kept: no value is given less room."""
_MAX_SEARCHED = 64
_NIL = b"\xc0"
_PLAIN = NUMBERS | {str, bytes}
_NAMELESS = _PLAIN | {dict, list, tuple}
"""The types of most values, none of which is a NamedTuple."""
_LEAVES = frozenset(
    {type(None), bool, int, float, bytes, bytearray, memoryview, Raw, Ext, uuid.UUID, decimal.Decimal}
    | {datetime.datetime, datetime.date, datetime.time, datetime.timedelta}
)
"""What msgspec encodes without looking inside; str is one too, with a way of its own."""
_NATIVE = (dict, list, tuple, set, frozenset, Struct, enum.Enum)
_encode_piece = tuple(map(BoundedEncoder, _LATER_PIECE_BYTES))
_encode = msgspec.msgpack.Encoder().encode


class _TooLarge(Exception):
    """The first try does not fit, or takes too long."""


class Walk:
    """One walk over one value."""

    def __init__(
        self, convert: Converters, *, max_bytes: int, max_items: int | None, max_depth: int, limited: bool
    ) -> None:
        self._convert = convert
        self._max_bytes = max_bytes
        self._max_items = max_items
        self._max_depth = max_depth
        self._limited = limited
        """Whether items and depth must be counted: then no container is taken as it is."""
        self._sharing = False
        self._begin()

    def _begin(self) -> None:
        self._open: set[int] = set()
        self._met: set[int] = set()
        self._nodes = 0
        self._work = _MAX_WORK
        self._refusals = 0
        """Which size of pieces is tried: more refusals than successes make it smaller."""
        self._whole: dict[int, bytes | None] = {}
        """What is known of containers that were tried as a whole: their bytes, or that it is no use."""
        self._objects = 0
        """How many objects of unknown types are around the place that the walk is at."""
        self._alive: list[Any] = []
        """Alive until the end, or another object could get the id of one that was met."""
        self.cuts = 0
        self._convert.begin(_MAX_WORK)

    def run(self, value: Any) -> bytes:
        """The value as msgpack, of at most `max_bytes` (or the few bytes that say it was cut)."""
        try:
            if not self._limited:
                self._whole[id(value)] = None  # has been tried before the walk began
            raw = self._walk(value, self._max_bytes, 0)
            if len(raw) <= self._max_bytes:
                return raw
        except _TooLarge:
            pass
        self._sharing = True
        self._begin()
        return self._walk(value, self._max_bytes, 0)

    def _walk(self, value: Any, budget: int, depth: int) -> bytes:
        """msgpack of the value, of at most `budget` or `_WRAP` bytes."""
        kind = type(value)
        self._work -= 1
        if kind is str:
            return self._text(value, budget)
        if kind in _LEAVES:
            return self._leaf(value, budget)
        if id(value) in self._open:
            return self._leaf(Opaque(type_name(kind), {}, "refers to itself").ext(), budget)
        whole = self._try_whole(value, budget)
        if whole is not None:
            return whole
        self._nodes += 1
        self._met.add(id(value))
        if self._nodes - len(self._met) > _MAX_REPEATS or self._is_tired():
            return self._cut("items", _length(value), _NIL)
        if depth >= self._max_depth:
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
        except Exception as error:
            pass_on_signals()
            return self._leaf(opaque(value, f"{type(error).__name__} while it was recorded"), budget)
        finally:
            self._open.discard(id(value))

    def _is_tired(self) -> bool:
        if self._work > 0:
            return False
        if not self._sharing:
            raise _TooLarge
        return True

    def _try_whole(self, value: Any, budget: int) -> bytes | None:
        if not _is_native(type(value)) or (self._limited and not _plain_numbers(value)):
            return None
        try:
            whole = self._whole[id(value)]
        except KeyError:
            whole = self._whole[id(value)] = self._try(value)
            self._alive.append(value)
        return whole if whole is not None and len(whole) <= budget else None

    def _try(self, value: Any) -> bytes | None:
        """The value as it is, in one piece; None if msgspec refuses it or it is too large."""
        if self._is_tired() or has_names(value) or has_long_text(value, _PIECE_BYTES):
            return None
        try:
            # No Python code runs in it, so nobody can change the value meanwhile.
            piece = _encode_piece[self._refusals](value)
        except TooLong:
            self._work -= _LATER_PIECE_BYTES[self._refusals] >> 7
            self._refusals = min(self._refusals + 1, len(_encode_piece) - 1)
            return None
        except (TypeError, UnicodeEncodeError):  # an object inside needs converting, or a text
            self._work -= 10
            return None
        except Exception:  # of many kinds, perhaps after a deep recursion
            pass_on_signals()
            self._work -= 100
            return None
        self._work -= len(piece) >> 9
        self._refusals = max(0, self._refusals - 1)
        return piece

    def _descend(self, value: Any, budget: int, depth: int) -> bytes:
        # By type, as msgspec does: what `isinstance`, `items` or `__iter__` say is up to the value.
        kind: Any = type(value)
        if issubclass(kind, enum.Enum):
            return self._walk(value._value_, budget, depth + 1)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._map(zip(kind._fields, tuple.__iter__(value)), budget, depth, len(kind._fields))
        if issubclass(kind, dict):
            return self._map(dict.items(value), budget, depth, dict.__len__(value))
        for base in (list, tuple, set, frozenset):
            if issubclass(kind, base):
                return self._list(base.__iter__(value), budget, depth, base.__len__(value))
        if hasattr(kind, "__dataclass_fields__"):
            return self._fields(value, [each.name for each in dataclasses.fields(kind)], budget, depth)
        if hasattr(kind, "__attrs_attrs__"):
            names = [each.name for each in kind.__attrs_attrs__ if not each.name.startswith("_")]
            return self._fields(value, names, budget, depth)
        if issubclass(kind, Struct):
            return self._fields(value, kind.__struct_fields__, budget, depth)
        self._work -= 10
        try:
            fields = self._convert.fields_of(value)
        except TooManyObjects:
            return self._leaf(opaque(value, TOO_MANY_OBJECTS), budget)
        if fields is not None:
            return self._object(value, fields, budget, depth)
        converted = self._convert(value)
        self._alive.append(converted)
        return self._walk(converted, budget, depth)

    def _object(self, value: Any, fields: dict[str, Any], budget: int, depth: int) -> bytes:
        if self._objects == DEEPEST:
            return self._leaf(opaque(value, OBJECTS_TOO_DEEP), budget)
        self._objects += 1
        try:
            # An object that an argument happens to refer to is not to fill the journal.
            return self._map(fields.items(), min(budget, self._max_bytes // 16), depth, len(fields))
        finally:
            self._objects -= 1

    def _fields(self, value: Any, names: Iterable[str], budget: int, depth: int) -> bytes:
        pairs = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
        return self._map(pairs, budget, depth, len(pairs))

    def _list(self, items: Iterable[Any], budget: int, depth: int, length: int) -> bytes:
        allowed = length if self._max_items is None else min(length, self._max_items)
        parts, count = self._in_turn(
            islice(items, allowed), budget - (_WRAP if self._sharing else 1), depth, of=allowed
        )
        parts.insert(0, _list_head(count))
        if count == length:
            return b"".join(parts)
        return self._cut("items" if count == allowed else "bytes", length, *parts)

    def _map(self, pairs: Iterable[tuple[Any, Any]], budget: int, depth: int, length: int) -> bytes:
        allowed = length if self._max_items is None else min(length, self._max_items)
        chosen = ((_plain_key(key), item) for key, item in islice(pairs, allowed))
        if self._sharing and allowed <= _MAX_SHARED:
            parts = self._shared_out(list(chosen), budget - _WRAP, depth)
            count = len(parts) // 2
        else:
            parts, count = self._in_turn(
                chosen, budget - (_WRAP if self._sharing else 1), depth, of=allowed, pairs=True
            )
        parts.insert(0, _map_head(count))
        if count == length:
            return b"".join(parts)
        return self._cut("items" if count == allowed else "bytes", length, *parts)

    def _in_turn(
        self, items: Iterable[Any], left: int, depth: int, *, of: int, pairs: bool = False
    ) -> tuple[list[bytes], int]:
        """Each item, or pair of key and item, in as much room as those before it have left; and how many there are.

        Many are taken at once. Where that is refused, the halves are tried, down to the item that causes it.
        """
        if of > left and not self._sharing:  # each takes a byte at least
            raise _TooLarge
        parts: list[bytes] = []
        count = 0
        items = iter(items)
        while some := list(islice(items, _PIECE_ITEMS)):
            self._work -= len(some) >> (1 if pairs else 4)
            todo = [(0, len(some))]
            while todo:
                start, end = todo.pop()
                if end - start >= _FEWEST_ITEMS and not self._limited:
                    piece = self._try_many(some[start:end], pairs)
                    if piece is None or len(piece) > left:
                        middle = (start + end) // 2
                        todo += ((middle, end), (start, middle))
                    else:
                        parts.append(piece)
                        count += end - start
                        left -= len(piece)
                    continue
                for item in some[start:end]:
                    if self._is_tired() or self._is_full(left):
                        return parts, count
                    for each in item if pairs else (item,):
                        part = self._walk(each, left, depth + 1)
                        parts.append(part)
                        left -= len(part)
                    count += 1
        return parts, count

    def _is_full(self, left: int) -> bool:
        if left >= (_WRAP if self._sharing else 1):
            return False
        if not self._sharing:
            raise _TooLarge
        return True

    def _try_many(self, items: list[Any], pairs: bool) -> bytes | None:
        """Items, or pairs of key and item, without the head that msgspec puts before them; None if it refuses."""
        if pairs:
            if not _PLAIN.issuperset(type(key) for key, _ in items):
                return None
            piece = self._try(dict(items))
        else:
            piece = self._try(items)
        return None if piece is None else piece[1 if len(items) < 16 else 3 :]

    def _shared_out(self, pairs: list[tuple[Any, Any]], left: int, depth: int) -> list[bytes]:
        """Keys and items in turn. Small items get what they need, then the large ones share what is left."""
        parts: list[bytes] = []
        waiting: list[int] = []
        small = left // (2 * len(pairs) or 1)
        for key, item in pairs:
            name = self._walk(key, left, depth + 1)
            whole = self._small(item, small)
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

    def _small(self, value: Any, room: int) -> bytes | None:
        """The value, uncut, if it takes no more than this."""
        kind = type(value)
        if kind is str:
            body = self._utf8(value) if len(value) <= room else None
        elif kind in _LEAVES:
            body = None if _leaf_bytes(value) > room else self._encode_leaf(value)
        else:
            return self._try_whole(value, room)
        return body if body is not None and len(body) <= room else None

    def _text(self, value: str, budget: int) -> bytes:
        if len(value) <= max(budget, _WRAP):
            body = self._utf8(value)
            if self._fits(body, budget):
                return body
        if not self._sharing:
            raise _TooLarge
        raw = value[: max(0, budget)].encode("utf-8", "surrogatepass")
        end = max(0, budget - _WRAP)
        while 0 < end < len(raw) and raw[end] & 0xC0 == 0x80:  # not inside a character
            end -= 1
        return self._cut("bytes", len(value), self._utf8(raw[:end].decode("utf-8", "surrogatepass")))

    def _utf8(self, value: str) -> bytes:
        try:
            return _encode(value)
        except UnicodeEncodeError:
            return _encode(odd_text(value))

    def _leaf(self, value: Any, budget: int) -> bytes:
        size = _leaf_bytes(value)
        if size <= max(budget, _WRAP):
            body = self._encode_leaf(value)
            if self._fits(body, budget):
                return body
            size = max(size, len(body))
        if type(value) in (bytes, bytearray):
            return self._cut("bytes", len(value), _encode(bytes(value[: max(0, budget - _WRAP)])))
        return self._cut("bytes", size, _NIL)

    def _encode_leaf(self, value: Any) -> bytes:
        try:
            return _encode(value)
        except Exception:  # an int over 64 bits, a time zone that leads out of the calendar
            pass_on_signals()
            return _encode(self._convert(value))

    def _fits(self, body: bytes, budget: int) -> bool:
        return len(body) <= budget or (self._sharing and len(body) <= _WRAP)

    def _cut(self, limit: str, full_length: int, *kept: bytes) -> bytes:
        """A `Cut`, from the parts of what was kept: put together once, for it may be large."""
        if limit == "bytes" and not self._sharing:
            raise _TooLarge
        self.cuts += 1
        head = _encode([limit, full_length, None])[:-1]
        size = len(head) + sum(map(len, kept))
        return b"".join((b"\xc9", size.to_bytes(4, "big"), bytes((Cut.code,)), head, *kept))


def has_names(value: Any) -> bool:
    """Whether the value, or one right inside it, is a NamedTuple: msgspec would keep items, lose the names.

    Only so deep, and only the first item of a list: a full search would cost more than the encoding itself.
    NamedTuples further down are kept as plain lists.
    """
    for item in value.values() if type(value) is dict and len(value) <= _MAX_SEARCHED else (value,):
        kind = type(item)
        if kind is list and item:
            kind = type(item[0])
        if kind not in _NAMELESS and issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return True
    return False


def _plain_numbers(value: Any) -> bool:
    """Token ids, logprobs and masks are kept whole whatever the limit on items."""
    return type(value) in (list, tuple) and bool(value) and NUMBERS.issuperset(map(type, value))


def _plain_key(key: Any) -> Any:
    """A NamedTuple as a key stays a tuple, so that it can be a key again."""
    return tuple(key) if issubclass(type(key), tuple) else key


def _length(value: Any) -> int:
    return len(value) if type(value) in (list, tuple, dict, set, frozenset) else 0


def _is_native(kind: Any) -> bool:
    """Whether msgspec encodes objects of this type by itself."""
    return issubclass(kind, _NATIVE) or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__attrs_attrs__")


def _leaf_bytes(value: Any) -> int:
    """What a leaf takes at least, as far as that may be much."""
    kind = type(value)
    if kind is int:
        return value.bit_length() // 4 if value.bit_length() > 64 else 0
    if kind is bytes or kind is bytearray:
        return len(value)
    return value.nbytes if kind is memoryview else 0


def _map_head(length: int) -> bytes:
    return bytes([0x80 | length]) if length < 16 else b"\xdf" + length.to_bytes(4, "big")


def _list_head(length: int) -> bytes:
    return bytes([0x90 | length]) if length < 16 else b"\xdd" + length.to_bytes(4, "big")
