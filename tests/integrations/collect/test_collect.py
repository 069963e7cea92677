"""Real instrumentations and the real exporter send to `rolltrace collect`: turns and tokens are what the model said."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from rolltrace.collect.otlp import partial_success, read_protobuf
from rolltrace.query import Trajectory, open_store
from tests.collect.rig import Collecting, collecting
from tests.integrations.collect.model import ANSWER, serving

HERE = Path(__file__).parent
CONTENT = {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only",
    "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content",
    "TRACELOOP_TRACE_CONTENT": "true",
    "TRACELOOP_TELEMETRY": "false",
}


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collecting]:
    with collecting(tmp_path_factory.mktemp("collect") / "store") as running:
        yield running


def run_agent(name: str, model: str, collector: Collecting) -> Trajectory:
    where = {"OTEL_RESOURCE_ATTRIBUTES": f"rl.project=p,rl.experiment={name}"}
    environment = {**os.environ, **CONTENT, **where, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    command = [sys.executable, str(HERE / "agent.py"), name, model]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    store = open_store(collector.store)
    (row,) = store.trajectories(experiment=name).rows()
    return store.trajectory(row["trajectory_id"])


@pytest.mark.parametrize(
    ("name", "tools"), [("openinference", 0), ("traceloop", 0), ("genai", 0), ("anthropic", 0), ("pydantic_ai", 1)]
)
def test_a_run_is_a_trajectory_with_its_turns(name: str, tools: int, model: str, collector: Collecting) -> None:
    trajectory = run_agent(name, model, collector)
    assert (trajectory.step, trajectory.sample_index, trajectory.rollout_n) == (3, "q-1", 0)
    assert (trajectory.name, trajectory.status, trajectory.reward) == ("rollout", "ok", 1.0)
    assert (trajectory.turns, trajectory.tool_calls) == (2, tools)
    conversation = trajectory.conversation
    assert [message["role"] for message in conversation] == ["system", "user", "assistant", "tool", "assistant"]
    assert conversation[0]["content"] == "Be brief."
    call = conversation[2]["tool_calls"][0]["function"]
    assert (call["name"], re.sub(r"\s", "", str(call["arguments"]).replace("'", '"'))) == ("add", '{"a":17,"b":25}')
    assert "42" in str(conversation[3]["content"])
    assert conversation[4]["content"] == ANSWER
    turns = [op for op in walk(trajectory.ops) if op.kind == "llm"]
    assert [(op.prompt_tokens, op.response_tokens) for op in turns] == [(45, 18)] * 2
    assert turns[0].finish_reason in ("tool_calls", "tool_call", "tool_use")


def walk(ops: list[Any]) -> Iterator[Any]:
    for op in ops:
        yield op
        yield from walk(op.children)


class Keeping(SpanExporter):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Any) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS


@pytest.mark.parametrize("compression", [Compression.Gzip, Compression.Deflate, Compression.NoCompression])
def test_the_exporter_takes_our_answer_for_success(compression: Compression, collector: Collecting) -> None:
    keeping = Keeping()
    provider = TracerProvider(resource=Resource({"rl.experiment": compression.value}))
    provider.add_span_processor(SimpleSpanProcessor(keeping))
    with provider.get_tracer("t").start_as_current_span("one", attributes={"list": [1, 2], "text": "北京"}):
        pass
    exporter = OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces", compression=compression)
    assert exporter.export(keeping.spans) is SpanExportResult.SUCCESS
    assert exporter.export(keeping.spans) is SpanExportResult.SUCCESS, "sent again"
    exporter.shutdown()
    provider.shutdown()
    store = open_store(collector.store)
    (row,) = store.trajectories(experiment=compression.value).rows()
    (op,) = store.trajectory(row["trajectory_id"]).ops
    assert op.inputs == {"list": [1, 2], "text": "北京"}


def test_the_official_classes_and_ours_read_the_same() -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add()
    spans.resource.attributes.add(key="a").value.int_value = -5
    span = spans.scope_spans.add().spans.add(name="x", trace_id=b"t" * 16, span_id=b"s" * 8)
    span.start_time_unix_nano, span.end_time_unix_nano = 5, 6
    span.attributes.add(key="map").value.kvlist_value.values.add(key="k").value.double_value = 0.5
    span.attributes.add(key="bytes").value.bytes_value = b"\x00\xff"
    span.status.code = 2
    (read,) = read_protobuf(request.SerializeToString()).spans
    assert (read.resource, read.attributes) == ({"a": -5}, {"map": {"k": 0.5}, "bytes": b"\x00\xff"})
    assert read.is_error
    answer = ExportTraceServiceResponse.FromString(partial_success(3, "why", is_json=False))
    assert (answer.partial_success.rejected_spans, answer.partial_success.error_message) == (3, "why")


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (HERE.parents[2] / "docs" / "howto" / "collect.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python opentelemetry\n(.*?)```", page, re.DOTALL)
    with collecting(tmp_path / "store") as running:
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": running.url}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)
        (row,) = open_store(running.store).trajectories().rows()
    assert (row["step"], row["sample_index"], row["tool_calls"], row["reward"]) == (3, "q-17", 1, 1.0)
