"""Spans as instrumentations really send them, and a collector in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from rolltrace.backends.otlp.wire import SentSpan, resource_spans_bytes, span_bytes
from rolltrace.collect.otlp import ReceivedSpan, SpanEvent

RECORDED = Path(__file__).parent / "spans"
"""What openinference-instrumentation-openai 0.1.66, opentelemetry-instrumentation-openai 0.62.4 (Traceloop),
opentelemetry-instrumentation-genai-openai 1.3b0, anthropic 2.9 and pydantic-ai 2.66 sent, under one root each."""
PROTOBUF = {"content-type": "application/x-protobuf"}
NOW_NS = time.time_ns()


def recorded(name: str) -> list[ReceivedSpan]:
    """The spans of one instrumentation, in the order in which they ended: the root is the last."""
    lines = [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text().splitlines()]
    return [
        ReceivedSpan(
            bytes.fromhex(each["trace"]),
            bytes.fromhex(each["span"]),
            bytes.fromhex(each["parent"]),
            each["name"],
            NOW_NS + (0 if not each["parent"] else 1000 * at),
            NOW_NS + 1000 * (at + 1),
            each["attributes"],
            each["resource"],
            [SpanEvent(NOW_NS, event.pop("name"), event) for event in each["events"]],
            each["status"] == 2,
            scope=each["scope"],
        )
        for at, each in enumerate(lines)
    ]


def span(number: int, parent: int | None = 1, *, trace: int = 1, name: str = "step", **attributes: Any) -> ReceivedSpan:
    """A span; `rl_step=3` is the attribute `rl.step`."""
    return ReceivedSpan(
        trace.to_bytes(16, "big"),
        number.to_bytes(8, "big"),
        b"" if parent is None else parent.to_bytes(8, "big"),
        name,
        NOW_NS + number,
        NOW_NS + number + 1000,
        {key.replace("__", ".").replace("rl_", "rl."): value for key, value in attributes.items()},
        {},
    )


def request_of(*spans: ReceivedSpan, resource: dict[str, str] | None = None) -> bytes:
    """A request in protobuf."""
    sent = [
        SentSpan(each.trace_id, each.span_id, each.parent_id, each.name, 1, each.start_ns, each.end_ns, each.attributes)
        for each in spans
    ]
    return resource_spans_bytes(resource or {}, "test", "1", map(span_bytes, sent))


class Collecting(NamedTuple):
    """A collector that runs."""

    process: subprocess.Popen[str]
    url: str
    store: Path
    printed: list[str]

    def post(self, body: bytes, path: str = "/v1/traces", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.post(self.url + path, content=body, headers={**PROTOBUF, **named}, timeout=60, trust_env=False)


@contextmanager
def collecting(store: Path, *options: str) -> Iterator[Collecting]:
    """`rolltrace collect`, until the block is left."""
    command = [sys.executable, "-m", "rolltrace", "collect", str(store), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line.strip())
            if line.startswith("press"):
                break
        url = next(line.partition("=")[2] for line in printed if "ENDPOINT" in line)
        try:
            yield Collecting(process, url, store, printed)
        finally:
            process.terminate()
            process.wait()
