"""Requests of OTLP/HTTP, protobuf and JSON, as spans; and the answers to them.

By hand, as `backends.otlp.wire` writes them, and for the same reason. Anything that is not a request is a
`BadRequest`; a span without a usable id or time is left out and counted, as the protocol's partial success wants it.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from rolltrace._protobuf import bytes_field, fields, number_field

_DEEPEST = 32
"""Of values in values."""
_MOST_NS = 1 << 63


class BadRequest(ValueError):
    """Bytes that are no request of OTLP; the message tells why."""


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
        return _collected(_protobuf_spans(body))
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
        request = json.loads(body)
        return _collected(_json_spans(request))
    except RecursionError:
        raise BadRequest("JSON that is nested too deeply") from None
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        if isinstance(fault, BadRequest):
            raise
        raise BadRequest(f"not an ExportTraceServiceRequest in JSON ({fault})") from None


def _collected(spans: Iterator[ReceivedSpan]) -> Received:
    good: list[ReceivedSpan] = []
    rejected, why = 0, ""
    for span in spans:
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


def _protobuf_spans(body: bytes) -> Iterator[ReceivedSpan]:
    for number, resource_spans in fields(body):
        if number != 1:
            continue
        resource: dict[str, Any] = {}
        scopes = []
        for inner, value in fields(_bytes(resource_spans)):
            if inner == 1:
                resource.update(_attributes(_bytes(value), 1))
            elif inner == 2:
                scopes.append(_bytes(value))
        for scope_spans in scopes:
            scope = ""
            spans = []
            for inner, value in fields(scope_spans):
                if inner == 1:
                    scope = " ".join(_text(part) for at, part in fields(_bytes(value)) if at in (1, 2))
                elif inner == 2:
                    spans.append(_bytes(value))
            for span in spans:
                yield _protobuf_span(span, resource, scope)


def _protobuf_span(body: bytes, resource: dict[str, Any], scope: str) -> ReceivedSpan:
    span = ReceivedSpan(b"", b"", b"", "", 0, 0, {}, resource, [], scope=scope)
    for number, value in fields(body):
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
            span.attributes.update(_pair(_bytes(value), 0))
        elif number == 11:
            span.events.append(_protobuf_event(_bytes(value)))
        elif number == 15:
            for inner, part in fields(_bytes(value)):
                if inner == 2:
                    span.message = _text(part)
                elif inner == 3:
                    span.is_error = part == 2
    if not any(span.parent_id):
        span.parent_id = b""  # some write zeros for none
    return span


def _protobuf_event(body: bytes) -> SpanEvent:
    event = SpanEvent(0, "", {})
    for number, value in fields(body):
        if number == 1:
            event.time_ns = _number(value) & (_MOST_NS - 1)
        elif number == 2:
            event.name = _text(value)
        elif number == 3:
            event.attributes.update(_pair(_bytes(value), 0))
    return event


def _attributes(body: bytes, field: int, depth: int = 0) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for number, value in fields(body):
        if number == field:
            attributes.update(_pair(_bytes(value), depth))
    return attributes


def _pair(body: bytes, depth: int) -> dict[str, Any]:
    key, value = "", None
    for number, part in fields(body):
        if number == 1:
            key = _text(part)
        elif number == 2:
            value = _any(_bytes(part), depth + 1)
    return {key: value}


def _any(body: bytes, depth: int) -> Any:
    if depth > _DEEPEST:
        raise BadRequest("values that are nested too deeply")
    value: Any = None
    for number, part in fields(body):
        if number == 1:
            value = _text(part)
        elif number == 2:
            value = bool(part)
        elif number == 3:
            value = part - (1 << 64) if isinstance(part, int) and part >= 1 << 63 else part
        elif number == 4:
            (value,) = struct.unpack("<d", _bytes(part))
        elif number == 5:
            value = [_any(_bytes(item), depth + 1) for at, item in fields(_bytes(part)) if at == 1]
        elif number == 6:
            value = _attributes(_bytes(part), 1, depth + 1)
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
    return {str(each.get("key") or ""): _json_any(each.get("value") or {}) for each in _list(record, "attributes")}


def _json_any(value: dict[str, Any]) -> Any:
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
            return [_json_any(each) for each in _list(inner, "values")]
        if name == "kvlistValue":
            return {str(each.get("key") or ""): _json_any(each.get("value") or {}) for each in _list(inner, "values")}
    return None


def partial_success(rejected: int, why: str, *, is_json: bool) -> bytes:
    """The body of the answer to a request that was taken, or partly so."""
    if is_json:
        body = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": why}} if rejected else {}
        return json.dumps(body).encode()
    if not rejected:
        return b""
    return bytes_field(1, number_field(1, rejected) + bytes_field(2, why.encode()))


def status_body(message: str, *, is_json: bool) -> bytes:
    """The body of a refusal: a google.rpc.Status with its message."""
    if is_json:
        return json.dumps({"message": message}).encode()
    return bytes_field(2, message.encode())
