"""Requests of OTLP/HTTP, protobuf and JSON, as spans; and the answers to them.

By hand, as `backends.otlp.wire` writes them, and for the same reason. Anything that is not a request is a
`BadRequest`; a span without a usable id or time is left out and counted, as the protocol's partial success wants it.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from rolltrace._own_spans import OUR_MARK
from rolltrace._protobuf import bytes_field, fields, number_field

_DEEPEST = 32
"""Of values in values."""
_TOO_DEEP = f"values that are nested too deeply: at most {_DEEPEST} levels"
MAX_SPANS = 16_384
"""In one request; exporters send 512 at once, collectors 8,192."""
MAX_ITEMS = 1_000_000
"""Fields, attributes and values of one request together: a kilobyte of gzip can be millions of them."""
_MOST_NS = 1 << 63
_JSON_TOKEN = re.compile(rb'"[^"]*"|[,\[{]')


MAX_ITEMS_INSIDE = 2_000_000
"""Values in the JSON that attributes hold, of all spans of a request."""


class BadRequest(ValueError):
    """Bytes that are no request of OTLP; the message tells why."""


class TooManyItems(BadRequest):
    """A request that is to be sent in smaller ones."""


class SpanEvent(msgspec.Struct, array_like=True):
    """Something that happened at one moment of a span."""

    time_ns: int
    name: str
    attributes: dict[str, Any]


class ReceivedSpan(msgspec.Struct, array_like=True):
    """One span as it was received, with the attributes of its resource."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    """Empty for a root."""
    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: list[SpanEvent] = []
    is_error: bool = False
    message: str = ""
    scope: str = ""
    """The instrumentation that made it."""


class Received(NamedTuple):
    """What a request holds."""

    spans: list[ReceivedSpan]
    rejected: int = 0
    why: str = ""


def read_protobuf(body: bytes) -> Received:
    """The spans of an ExportTraceServiceRequest.

    Raises:
        BadRequest: it is none.
    """
    try:
        return _collected(_protobuf_spans(body, _Items()))
    except BadRequest:
        raise
    except ValueError as fault:
        raise BadRequest(str(fault)) from None
    except (IndexError, KeyError, struct.error, TypeError, AttributeError) as fault:
        raise BadRequest(f"not an ExportTraceServiceRequest in protobuf ({type(fault).__name__})") from None


def read_json(body: bytes) -> Received:
    """The spans of a request in OTLP's JSON.

    Raises:
        BadRequest: it is none.
    """
    try:
        if not _may_be_parsed(body):
            raise TooManyItems(_too_many("values", MAX_ITEMS))
        request = json.loads(body)
        return _collected(_json_spans(request))
    except RecursionError:
        raise BadRequest(_TOO_DEEP) from None
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        if isinstance(fault, BadRequest):
            raise
        raise BadRequest(f"not an ExportTraceServiceRequest in JSON ({fault})") from None


def _collected(spans: Iterator[ReceivedSpan]) -> Received:
    good: list[ReceivedSpan] = []
    rejected, why, inside = 0, "", 0
    for count, span in enumerate(spans, 1):
        if count > MAX_SPANS:
            raise TooManyItems(_too_many("spans", MAX_SPANS))
        inside += _items_inside(span)
        if inside > MAX_ITEMS_INSIDE:
            raise TooManyItems(_too_many("values in the JSON of attributes", MAX_ITEMS_INSIDE))
        problem = _problem(span)
        if problem:
            rejected, why = rejected + 1, why or problem
        else:
            good.append(span)
    return Received(good, rejected, why)


def _problem(span: ReceivedSpan) -> str:
    if len(span.trace_id) != 16 or not any(span.trace_id):
        return f"a trace id has 16 bytes that are not all zero, not {span.trace_id[:20].hex() or 'none'}"
    if len(span.span_id) != 8 or not any(span.span_id):
        return f"a span id has 8 bytes that are not all zero, not {span.span_id[:20].hex() or 'none'}"
    if span.parent_id and len(span.parent_id) != 8:
        return f"the id of a parent has 8 bytes, not {span.parent_id[:20].hex()}"
    if not 0 < span.start_ns < _MOST_NS or not span.start_ns <= span.end_ns < _MOST_NS:
        return f"a span begins after 1970 and ends later: {span.start_ns} to {span.end_ns}"
    return ""


class _Items:
    """How many fields of a request may still be read."""

    def __init__(self) -> None:
        self._left = MAX_ITEMS

    def fields(self, body: bytes) -> Iterator[tuple[int, int | bytes]]:
        for field in fields(body):
            self._left -= 1
            if self._left < 0:
                raise TooManyItems(_too_many("fields", MAX_ITEMS))
            yield field


def _may_be_parsed(body: bytes) -> bool:
    """Whether JSON has few enough values to be made objects, which are up to thirty times as large."""
    if sum(map(body.count, (b",", b"[", b"{"))) <= MAX_ITEMS:
        return True
    without_escapes = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return all(count < MAX_ITEMS for count, _ in enumerate(_JSON_TOKEN.finditer(without_escapes)))


def _items_inside(span: ReceivedSpan) -> int:
    """How many values there may be in the JSON that attributes hold as text."""
    texts = [
        text
        for attributes in (span.attributes, *(event.attributes for event in span.events))
        for text in attributes.values()
        if isinstance(text, str) and text[:1] in ("{", "[")
    ]
    return sum(map(text.count, ",[{")) if (text := "".join(texts)) else 0


def _too_many(what: str, most: int) -> str:
    return f"a request has at most {most:,} {what}; send fewer spans at once (OTEL_BSP_MAX_EXPORT_BATCH_SIZE)"


def _protobuf_spans(body: bytes, items: _Items) -> Iterator[ReceivedSpan]:
    for number, resource_spans in items.fields(body):
        if number != 1:
            continue
        resource: dict[str, Any] = {}
        scopes = []
        for inner, value in items.fields(_bytes(resource_spans)):
            if inner == 1:
                resource.update(_attributes(items, _bytes(value), 1))
            elif inner == 2:
                scopes.append(_bytes(value))
        for scope_spans in scopes:
            scope = ""
            spans = []
            for inner, value in items.fields(scope_spans):
                if inner == 1:
                    scope = " ".join(_text(part) for at, part in items.fields(_bytes(value)) if at in (1, 2))
                elif inner == 2:
                    spans.append(_bytes(value))
            for span in spans:
                yield _protobuf_span(items, span, resource, scope)


def _protobuf_span(items: _Items, body: bytes, resource: dict[str, Any], scope: str) -> ReceivedSpan:
    span = ReceivedSpan(b"", b"", b"", "", 0, 0, {}, resource, [], scope=scope)
    for number, value in items.fields(body):
        if number == 1:
            span.trace_id = _bytes(value)
        elif number == 2:
            span.span_id = _bytes(value)
        elif number == 4:
            span.parent_id = _bytes(value)
        elif number == 5:
            span.name = _text(value)
        elif number == 7:
            span.start_ns = _number(value)
        elif number == 8:
            span.end_ns = _number(value)
        elif number == 9:
            span.attributes.update(_pair(items, _bytes(value), 0))
        elif number == 11:
            span.events.append(_protobuf_event(items, _bytes(value)))
        elif number == 15:
            for inner, part in items.fields(_bytes(value)):
                if inner == 2:
                    span.message = _text(part)
                elif inner == 3:
                    span.is_error = part == 2
    if not any(span.parent_id):
        span.parent_id = b""  # some write zeros for none
    return span


def _protobuf_event(items: _Items, body: bytes) -> SpanEvent:
    event = SpanEvent(0, "", {})
    for number, value in items.fields(body):
        if number == 1:
            event.time_ns = _number(value) & (_MOST_NS - 1)
        elif number == 2:
            event.name = _text(value)
        elif number == 3:
            event.attributes.update(_pair(items, _bytes(value), 0))
    return event


def _attributes(items: _Items, body: bytes, field: int, depth: int = 0) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for number, value in items.fields(body):
        if number == field:
            attributes.update(_pair(items, _bytes(value), depth))
    return attributes


def _pair(items: _Items, body: bytes, depth: int) -> dict[str, Any]:
    key, value = "", None
    for number, part in items.fields(body):
        if number == 1:
            key = _text(part)
        elif number == 2:
            value = _any(items, _bytes(part), depth + 1)
    return {key: value}


def _any(items: _Items, body: bytes, depth: int) -> Any:
    if depth > _DEEPEST:
        raise BadRequest(_TOO_DEEP)
    value: Any = None
    for number, part in items.fields(body):
        if number == 1:
            value = _text(part)
        elif number == 2:
            value = bool(part)
        elif number == 3:
            value = part - (1 << 64) if isinstance(part, int) and part >= 1 << 63 else part
        elif number == 4:
            (value,) = struct.unpack("<d", _bytes(part))
        elif number == 5:
            value = [_any(items, _bytes(item), depth + 1) for at, item in items.fields(_bytes(part)) if at == 1]
        elif number == 6:
            value = _attributes(items, _bytes(part), 1, depth + 1)
        elif number == 7:
            value = _bytes(part)
    return value


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise BadRequest("not an ExportTraceServiceRequest: a number where a message belongs")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode("utf-8", "replace")


def _number(value: int | bytes) -> int:
    return value if isinstance(value, int) else int.from_bytes(value, "little")


def _json_spans(request: Any) -> Iterator[ReceivedSpan]:
    for resource_spans in _list(request, "resourceSpans"):
        resource = _json_attributes(resource_spans.get("resource") or {})
        for scope_spans in _list(resource_spans, "scopeSpans"):
            named = scope_spans.get("scope") or {}
            scope = " ".join(str(named[name]) for name in ("name", "version") if named.get(name))
            for span in _list(scope_spans, "spans"):
                status = span.get("status") or {}
                parent = _hex(span.get("parentSpanId"))
                yield ReceivedSpan(
                    _hex(span.get("traceId")),
                    _hex(span.get("spanId")),
                    parent if any(parent) else b"",
                    str(span.get("name") or ""),
                    int(span.get("startTimeUnixNano") or 0),
                    int(span.get("endTimeUnixNano") or 0),
                    _json_attributes(span),
                    resource,
                    [
                        SpanEvent(
                            int(event.get("timeUnixNano") or 0) & (_MOST_NS - 1),
                            str(event.get("name") or ""),
                            _json_attributes(event),
                        )
                        for event in _list(span, "events")
                    ],
                    status.get("code") in (2, "STATUS_CODE_ERROR"),
                    str(status.get("message") or ""),
                    scope,
                )


def _list(record: Any, name: str) -> list[dict[str, Any]]:
    items = record.get(name) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadRequest(f"{name} must be a list of objects")
    return items


def _hex(value: Any) -> bytes:
    return bytes.fromhex(value) if isinstance(value, str) else b""


def _json_attributes(record: dict[str, Any]) -> dict[str, Any]:
    return {str(each.get("key") or ""): _json_any(each.get("value") or {}, 1) for each in _list(record, "attributes")}


def _json_any(value: dict[str, Any], depth: int) -> Any:
    if depth > _DEEPEST:
        raise BadRequest(_TOO_DEEP)
    for name, inner in value.items():
        if name in ("stringValue", "boolValue"):
            return inner
        if name == "doubleValue":
            return float(inner)
        if name == "intValue":
            number = int(inner)
            return number if abs(number) < _MOST_NS else str(number)
        if name == "bytesValue":
            return base64.b64decode(inner)
        if name == "arrayValue":
            return [_json_any(each, depth + 2) for each in _list(inner, "values")]
        if name == "kvlistValue":
            pairs = _list(inner, "values")
            return {str(each.get("key") or ""): _json_any(each.get("value") or {}, depth + 2) for each in pairs}
    return None


def partial_success(rejected: int, why: str, *, is_json: bool) -> bytes:
    """The body of the answer to a request that was taken, or partly so."""
    if is_json:
        body = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": why}} if rejected else {}
        return json.dumps(body).encode()
    if not rejected:
        return OUR_MARK
    return bytes_field(1, number_field(1, rejected) + bytes_field(2, why.encode())) + OUR_MARK


def status_body(message: str, *, is_json: bool) -> bytes:
    """The body of a refusal: a google.rpc.Status with its message."""
    if is_json:
        return json.dumps({"message": message}).encode()
    return bytes_field(2, message.encode())
