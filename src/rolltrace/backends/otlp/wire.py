"""The bytes of OTLP 1.x trace requests: the few protobuf messages of it that we write and the one that we read.

By hand, because they are few and frozen, and protobuf's runtime is what training environments disagree about most.
tests/integrations/otlp decodes all of it with the official classes. Field numbers are those of opentelemetry-proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]

INTERNAL, CLIENT = 1, 3
"""Kinds of spans."""
UNSET, OK, ERROR = 0, 1, 2
"""Codes of a status."""
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_MASK = (1 << 64) - 1


class Event(NamedTuple):
    """Something that happened at one moment of a span."""

    time_ns: int
    name: str
    attributes: Attributes


class Link(NamedTuple):
    """A span of another trace that this one belongs to."""

    trace_id: bytes
    span_id: bytes


class Span(NamedTuple):
    """One span, with what the protocol knows of it."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    """Empty for a root."""
    name: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: Attributes
    events: Sequence[Event] = ()
    links: Sequence[Link] = ()
    status: int = UNSET
    message: str = ""


def span_bytes(span: Span) -> bytes:
    """A span as a field of `scope_spans_bytes`."""
    parts = [
        _bytes(1, span.trace_id),
        _bytes(2, span.span_id),
        _bytes(4, span.parent_id) if span.parent_id else b"",
        _text(5, span.name),
        _number(6, span.kind),
        _fixed64(7, span.start_ns),
        _fixed64(8, span.end_ns),
        _attributes(9, span.attributes),
    ]
    for event in span.events:
        body = _fixed64(1, event.time_ns) + _text(2, event.name) + _attributes(3, event.attributes)
        parts.append(_bytes(11, body))
    parts += (_bytes(13, _bytes(1, link.trace_id) + _bytes(2, link.span_id)) for link in span.links)
    if span.status:
        parts.append(_bytes(15, (_text(2, span.message) if span.message else b"") + _number(3, span.status)))
    return _bytes(2, b"".join(parts))


def resource_spans_bytes(resource: Attributes, scope: str, version: str, spans: Iterable[bytes]) -> bytes:
    """Spans of one resource, as a field of a request; requests are joined by putting them behind each other."""
    scope_spans = _bytes(1, _text(1, scope) + _text(2, version)) + b"".join(spans)
    return _bytes(1, _bytes(1, _attributes(1, resource)) + _bytes(2, scope_spans))


class PartialSuccess(NamedTuple):
    """What a receiver says when it did not take all spans."""

    rejected_spans: int = 0
    message: str = ""


def read_response(body: bytes) -> PartialSuccess:
    """The answer to a request; what cannot be read says nothing."""
    try:
        partial = _fields(body).get(1, b"")
        fields = _fields(partial) if isinstance(partial, bytes) else {}
        rejected, message = fields.get(1, 0), fields.get(2, b"")
    except (IndexError, KeyError, ValueError):
        return PartialSuccess()
    return PartialSuccess(
        rejected if isinstance(rejected, int) else 0,
        message.decode("utf-8", "replace") if isinstance(message, bytes) else "",
    )


def _fields(body: bytes) -> dict[int, int | bytes]:
    """The fields of a message, the last of each number."""
    fields: dict[int, int | bytes] = {}
    at = 0
    while at < len(body):
        key, at = _read_varint(body, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            fields[number], at = _read_varint(body, at)
            continue
        size, at = _read_varint(body, at) if kind == _BYTES else ({1: 8, 5: 4}[kind], at)
        if at + size > len(body):
            raise ValueError("cut off")
        fields[number] = body[at : at + size]
        at += size
    return fields


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _varint(value: int) -> bytes:
    value &= _MASK
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _bytes(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(body)) + body


def _text(number: int, text: str) -> bytes:
    """NUL is replaced: receivers that keep text in PostgreSQL would lose the whole batch over it."""
    return _bytes(number, text.replace("\0", "\ufffd").encode("utf-8", "replace"))


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _fixed64(number: int, value: int) -> bytes:
    return _varint(number << 3 | _FIXED64) + struct.pack("<Q", value & _MASK)


def _attributes(number: int, attributes: Attributes) -> bytes:
    pairs = ((_text(1, key) + _bytes(2, _value(value))) for key, value in attributes.items())
    return b"".join(_bytes(number, pair) for pair in pairs)


def _value(value: Value) -> bytes:
    if isinstance(value, str):
        return _text(1, value)
    if isinstance(value, bool):
        return _number(2, int(value))
    if isinstance(value, int):
        return _number(3, value)
    if isinstance(value, float):
        return _varint(4 << 3 | _FIXED64) + struct.pack("<d", value)
    return _bytes(5, b"".join(_bytes(1, _text(1, item)) for item in value))
