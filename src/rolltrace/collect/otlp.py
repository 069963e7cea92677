"""Requests of OTLP/HTTP, protobuf and JSON, as spans; and the answers to them.

By hand, as `backends.otlp.wire` writes them, and for the same reason. Anything that is not a request is a
`BadRequest`; a span without a usable id or time is left out and counted, as the protocol's partial success wants it.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from rolltrace._own_spans import OUR_MARK
from rolltrace._protobuf import bytes_field, fields, number_field

_MAX_DEPTH = 32
"""Of values in values."""
_TOO_DEEP = f"values that are nested too deeply: at most {_MAX_DEPTH} levels"
MAX_SPANS = 16_384
"""In one request; exporters send 512 at once, collectors 8,192."""
MAX_ITEMS = 1_000_000
"""Fields, attributes and values of one request together: a kilobyte of gzip can be millions of them."""
_MAX_NS = 1 << 63
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
    return _read("protobuf", lambda: _read_message(itertools.count(1), body, _REQUEST))


def read_json(body: bytes) -> Received:
    """The spans of a request in OTLP's JSON.

    Raises:
        BadRequest: it is none.
    """
    return _read("JSON", lambda: _parse(body))


def _read(encoding: str, decode: Callable[[], Any]) -> Received:
    good: list[ReceivedSpan] = []
    rejected, why, inside = 0, "", 0
    try:
        for count, span in enumerate(_spans(decode()), 1):
            _limit(count, MAX_SPANS, "spans")
            inside += _items_inside(span)
            _limit(inside, MAX_ITEMS_INSIDE, "values in the JSON of attributes")
            problem = _problem(span)
            if problem:
                rejected, why = rejected + 1, why or problem
            else:
                good.append(span)
    except BadRequest:
        raise
    except RecursionError:
        raise BadRequest(_TOO_DEEP) from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, struct.error) as failure:
        raise BadRequest(f"not an ExportTraceServiceRequest in {encoding} ({failure})") from None
    return Received(good, rejected, why)


def _limit(count: int, most: int, what: str) -> None:
    if count > most:
        hint = "send fewer spans at once (OTEL_BSP_MAX_EXPORT_BATCH_SIZE)"
        raise TooManyItems(f"a request has at most {most:,} {what}; {hint}")


def _problem(span: ReceivedSpan) -> str:
    if len(span.trace_id) != 16 or not any(span.trace_id):
        return f"a trace id has 16 bytes that are not all zero, not {span.trace_id[:20].hex() or 'none'}"
    if len(span.span_id) != 8 or not any(span.span_id):
        return f"a span id has 8 bytes that are not all zero, not {span.span_id[:20].hex() or 'none'}"
    if span.parent_id and len(span.parent_id) != 8:
        return f"the id of a parent has 8 bytes, not {span.parent_id[:20].hex()}"
    if not 0 < span.start_ns < _MAX_NS or not span.start_ns <= span.end_ns < _MAX_NS:
        return f"a span begins after 1970 and ends later: {span.start_ns} to {span.end_ns}"
    return ""


def _parse(body: bytes) -> Any:
    """What JSON holds, if its values are few enough to be made objects, which are up to thirty times as large."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_ITEMS:
        without_escapes = body.replace(b"\\\\", b"").replace(b'\\"', b"")
        for count, _ in enumerate(_JSON_TOKEN.finditer(without_escapes), 1):
            _limit(count, MAX_ITEMS, "values")
    return json.loads(body)


def _items_inside(span: ReceivedSpan) -> int:
    """How many values there may be in the JSON that attributes hold as text."""
    texts = [
        text
        for attributes in (span.attributes, *(event.attributes for event in span.events))
        for text in attributes.values()
        if isinstance(text, str) and text[:1] in ("{", "[")
    ]
    return sum(map(text.count, ",[{")) if (text := "".join(texts)) else 0


def _text(value: int | bytes) -> str:
    return _bytes(value).decode("utf-8", "replace")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise BadRequest("not an ExportTraceServiceRequest: a number where a message belongs")
    return value


def _number(value: int | bytes) -> int:
    return value if isinstance(value, int) else int.from_bytes(value, "little")


def _signed(value: int | bytes) -> int:
    number = _number(value)
    return number - (1 << 64) if number >= 1 << 63 else number


def _float(value: int | bytes) -> float:
    number: float = struct.unpack("<d", _bytes(value))[0]
    return number


