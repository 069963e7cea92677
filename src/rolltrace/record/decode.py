"""Reads recorded payloads back.

The fast path is one call of msgspec. What it refuses (keys that cannot be hashed, nesting deeper than the
stack) is read again by `_read`, slowly, one item after the other and without recursion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import msgspec

from rolltrace.record.values import MARKERS, PLAIN, Opaque, key_text


def decode_value(raw: bytes | msgspec.Raw) -> Any:
    """A recorded payload as Python values; markers come back as instances of `Marker`.

    Keys that Python cannot hash (a dataclass was one) come back as text. Bytes that are no payload at all
    come back as an `Opaque`: one broken value must not hide the rest of its record.
    """
    try:
        return _decoder.decode(raw)
    except Exception:  # of msgspec, or from inside a marker
        try:
            return _read(bytes(raw))
        except (IndexError, ValueError):
            return _unreadable(len(bytes(raw)))


def _unreadable(size: int) -> Opaque:
    return Opaque("unknown", {"bytes": size}, "cannot be read")


def _open_ext(code: int, data: memoryview) -> Any:
    if code in PLAIN:
        return PLAIN[code](bytes(data))
    if code in MARKERS:
        return _marker(code, decode_value(bytes(data)))
    return Opaque("unknown", {"code": code, "bytes": len(data)}, "written by a newer rolltrace")


_decoder = msgspec.msgpack.Decoder(ext_hook=_open_ext)


def _marker(code: int, values: list[Any]) -> Any:
    kind = MARKERS[code]
    known = fields(kind)
    found = values[: len(known)]  # a newer rolltrace may have added some
    return kind(*(tuple(item) if each.name in ("shape", "size") else item for each, item in zip(known, found)))


class _Open(NamedTuple):
    """A container whose items are still being read."""

    wanted: int
    items: list[Any]
    close: Callable[[list[Any]], Any]


def _read(raw: bytes) -> Any:
    at = 0
    stack: list[_Open] = []
    while True:
        start = at
        at, count, close = _head(raw, at)
        if close is not None and count:
            stack.append(_Open(count, [], close))
            continue
        value = close([]) if close is not None else _leaf(raw[start:at])
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


def _head(raw: bytes, at: int) -> tuple[int, int, Callable[[list[Any]], Any] | None]:
    """Where to read on, and for a container how many items follow and what they will be."""
    head = raw[at]
    if head in _LENGTH_BYTES:
        width = _LENGTH_BYTES[head]
        length = int.from_bytes(raw[at + 1 : at + 1 + width], "big")
        after = at + 1 + width
        if head in (0xDC, 0xDD):
            return after, length, list
        if head in (0xDE, 0xDF):
            return after, 2 * length, _mapping
        if head in (0xC7, 0xC8, 0xC9):
            return _ext_head(raw, after, length)
        return after + length, 0, None
    if 0x80 <= head <= 0x8F:
        return at + 1, 2 * (head & 0x0F), _mapping
    if 0x90 <= head <= 0x9F:
        return at + 1, head & 0x0F, list
    if 0xD4 <= head <= 0xD8:
        return _ext_head(raw, at + 1, 1 << (head - 0xD4))
    return at + 1 + (head & 0x1F if 0xA0 <= head <= 0xBF else _FIXED_BYTES.get(head, 0)), 0, None


def _ext_head(raw: bytes, at: int, length: int) -> tuple[int, int, Callable[[list[Any]], Any] | None]:
    """A marker is opened as a container of one: what is inside it may be as deep as anything else."""
    code = raw[at]
    if code not in MARKERS:
        return at + 1 + length, 0, None
    return at + 1, 1, lambda items: _closed_marker(code, items[0], length)


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
    made: dict[Any, Any] = {}
    for key, item in zip(items[::2], items[1::2]):
        name = _as_key(key)
        # Two objects of one type look the same once recorded; neither may replace the other.
        made[name if name not in made else f"{key_text(key)} #{len(made)}"] = item
    return made


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
