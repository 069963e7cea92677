"""Requests of OTLP are read, in both encodings; what is none is refused by name."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import pytest

from rolltrace.backends.otlp.wire import Event, SentSpan, read_response, resource_spans_bytes, span_bytes
from rolltrace.collect.otlp import BadRequest, Received, partial_success, read_json, read_protobuf

from .rig import NOW_NS, request_of, span

SENT = SentSpan(
    b"t" * 16, b"s" * 8, b"p" * 8, "chat", 3, NOW_NS, NOW_NS + 5,
    {"text": "北京", "yes": True, "count": -3, "part": 0.5, "list": ["a", "b"]},
    [Event(NOW_NS, "exception", {"exception.type": "ValueError"})], (), 2, "failed",
)  # fmt: skip
BODY = resource_spans_bytes({"service.name": "agent"}, "scope", "1.0", [span_bytes(SENT)])
JSON: dict[str, Any] = {
    "resourceSpans": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "agent"}}]},
        "scopeSpans": [{
            "scope": {"name": "scope", "version": "1.0"},
            "spans": [{
                "traceId": (b"t" * 16).hex(), "spanId": (b"s" * 8).hex().upper(), "parentSpanId": (b"p" * 8).hex(),
                "name": "chat", "startTimeUnixNano": str(NOW_NS), "endTimeUnixNano": str(NOW_NS + 5),
                "attributes": [
                    {"key": "text", "value": {"stringValue": "北京"}}, {"key": "yes", "value": {"boolValue": True}},
                    {"key": "count", "value": {"intValue": "-3"}}, {"key": "part", "value": {"doubleValue": 0.5}},
                    {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "a"}, {"stringValue": "b"}]}}},
                ],
                "events": [{
                    "timeUnixNano": str(NOW_NS), "name": "exception",
                    "attributes": [{"key": "exception.type", "value": {"stringValue": "ValueError"}}],
                }],
                "status": {"code": 2, "message": "failed"},
            }],
        }],
    }],
}  # fmt: skip


def test_both_encodings_say_the_same() -> None:
    received = read_protobuf(BODY)
    assert received == read_json(json.dumps(JSON).encode())
    (read,) = received.spans
    assert (read.trace_id, read.parent_id, read.name, read.end_ns) == (b"t" * 16, b"p" * 8, "chat", NOW_NS + 5)
    assert read.attributes == {"text": "北京", "yes": True, "count": -3, "part": 0.5, "list": ["a", "b"]}
    assert (read.is_error, read.message, read.scope) == (True, "failed", "scope 1.0")
    assert read.resource == {"service.name": "agent"}
    assert read.events[0].attributes == {"exception.type": "ValueError"}


def test_an_empty_request_is_a_request() -> None:
    assert read_protobuf(b"") == read_json(b"{}") == Received([])


def test_spans_without_usable_ids_or_times_are_rejected_and_the_others_taken() -> None:
    good, no_trace, no_span, backwards = (span(number) for number in range(1, 5))
    no_trace.trace_id, no_span.span_id, backwards.end_ns = bytes(16), b"short", 1
    received = read_protobuf(request_of(no_trace, good, no_span, backwards))
    assert (len(received.spans), received.rejected) == (1, 3)
    assert "trace id" in received.why
    answer = read_response(partial_success(received.rejected, received.why, is_json=False))
    assert (answer.rejected_spans, answer.message) == (3, received.why)
    told = json.loads(partial_success(3, "why", is_json=True))
    assert told == {"partialSuccess": {"rejectedSpans": "3", "errorMessage": "why"}}


def test_damaged_requests_are_refused_by_name_and_nothing_else_happens() -> None:
    chance = random.Random(7)
    for _ in range(3000):
        data = bytearray(BODY)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(BadRequest):  # and no other exception
            read_protobuf(bytes(data[: chance.randint(0, len(data))]))


@pytest.mark.parametrize(
    "body",
    [b"[]", b"null", b"5", b"{", b'{"resourceSpans": 5}', b'{"resourceSpans": [5]}', b"[" * 100_000, b"\xff",
     b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}',
     b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "soon"}]}]}]}'],
)  # fmt: skip
def test_json_that_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        read_json(body)


def test_values_nested_without_end_are_refused() -> None:
    value = b""
    for _ in range(500):
        value = b"\x2a" + _sized(b"\x0a" + _sized(value))
    pair = b"\x0a\x01k\x12" + _sized(value)
    body = b"\x0a" + _sized(b"\x12" + _sized(b"\x12" + _sized(b"\x4a" + _sized(pair))))
    with pytest.raises(BadRequest, match="nested too deeply"):
        read_protobuf(body)


def _sized(body: bytes) -> bytes:
    size, encoded = len(body), bytearray()
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded) + body
