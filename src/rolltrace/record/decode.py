"""Reads recorded payloads back, whatever is in them.

The fast path is one call of msgspec. What it refuses (keys that cannot be hashed, a marker that is none of ours) and
what is nested too deeply is read again by `_read`, slowly, one item after the other and without recursion. Either way
no more than `MAX_DEPTH` containers stand inside each other, a marker counting for two: whoever walks over a decoded
value may do so by recursion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import msgspec

from rolltrace.record.schema import MAX_DEPTH
from rolltrace.record.values import MARKERS, PLAIN, Cut, Marker, Opaque, is_sound, key_text

_HEADS = bytes([*range(0x80, 0xA0), *range(0xC7, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0)])
"""How a list, a map or an extension begins."""
_NO_HEADS = bytes(set(range(256)).difference(_HEADS))
_HOLDERS = frozenset({dict, list, tuple, Cut, Opaque})
"""The types of decoded values that hold others."""


def decode_value(raw: bytes | msgspec.Raw) -> Any:
    """A recorded payload as Python values; markers come back as instances of `Marker`.

    Keys that Python cannot hash (a dataclass was one) come back as text. Bytes that are no payload at all
    come back as an `Opaque`: one broken value must not hide the rest of its record.
    """
    body = bytes(raw)
    try:
        value = _decoder.decode(body)
        if not _may_be_deep(body) or not _is_deep(value):
            return value
    except Exception:  # of msgspec, or from inside a marker
        pass
    try:
        return _read(body)
    except (IndexError, ValueError):
        return _unreadable(len(body))


def _unreadable(size: int) -> Opaque:
    return Opaque("unknown", {"bytes": size}, "cannot be read")


def _may_be_deep(raw: bytes) -> bool:
    """Quickly told: whether there are bytes enough in it that may begin a container."""
    return len(raw) > MAX_DEPTH and len(raw.translate(None, _NO_HEADS)) > MAX_DEPTH // 2


def _is_deep(value: Any) -> bool:
    level = [value] if type(value) in _HOLDERS else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        inside = [items for each in level if not _HOLDERS.isdisjoint(map(type, items := _inside(each)))]
        level = [item for items in inside for item in items if type(item) in _HOLDERS]
    return bool(level)


def _inside(value: Any) -> Any:
    if type(value) is dict:
        return (*value, *value.values())
    if type(value) is Cut:
        return ([value.kept],)
    return (value.fields,) if type(value) is Opaque else value


def _open_ext(code: int, data: memoryview) -> Any:
    if code in PLAIN:
        return PLAIN[code](bytes(data))
    if code in MARKERS:
        return _marker(code, _decoder.decode(data))
    return Opaque("unknown", {"code": code, "bytes": data.nbytes}, "written by a newer rolltrace")


_decoder = msgspec.msgpack.Decoder(ext_hook=_open_ext)


def _marker(code: int, values: Any) -> Marker:
    """The marker with these fields.

    Raises:
        TypeError: they are none of its own; somebody else's extension has our code.
    """
    kind = MARKERS[code]
    declared = fields(kind)
    if type(values) is not list:
        raise TypeError(f"{kind.__name__} is no list of fields")
    own = values[: len(declared)]  # a newer rolltrace may have added some
    marker = kind(
        *(
            tuple(item) if each.name in ("shape", "size") and type(item) is list else item
            for each, item in zip(declared, own)
        )
    )
    if not is_sound(marker):
        raise TypeError(f"fields that no {kind.__name__} has")
    return marker


class _Open(NamedTuple):
    """A container whose items are still being read."""

    wanted: int
    items: list[Any]
    close: Callable[[list[Any]], Any]


class _Head(NamedTuple):
    """How an item begins."""

    after: int
    """Where to read on: inside a container, behind anything else."""
    length: int = 0
    """How many items follow inside."""
    close: Callable[[list[Any]], Any] | None = None
    """What a container becomes of its items; None for anything else."""
    levels: int = 1


def _read(raw: bytes) -> Any:
    at = 0
    stack: list[_Open] = []
    while True:
        start = at
        head = _head(raw, at)
        head = _marker_head(raw, at, head.after) or head
        at = head.after
        value: Any
        if head.close is None:
            value = _leaf(raw[start:at])
        elif not head.length:
            value = head.close([])
        elif len(stack) + head.levels > MAX_DEPTH:
            at = skip(raw, start)
            value = Cut("depth", head.length // 2 if head.close is _mapping else head.length, None)
        else:
            stack.append(_Open(head.length, [], head.close))
            continue
        while stack:
            top = stack[-1]
            top.items.append(value)
            if len(top.items) < top.wanted:
                break
            stack.pop()
            value = top.close(top.items)
        else:
            if at != len(raw):
                raise ValueError("bytes after the end")
            return value


def skip(raw: bytes, at: int) -> int:
    """Where the item that begins here ends. Takes no memory, however deep the item is.

    Raises:
        IndexError: the bytes end before it does.
    """
    left = 1
    while left:
        head = _head(raw, at)
        at = head.after
        left += head.length - 1
    if at > len(raw):
        raise IndexError("the bytes end inside an item")
    return at


def _head(raw: bytes, at: int) -> _Head:
    first = raw[at]
    if first in _LENGTH_BYTES:
        width = _LENGTH_BYTES[first]
        length = int.from_bytes(raw[at + 1 : at + 1 + width], "big")
        after = at + 1 + width
        if first in (0xDC, 0xDD):
            return _Head(after, length, list)
        if first in (0xDE, 0xDF):
            return _Head(after, 2 * length, _mapping)
        if first in (0xC7, 0xC8, 0xC9):
            return _Head(after + 1 + length)
        return _Head(after + length)
    if 0x80 <= first <= 0x8F:
        return _Head(at + 1, 2 * (first & 0x0F), _mapping)
    if 0x90 <= first <= 0x9F:
        return _Head(at + 1, first & 0x0F, list)
    if 0xD4 <= first <= 0xD8:
        return _Head(at + 2 + (1 << (first - 0xD4)))
    return _Head(at + 1 + (first & 0x1F if 0xA0 <= first <= 0xBF else _FIXED_BYTES.get(first, 0)))


def _marker_head(raw: bytes, at: int, end: int) -> _Head | None:
    """A marker is opened as a container of one: what is inside it may be as deep as anything else. None for all else.

    Somebody else's extension may have our code; reading on inside that would lose the place.
    """
    start = at + 1 + (_LENGTH_BYTES[raw[at]] if raw[at] in (0xC7, 0xC8, 0xC9) else 0)
    if not (0xC7 <= raw[at] <= 0xC9 or 0xD4 <= raw[at] <= 0xD8) or end > len(raw) or raw[start] not in MARKERS:
        return None
    code, inside = raw[start], start + 1
    try:
        is_list = skip(raw[:end], inside) == end and _head(raw, inside).close is list
    except IndexError:
        is_list = False
    return _Head(inside, 1, lambda items: _closed_marker(code, items[0], end - inside), levels=2) if is_list else None


def _closed_marker(code: int, values: Any, size: int) -> Any:
    try:
        return _marker(code, values)
    except TypeError:
        return _unreadable(size)


def _leaf(raw: bytes) -> Any:
    try:
        return _decoder.decode(raw)
    except RecursionError:
        raise
    except Exception:  # an extension of the user's own, under a code that means something else to us
        return _unreadable(len(raw))


def _mapping(items: list[Any]) -> dict[Any, Any]:
    mapping: dict[Any, Any] = {}
    for key, item in zip(items[::2], items[1::2]):
        name = _as_key(key)
        # Two objects of one type look the same once recorded; neither may replace the other.
        mapping[name if name not in mapping else f"{key_text(key)} #{len(mapping)}"] = item
    return mapping


def _as_key(key: Any) -> Any:
    try:
        key = _tuples(key)
        hash(key)
    except (TypeError, RecursionError):
        return key_text(key)
    return key


def _tuples(key: Any) -> Any:
    return tuple(map(_tuples, key)) if type(key) is list else key


_LENGTH_BYTES = {
    0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4,
    0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4,
}  # fmt: skip
"""Heads that a length follows, and how wide it is."""
_FIXED_BYTES = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
"""Heads of numbers, and how many bytes follow."""
