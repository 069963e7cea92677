"""What can be read of a record that is not as it should be: each field by itself."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

import msgspec

from rolltrace.record.decode import decode_value, skip
from rolltrace.record.events import Event, Record, decode_coordinates
from rolltrace.record.schema import Coordinates

_KINDS: dict[str, Any] = {str(each.__struct_config__.tag): each for each in get_args(Record)}
_MAX_FIELDS = 64
_UNREAD = object()


class Partial(NamedTuple):
    """A record, as far as it can be read."""

    tag: str
    """Which kind it says it is; empty if that cannot be read."""
    fields: dict[str, Any]


def read_partly(body: bytes) -> Partial:
    """The fields of a record that are sound, whatever the others are. Never raises for what is in the bytes.

    A kind of record that is not known here has the first two fields of every record: its trajectory and coordinates.
    """
    items = _items(body)
    tag: Any = _decoded(items[0], str) if items else _UNREAD
    if tag is _UNREAD:
        return Partial("", {})
    declared = msgspec.structs.fields(_KINDS[tag]) if tag in _KINDS else msgspec.structs.fields(Event)[:2]
    values = {each.name: _decoded(raw, each.type) for each, raw in zip(declared, items[1:])}
    return Partial(tag, {name: value for name, value in values.items() if value is not _UNREAD})


def read_deep(body: bytes) -> Record | None:
    """A record that is whole and in which something is deeper than the stack; None if that is not all."""
    tag, fields = read_partly(body)
    kind = _KINDS.get(tag)
    if kind is None or len(fields) < min(len(kind.__struct_fields__), len(_items(body)) - 1):
        return None
    try:
        record: Record = kind(**fields)
    except TypeError:  # fields that have no default are not there
        return None
    return record


def _items(body: bytes) -> list[bytes]:
    """The items of a msgpack array, as far as they are whole."""
    items: list[bytes] = []
    at = {0xDC: 3, 0xDD: 5}.get(body[0], 1) if body else 0
    if not at or (at == 1 and not 0x90 <= body[0] <= 0x9F):
        return items
    try:
        while at < len(body) and len(items) < _MAX_FIELDS:
            end = skip(body, at)
            items.append(body[at:end])
            at = end
    except IndexError:
        pass
    return items


def _decoded(raw: bytes, kind: Any) -> Any:
    if kind is msgspec.Raw:  # not looked into: that may be what is wrong
        return msgspec.Raw(raw)
    try:
        return msgspec.msgpack.decode(raw, type=kind)
    except Exception:  # of msgspec; text that is no UTF-8, nesting that the stack cannot hold
        return _UNREAD


class KnownCoordinates(NamedTuple):
    """Coordinates, as far as they can be read."""

    coordinates: Coordinates
    are_whole: bool


_LIMIT = 1 << 62
"""Steps are subtracted from each other, in 64 bits."""


def read_coordinates(raw: msgspec.Raw) -> KnownCoordinates:
    """The coordinates in these bytes; what is none is left out."""
    try:
        at = decode_coordinates(raw)
        if all(map(_is_coordinate, Coordinates._fields, at)):
            return KnownCoordinates(at, True)
    except Exception:  # as in `_decoded`
        pass
    values = decode_value(raw)
    if not isinstance(values, list):
        return KnownCoordinates(Coordinates(), False)
    coordinates = Coordinates()
    for name, value in zip(Coordinates._fields, values):
        if _is_coordinate(name, value):
            coordinates = coordinates._replace(**{name: value})
    return KnownCoordinates(coordinates, False)


def _is_coordinate(name: str, value: Any) -> bool:
    if name == "validate":
        return isinstance(value, bool)
    if name == "sample_index" and isinstance(value, str):
        return value.isascii() or _is_text(value)
    return value is None or (type(value) is int and -_LIMIT < value < _LIMIT)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