_Schema = dict[int, tuple[str, Any]]
"""Number of a field -> its name in OTLP's JSON, and how it is read: by a function, as a message, as a list of them."""
_VALUE: _Schema = {
    1: ("stringValue", _text), 2: ("boolValue", bool), 3: ("intValue", _signed), 4: ("doubleValue", _float),
    7: ("bytesValue", _bytes),
}  # fmt: skip
_VALUE_NAMES = frozenset(
    {"stringValue", "boolValue", "intValue", "doubleValue", "bytesValue", "arrayValue", "kvlistValue"}
)
_PAIR: _Schema = {1: ("key", _text), 2: ("value", _VALUE)}
_VALUE.update({5: ("arrayValue", {1: ("values", [_VALUE])}), 6: ("kvlistValue", {1: ("values", [_PAIR])})})
_EVENT: _Schema = {1: ("timeUnixNano", _number), 2: ("name", _text), 3: ("attributes", [_PAIR])}
_SPAN: _Schema = {
    1: ("traceId", _bytes), 2: ("spanId", _bytes), 4: ("parentSpanId", _bytes), 5: ("name", _text),
    7: ("startTimeUnixNano", _number), 8: ("endTimeUnixNano", _number), 9: ("attributes", [_PAIR]),
    11: ("events", [_EVENT]), 15: ("status", {2: ("message", _text), 3: ("code", _number)}),
}  # fmt: skip
_SCOPE_SPANS: _Schema = {1: ("scope", {1: ("name", _text), 2: ("version", _text)}), 2: ("spans", [_SPAN])}
_RESOURCE_SPANS: _Schema = {1: ("resource", {1: ("attributes", [_PAIR])}), 2: ("scopeSpans", [_SCOPE_SPANS])}
_REQUEST: _Schema = {1: ("resourceSpans", [_RESOURCE_SPANS])}


def _read_message(items: Iterator[int], body: bytes, schema: _Schema) -> dict[str, Any]:
    """A message of protobuf as OTLP's JSON has it, with ids and bytes as they are."""
    message: dict[str, Any] = {}
    for number, value in fields(body):
        _limit(next(items), MAX_ITEMS, "fields")
        if number not in schema:
            continue
        name, kind = schema[number]
        if isinstance(kind, list):
            message.setdefault(name, []).append(_read_message(items, _bytes(value), kind[0]))
        else:
            message[name] = _read_message(items, _bytes(value), kind) if isinstance(kind, dict) else kind(value)
    return message


def _spans(request: Any) -> Iterator[ReceivedSpan]:
    for resource_spans in _list(request, "resourceSpans"):
        resource = _attributes(resource_spans.get("resource") or {})
        for scope_spans in _list(resource_spans, "scopeSpans"):
            named = scope_spans.get("scope") or {}
            scope = " ".join(str(named[name]) for name in ("name", "version") if named.get(name))
            for span in _list(scope_spans, "spans"):
                status = span.get("status") or {}
                parent = _id(span.get("parentSpanId"))
                yield ReceivedSpan(
                    _id(span.get("traceId")),
                    _id(span.get("spanId")),
                    parent if any(parent) else b"",
                    str(span.get("name") or ""),
                    int(span.get("startTimeUnixNano") or 0),
                    int(span.get("endTimeUnixNano") or 0),
                    _attributes(span),
                    resource,
                    [
                        SpanEvent(
                            int(event.get("timeUnixNano") or 0) & (_MAX_NS - 1),
                            str(event.get("name") or ""),
                            _attributes(event),
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


def _id(value: Any) -> bytes:
    if isinstance(value, str):
        return bytes.fromhex(value)
    return value if isinstance(value, bytes) else b""


def _attributes(record: dict[str, Any]) -> dict[str, Any]:
    return _pairs(record, "attributes", 1)


def _pairs(record: Any, name: str, depth: int) -> dict[str, Any]:
    return {str(each.get("key") or ""): _value(each.get("value") or {}, depth) for each in _list(record, name)}


def _value(value: dict[str, Any], depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise BadRequest(_TOO_DEEP)
    name = next((each for each in value if each in _VALUE_NAMES), "")
    inner: Any = value.get(name)
    match name:
        case "doubleValue":
            return float(inner)
        case "intValue":
            number = int(inner)
            return number if -_MAX_NS <= number < _MAX_NS else str(number)
        case "bytesValue":
            return inner if isinstance(inner, bytes) else base64.b64decode(inner)
        case "arrayValue":
            return [_value(each, depth + 2) for each in _list(inner, "values")]
        case "kvlistValue":
            return _pairs(inner, "values", depth + 2)
    return inner


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
