"""The spans of a trace: the trajectory is the root, its ops are the rest. Ids and times are ours."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mlflow.entities import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import SpanContext, Status, StatusCode

from rolltrace.backends.values import plain, strict_json
from rolltrace.query import Op, TokenUsage
from rolltrace.record import MODEL_KINDS

if TYPE_CHECKING:
    from rolltrace.query import Trajectory

_TYPES = {"tool": "TOOL", "env": "TASK", "reward": "EVALUATOR"}
"""MLflow's word for an op kind; that of a model call depends on what it was given."""


def trace_id_of(trajectory_id: str) -> str:
    """MLflow's id of the trace: ours, 32 hexadecimal digits, with its prefix."""
    return f"tr-{trajectory_id}"


def spans_of(trajectory: Trajectory) -> list[Span]:
    """The root span and one span per op."""
    trace = _Trace(trajectory)
    return [trace.root(), *(trace.span(op, parent) for op, parent in _with_parents(trajectory.ops, trace.root_id))]


def mlflow_usage(usage: TokenUsage) -> dict[str, int]:
    """Token counts in MLflow's words."""
    cached = {} if usage.cached_tokens is None else {"cache_read_input_tokens": usage.cached_tokens}
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.response_tokens,
        "total_tokens": usage.total_tokens,
        **cached,
    }


def _with_parents(ops: list[Op], parent: int) -> Iterator[tuple[Op, int]]:
    for op in ops:
        yield op, parent
        yield from _with_parents(op.children, op.op_id)


class _Trace:
    """Makes the spans of one trajectory."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._trajectory = trajectory
        self.root_id = _root_id(trajectory.trajectory_id)
        self._events: dict[int, list[Event]] = {}
        op_ids = {op.op_id for op in trajectory.walk()}
        for op_id, event in _events(trajectory):
            self._events.setdefault(op_id if op_id in op_ids else self.root_id, []).append(event)

    def root(self) -> Span:
        """The whole conversation, so that the trace opens with it."""
        messages = self._trajectory.conversation
        last = messages[-1] if messages and messages[-1].get("role") == "assistant" else None
        inputs: Any = {"messages": messages if last is None else messages[:-1]} if messages else None
        if inputs is None and self._trajectory.pruned is not None:
            inputs = self._trajectory.pruned.mark
        return self._make(self._trajectory, self.root_id, None, "AGENT", {_INPUTS: inputs, _OUTPUTS: last})

    def span(self, op: Op, parent: int) -> Span:
        usage = op.usage if op.kind in MODEL_KINDS else None
        attributes = {
            _INPUTS: op.inputs,
            _OUTPUTS: op.outputs,
            "mlflow.chat.tokenUsage": None if usage is None else mlflow_usage(usage),
            "rolltrace.kind": op.kind,
            "rolltrace.policy_version": op.policy_version,
            "rolltrace.finish_reason": op.finish_reason,
            "rolltrace.prompt_text": getattr(op, "prompt_text", None),
            "rolltrace.response_text": getattr(op, "response_text", None),
        }
        return self._make(op, op.op_id, parent, _type(op), attributes)

    def _make(
        self, traced: Op | Trajectory, span_id: int, parent: int | None, kind: str, attributes: Mapping[str, Any]
    ) -> Span:
        attributes = {**attributes, "rolltrace.status": traced.status, "rolltrace.worker": traced.worker}
        events = [*self._events.get(span_id, ()), *([] if traced.error is None else [_exception(traced)])]
        why = traced.error if traced.error is not None else traced.status
        return Span(
            ReadableSpan(
                name=traced.name,
                context=self._context(span_id),
                parent=None if parent is None else self._context(parent),
                start_time=traced.start_ns,
                end_time=traced.last_ns,
                attributes={
                    # MLflow reads these two before it unpacks the others.
                    "mlflow.traceRequestId": json.dumps(trace_id_of(self._trajectory.trajectory_id)),
                    "mlflow.spanType": json.dumps(kind),
                    **{key: _attribute(value) for key, value in attributes.items() if value is not None},
                },
                events=events,
                status=Status(StatusCode.OK) if traced.status == "ok" else Status(StatusCode.ERROR, why),
                resource=Resource.get_empty(),  # the default one reads the environment, for every span
            )
        )

    def _context(self, span_id: int) -> SpanContext:
        return SpanContext(int(self._trajectory.trajectory_id, 16), span_id, is_remote=False)


_INPUTS, _OUTPUTS = "mlflow.spanInputs", "mlflow.spanOutputs"


def _root_id(trajectory_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(trajectory_id.encode(), digest_size=8).digest(), "big")


def _type(op: Op) -> str:
    if op.kind in MODEL_KINDS:
        return "CHAT_MODEL" if isinstance(op.inputs, dict) and "messages" in op.inputs else "LLM"
    return _TYPES.get(op.kind, "UNKNOWN")


def _attribute(value: Any) -> str:
    """JSON inside JSON. MLflow takes one layer away when it stores a span, also from a text that happens to be JSON,
    which would then come back as something else. And a list of token ids travels as one text instead of as one
    protobuf message per number."""
    text = strict_json(value)
    return json.dumps(text, ensure_ascii=False) if text[0] in '"{[' else text


def _exception(traced: Op | Trajectory) -> Event:
    kind, _, message = (traced.error or "").partition(": ")
    attributes = {"exception.type": kind, "exception.message": message, "exception.stacktrace": traced.traceback or ""}
    return Event("exception", attributes, traced.last_ns)


def _events(trajectory: Trajectory) -> Iterator[tuple[int | None, Event]]:
    """What was said and found on the way, and in which op."""
    for row in trajectory.transitions:
        fields = {name: row.get(name) for name in ("reward", "episode_done", "stop_reason", "fields")}
        yield row["op_id"], _event("transition", row, fields)
    for note in trajectory.notes:
        if note.event == "note":  # the others are tags
            yield note.op_id, _event("note", note, {"note": note.body})
    for finding in trajectory.findings:
        yield finding.op_id, _event("flag", finding, {"flag": finding.flag, "detail": finding.detail})


def _event(name: str, row: Mapping[str, Any], fields: Mapping[str, Any]) -> Event:
    return Event(name, {key: plain(value) for key, value in fields.items() if value is not None}, row["time_ns"])
