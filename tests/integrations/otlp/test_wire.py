"""What we write by hand is what the official classes read, and the other way round."""

from __future__ import annotations

import math
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

from rolltrace.backends.otlp.wire import (
    CLIENT,
    ERROR,
    Event,
    Link,
    SentSpan,
    read_response,
    resource_spans_bytes,
    span_bytes,
)


def decoded(*bodies: bytes) -> Any:
    return service.ExportTraceServiceRequest.FromString(b"".join(bodies))


def plain(attributes: Any) -> dict[str, Any]:
    found = {}
    for pair in attributes:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        found[pair.key] = [item.string_value for item in value.values] if kind == "array_value" else value
    return found


VALUES = {
    "text": "回答 🎉",
    "empty": "",
    "yes": True,
    "no": False,
    "zero": 0,
    "int": 1 << 40,
    "negative": -5,
    "smallest": -(1 << 63),
    "float": 0.1,
    "nan": math.nan,
    "infinite": -math.inf,
    "list": ["a", "二"],
    "long": "x" * 100_000,
}


def test_a_span_with_everything_is_read_back() -> None:
    span = SentSpan(
        bytes(range(16)),
        bytes(range(8)),
        bytes(range(1, 9)),
        "名字",
        CLIENT,
        1_700_000_000_123_456_789,
        1_700_000_001_000_000_000,
        VALUES,
        [Event(5, "exception", {"exception.type": "E"})],
        [Link(bytes(16), bytes(8))],
        ERROR,
        "message",
    )
    (resource_spans,) = decoded(
        resource_spans_bytes({"service.name": "s"}, "scope", "1.0", [span_bytes(span)])
    ).resource_spans
    assert plain(resource_spans.resource.attributes) == {"service.name": "s"}
    (scope_spans,) = resource_spans.scope_spans
    assert (scope_spans.scope.name, scope_spans.scope.version) == ("scope", "1.0")
    (found,) = scope_spans.spans
    assert (found.trace_id, found.span_id, found.parent_span_id) == span[:3]
    assert (found.name, found.kind) == ("名字", CLIENT)
    assert (found.start_time_unix_nano, found.end_time_unix_nano) == (span.start_ns, span.end_ns)
    said = plain(found.attributes)
    assert math.isnan(said.pop("nan"))
    assert said == {name: value for name, value in VALUES.items() if name != "nan"}
    assert {type(said["yes"]), type(said["zero"]), type(said["float"])} == {bool, int, float}
    (event,) = found.events
    assert (event.time_unix_nano, event.name, plain(event.attributes)) == (5, "exception", {"exception.type": "E"})
    (link,) = found.links
    assert (link.trace_id, link.span_id) == (bytes(16), bytes(8))
    assert (found.status.code, found.status.message) == (ERROR, "message")


def test_many_spans_of_several_resources_are_one_request() -> None:
    span = SentSpan(bytes(16), bytes(8), b"", "n", 1, 0, 0, {})
    found = decoded(
        *(resource_spans_bytes({"n": str(n)}, "s", "v", [span_bytes(span)] * 300) for n in range(3)),
    )
    assert [len(each.scope_spans[0].spans) for each in found.resource_spans] == [300] * 3


def test_text_that_is_no_utf8_and_nul_are_replaced() -> None:
    span = SentSpan(bytes(16), bytes(8), b"", "a\ud800b\0c", 1, 0, 0, {})
    (found,) = decoded(resource_spans_bytes({}, "s", "v", [span_bytes(span)])).resource_spans[0].scope_spans[0].spans
    assert found.name == "a?b\ufffdc"


@pytest.mark.parametrize(("rejected", "message"), [(0, ""), (3, "too many"), (1 << 40, "长"), (0, "only a warning")])
def test_a_partial_success_is_understood(rejected: int, message: str) -> None:
    partial = service.ExportTracePartialSuccess(rejected_spans=rejected, error_message=message)
    body = service.ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    assert read_response(body)[:2] == (rejected, message)
