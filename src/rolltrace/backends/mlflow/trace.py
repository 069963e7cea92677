"""What MLflow holds of a trajectory: a root span, a span per op, and tags to filter by, previews, the run and
its rewards as feedback. Ids and times are ours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from mlflow.entities import AssessmentSource, Feedback, Span, TraceInfo, TraceLocation, TraceState
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import SpanContext, Status, StatusCode

from rolltrace.backends.values import cut, plain, strict_json, view_link
from rolltrace.query import Op, TokenUsage, Trajectory
from rolltrace.record import MODEL_KINDS

_TYPES = {"tool": "TOOL", "env": "TASK", "reward": "EVALUATOR"}
"""MLflow's word for an op kind; that of a model call depends on what it was given."""
_INPUTS, _OUTPUTS = "mlflow.spanInputs", "mlflow.spanOutputs"
_MAX_PREVIEW_CHARS = 1000
_MAX_NAME_CHARS = 250
_MAX_TAG_CHARS = 4096
RUN = "mlflow.sourceRun"
"""What ties a trace to a run."""
SOURCE = AssessmentSource("CODE", "rolltrace")
"""Who says so: feedback from anybody else is left alone."""


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
        self.root_id = int.from_bytes(_digest(trajectory.trajectory_id, 8), "big")
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


def info_of(trajectory: Trajectory, experiment_id: str, run_id: str) -> TraceInfo:
    """All about the trace but its spans."""
    asked, answered = _previews(trajectory)
    usage = trajectory.usage
    return TraceInfo(
        trace_id=trace_id_of(trajectory.trajectory_id),
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=trajectory.start_ns // 1_000_000,
        execution_duration=(trajectory.last_ns - trajectory.start_ns) // 1_000_000,
        state=TraceState.OK if trajectory.status == "ok" else TraceState.ERROR,
        request_preview=asked,
        response_preview=answered,
        client_request_id=trajectory.trajectory_id,
        trace_metadata={
            RUN: run_id,
            "mlflow.source.name": "rolltrace",
            **({} if usage is None else {"mlflow.trace.tokenUsage": strict_json(mlflow_usage(usage))}),
        },
        tags=_tags(trajectory),
        assessments=list({each.assessment_id: each for each in _feedback(trajectory)}.values()),
    )


def _previews(trajectory: Trajectory) -> tuple[str | None, str | None]:
    """What was asked and what was answered, for the columns of MLflow's list."""
    messages = trajectory.conversation
    asked = next((each.get("content") for each in messages if each.get("role") == "user"), None)
    answered = next((each.get("content") for each in reversed(messages) if each.get("role") == "assistant"), None)
    if trajectory.ops:
        asked = trajectory.ops[0].inputs if asked is None else asked
        answered = trajectory.ops[-1].outputs if answered is None else answered
    return _preview(asked), _preview(answered)


def _preview(value: Any) -> str | None:
    return None if value is None else cut(value if isinstance(value, str) else strict_json(value), _MAX_PREVIEW_CHARS)


def _tags(trajectory: Trajectory) -> dict[str, str]:
    """Ours, and the user's own where their names are free. The coordinates read as verl's tracing writes them."""
    ours = {
        "mlflow.traceName": trajectory.name,
        **trajectory.coordinates,
        "experiment_name": trajectory.experiment,
        "worker": trajectory.worker,
        "pruned": None if trajectory.pruned is None else str(trajectory.pruned),
        "flags": ",".join(trajectory.flags) or None,
        "rolltrace.status": trajectory.status,
        "rolltrace.trajectory_id": trajectory.trajectory_id,
        "rolltrace.url": view_link(trajectory.trajectory_id),
        "rolltrace.parent_trajectory_id": trajectory.parent_trajectory_id,
    }
    users = {
        f"tag.{key}" if key in ours or key.startswith(("mlflow.", "rolltrace.")) else key: value
        for key, value in trajectory.tags.items()
    }
    return {
        cut(key, _MAX_NAME_CHARS): cut(str(plain(value)), _MAX_TAG_CHARS)
        for key, value in {**users, **ours}.items()
        if value is not None
    }


def _feedback(trajectory: Trajectory) -> Iterator[Feedback]:
    """The newest score of each name, and its terms as `NAME/TERM`."""
    newest = trajectory.newest_scores
    for name, score in newest.items():
        terms = score["terms"]
        for term, part in terms.items() if isinstance(terms, dict) else ():
            if part is not None:
                yield _one(trajectory, f"{name}/{term}", part, score, {})
    for name, score in newest.items():  # after the terms: one may have the name of another's term
        value, label = score["value"], score.get("label")
        also = {} if value is None or label is None else {"label": label}
        if value is not None or label is not None:
            yield _one(trajectory, name, label if value is None else value, score, also)


def _one(trajectory: Trajectory, name: str, value: Any, score: Mapping[str, Any], also: dict[str, str]) -> Feedback:
    time_ms = score["time_ns"] // 1_000_000
    feedback = Feedback(
        name=cut(name, _MAX_NAME_CHARS),
        value=plain(value),
        source=SOURCE,
        trace_id=trace_id_of(trajectory.trajectory_id),
        rationale=score.get("reason"),
        metadata=also or None,
        create_time_ms=time_ms,
        last_update_time_ms=time_ms,
    )
    # Its id says which score it is, so a newer value takes its place.
    feedback.assessment_id = "a-" + _digest(f"{trajectory.trajectory_id}/{name}", 16).hex()
    return feedback


def _digest(text: str, size: int) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=size).digest()
