"""The bytes of OTLP 1.x trace requests: the few protobuf messages of it that we write and the one that we read.

tests/integrations/otlp decodes all of it with the official classes. Field numbers are those of opentelemetry-proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rolltrace._own_spans import MARK, MARK_FIELD
from rolltrace._protobuf import bytes_field, fields, fixed64_field, number_field

Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]

INTERNAL, CLIENT = 1, 3
"""Kinds of spans."""
UNSET, OK, ERROR = 0, 1, 2
"""Codes of a status."""
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


class SentSpan(NamedTuple):
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


def span_bytes(span: SentSpan) -> bytes:
    """A span as a field of `scope_spans_bytes`."""
    parts = [
        bytes_field(1, span.trace_id),
        bytes_field(2, span.span_id),
        bytes_field(4, span.parent_id) if span.parent_id else b"",
        _text(5, span.name),
        number_field(6, span.kind),
        _fixed64(7, span.start_ns),
        _fixed64(8, span.end_ns),
        _attributes(9, span.attributes),
    ]
    for event in span.events:
        body = _fixed64(1, event.time_ns) + _text(2, event.name) + _attributes(3, event.attributes)
        parts.append(bytes_field(11, body))
    parts += (bytes_field(13, bytes_field(1, link.trace_id) + bytes_field(2, link.span_id)) for link in span.links)
    if span.status:
        parts.append(bytes_field(15, (_text(2, span.message) if span.message else b"") + number_field(3, span.status)))
    return bytes_field(2, b"".join(parts))


def resource_spans_bytes(resource: Attributes, scope: str, version: str, spans: Iterable[bytes]) -> bytes:
    """Spans of one resource, as a field of a request; requests are joined by putting them behind each other."""
    scope_spans = bytes_field(1, _text(1, scope) + _text(2, version)) + b"".join(spans)
    return bytes_field(1, bytes_field(1, _attributes(1, resource)) + bytes_field(2, scope_spans))


class PartialSuccess(NamedTuple):
    """What a receiver says when it did not take all spans."""

    rejected_spans: int = 0
    message: str = ""
    is_rolltrace: bool = False
    """The receiver is `rolltrace collect`."""


def read_response(body: bytes) -> PartialSuccess:
    """The answer to a request; what cannot be read says nothing."""
    try:
        told = dict(fields(body))
        partial = told.get(1, b"")
        partial_fields = dict(fields(partial)) if isinstance(partial, bytes) else {}
        rejected, message = partial_fields.get(1, 0), partial_fields.get(2, b"")
    except (IndexError, ValueError):
        return PartialSuccess()
    return PartialSuccess(
        rejected if isinstance(rejected, int) else 0,
        message.decode("utf-8", "replace") if isinstance(message, bytes) else "",
        told.get(MARK_FIELD) == MARK,
    )


def _text(number: int, text: str) -> bytes:
    """NUL is replaced: receivers that keep text in PostgreSQL would lose the whole batch over it."""
    return bytes_field(number, text.replace("\0", "\ufffd").encode("utf-8", "replace"))


def _fixed64(number: int, value: int) -> bytes:
    return fixed64_field(number, struct.pack("<Q", value & _MASK))


def _attributes(number: int, attributes: Attributes) -> bytes:
    pairs = ((_text(1, key) + bytes_field(2, _value(value))) for key, value in attributes.items())
    return b"".join(bytes_field(number, pair) for pair in pairs)


def _value(value: Value) -> bytes:
    if isinstance(value, str):
        return _text(1, value)
    if isinstance(value, bool):
        return number_field(2, int(value))
    if isinstance(value, int):
        return number_field(3, value)
    if isinstance(value, float):
        return fixed64_field(4, struct.pack("<d", value))
    return bytes_field(5, b"".join(bytes_field(1, _text(1, item)) for item in value))
