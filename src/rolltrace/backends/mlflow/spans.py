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

from rolltrace.backends.mlflow.values import json_of, plain, trace_id_of
from rolltrace.query import Op
from rolltrace.record import MODEL_KINDS

if TYPE_CHECKING:
    from rolltrace.query import Trajectory

_TYPES = {"tool": "TOOL", "env": "TASK", "reward": "EVALUATOR"}
"""MLflow's word for an op kind; that of a model call depends on what it was given."""


def spans_of(trajectory: Trajectory) -> list[Span]:
    """The root span and one span per op."""
    trace = _Trace(trajectory)
    return [trace.root(), *(trace.span(op, parent) for op, parent in _with_parents(trajectory.ops, trace.root_id))]


def end_of(made: Op | Trajectory) -> int:
    """When it ended; if nobody knows, because its process died, the last that is known of what went on inside.

    MLflow's page can show no span without an end.
    """
    if made.end_ns is not None:
        return made.end_ns
    inside = made.children if isinstance(made, Op) else made.ops
    return max(map(end_of, inside), default=made.start_ns)


def usage_of(op: Op) -> dict[str, int] | None:
    """How many tokens a model call saw and made; None if it is none, or nothing is known."""
    if op.kind not in MODEL_KINDS or (op.prompt_tokens is None and op.response_tokens is None):
        return None
    seen, made = op.prompt_tokens or 0, op.response_tokens or 0
    cached = {} if op.cached_tokens is None else {"cache_read_input_tokens": op.cached_tokens}
    return {"input_tokens": seen, "output_tokens": made, "total_tokens": seen + made, **cached}


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
        known = {op.op_id for op in trajectory.walk()}
        for op_id, event in _events(trajectory):
            self._events.setdefault(op_id if op_id in known else self.root_id, []).append(event)

    def root(self) -> Span:
        """The whole conversation, so that the trace opens with it."""
        told = self._trajectory.conversation
        last = told[-1] if told and told[-1].get("role") == "assistant" else None
        inputs: Any = {"messages": told if last is None else told[:-1]} if told else None
        if inputs is None and self._trajectory.pruned is not None:
            inputs = self._trajectory.pruned.mark
        return self._make(self._trajectory, self.root_id, None, "AGENT", {_INPUTS: inputs, _OUTPUTS: last})

    def span(self, op: Op, parent: int) -> Span:
        said = {
            _INPUTS: op.inputs,
            _OUTPUTS: op.outputs,
            "mlflow.chat.tokenUsage": usage_of(op),
            "rolltrace.kind": op.kind,
            "rolltrace.policy_version": op.policy_version,
            "rolltrace.finish_reason": op.finish_reason,
            "rolltrace.prompt_text": getattr(op, "prompt_text", None),
            "rolltrace.response_text": getattr(op, "response_text", None),
        }
        return self._make(op, op.op_id, parent, _type(op), said)

    def _make(
        self, made: Op | Trajectory, span_id: int, parent: int | None, kind: str, said: Mapping[str, Any]
    ) -> Span:
        said = {**said, "rolltrace.status": made.status, "rolltrace.worker": made.worker}
        events = [*self._events.get(span_id, ()), *([] if made.error is None else [_exception(made)])]
        why = made.error if made.error is not None else made.status
        return Span(
            ReadableSpan(
                name=made.name,
                context=self._context(span_id),
                parent=None if parent is None else self._context(parent),
                start_time=made.start_ns,
                end_time=end_of(made),
                attributes={
                    # MLflow reads these two before it unpacks the others.
                    "mlflow.traceRequestId": json.dumps(trace_id_of(self._trajectory.trajectory_id)),
                    "mlflow.spanType": json.dumps(kind),
                    **{key: _attribute(value) for key, value in said.items() if value is not None},
                },
                events=events,
                status=Status(StatusCode.OK) if made.status == "ok" else Status(StatusCode.ERROR, why),
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
    text = json_of(value)
    return json.dumps(text, ensure_ascii=False) if text[0] in '"{[' else text


def _exception(made: Op | Trajectory) -> Event:
    kind, _, message = (made.error or "").partition(": ")
    said = {"exception.type": kind, "exception.message": message, "exception.stacktrace": made.traceback or ""}
    return Event("exception", said, end_of(made))


def _events(trajectory: Trajectory) -> Iterator[tuple[int | None, Event]]:
    """What was said and found on the way, and in which op."""
    for row in trajectory.transitions:
        said = {name: row.get(name) for name in ("reward", "episode_done", "stop_reason", "fields")}
        yield row["op_id"], _event("transition", row, said)
    for note in trajectory.notes:
        if note.event == "note":  # the others are tags
            yield note.op_id, _event("note", note, {"note": note.body})
    for finding in trajectory.findings:
        yield finding.op_id, _event("flag", finding, {"flag": finding.flag, "detail": finding.detail})


def _event(name: str, row: Mapping[str, Any], said: Mapping[str, Any]) -> Event:
    return Event(name, {key: plain(value) for key, value in said.items() if value is not None}, row["time_ns"])
