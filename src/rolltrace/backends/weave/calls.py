"""What a trajectory is in Weave: one root call, a call per op below it, and a score per score.

Ids are made of ours, so that the same trajectory is always the same calls.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

from rolltrace.backends.values import iso_time, view_link
from rolltrace.backends.weave.fit import fit, json_bytes
from rolltrace.query import Op, TokenUsage, Trajectory
from rolltrace.record import to_json

_MOST_CALL_BYTES = 3 << 20
"""Weave keeps 3.5 MiB of JSON of a call, and replaces what is larger by a word."""
_MOST_SCORE_BYTES = 512 << 10
"""Weave refuses feedback of more than 1 MiB."""
_MOST_ATTRIBUTE_BYTES = 256 << 10
_MOST_ERROR_BYTES = 128 << 10
_LONGEST_NAME = 128
_LONGEST_TITLE = 1024
_KINDS = {"llm": "llm", "aux_llm": "llm", "tool": "tool", "reward": "scorer"}
"""Our kinds of op that Weave has an icon for."""
_SCORE_FIELDS = ("value", "terms", "label", "reason")
_REFERENCES = ("weave://", "weave-trace-internal://", "weave-private://")
_FRAME = re.compile(r' *File "(.*)", line (\d+), in (.*)\n(?: {4,}(?!File ")(.*)\n)?')
Json = dict[str, Any]


class WeaveCall(NamedTuple):
    """One call, without the project and the op that it is of."""

    trajectory_id: str
    id: str
    op: str
    fields: Json


class WeaveScore(NamedTuple):
    """One score of a root call."""

    trajectory_id: str
    id: str
    name: str
    output: Json


def call_id(trajectory_id: str, op_id: int | None = None) -> str:
    """The id of an op's call, or of the root call; the root's is also the id of the trace."""
    root = uuid.UUID(hex=trajectory_id)
    return str(root if op_id is None else uuid.uuid5(root, str(op_id)))


def calls_of(trajectory: Trajectory) -> Iterator[WeaveCall]:
    """The root call, then one for each op, each before those inside it."""
    summaries = _summaries(trajectory)
    yield _call(trajectory, trajectory.name, _root(trajectory, summaries[None]))
    parents = {child.op_id: op.op_id for op in trajectory.walk() for child in op.children}
    for op in trajectory.walk():
        parent_id = call_id(trajectory.trajectory_id, parents.get(op.op_id))
        yield _call(trajectory, op.name, _below(trajectory, op, parent_id, summaries[op.op_id]))


def scores_of(trajectory: Trajectory) -> list[WeaveScore]:
    """The newest score of each name. One that has changed has another id."""
    root = uuid.UUID(hex=trajectory.trajectory_id)
    scores = []
    for name, score in trajectory.newest_scores.items():
        values = to_json({key: score[key] for key in _SCORE_FIELDS if score[key] not in (None, {})})
        content = json.dumps([name, score.time_ns, values], sort_keys=True)
        output = fit(_defused(values), _MOST_SCORE_BYTES)
        scores.append(WeaveScore(trajectory.trajectory_id, str(uuid.uuid5(root, content)), name, output))
    return scores


def object_name(name: str) -> str:
    """A name as Weave has them for ops and scores: letters, digits, `.`, `_` and `-`."""
    return re.sub(r"[^\w.]+", "-", name).strip("-")[:_LONGEST_NAME] or "unnamed"


def defused(value: Any) -> Any:
    """A recorded value as JSON that means nothing to Weave.

    A text that looks like one of its references is resolved by it or refused, and a dict with `_type` is made into an
    object, when it is read. Both get a backslash.
    """
    return _defused(to_json(value))


def _defused(value: Any) -> Any:
    if isinstance(value, str):
        return f"\\{value}" if value.startswith(_REFERENCES) else value
    if isinstance(value, list):
        return [_defused(item) for item in value]
    if isinstance(value, dict):
        return {"\\_type" if key == "_type" else key: _defused(item) for key, item in value.items()}
    return value


def _call(trajectory: Trajectory, name: str, fields: Json) -> WeaveCall:
    fields["display_name"] = _defused(fields["display_name"])
    fields["attributes"] = fit(defused(fields["attributes"]), _MOST_ATTRIBUTE_BYTES)
    payload = {"inputs": defused(fields["inputs"]), "output": defused(fields["output"])}
    rest = json_bytes({**fields, "inputs": None, "output": None})
    fields.update(fit(payload, _MOST_CALL_BYTES - rest))
    return WeaveCall(trajectory.trajectory_id, fields["id"], name, fields)


def _root(trajectory: Trajectory, summary: Json) -> Json:
    conversation = trajectory.conversation
    replies = [number for number, message in enumerate(conversation) if message.get("role") == "assistant"]
    asked = conversation[: replies[0]] if replies else conversation
    own_id = call_id(trajectory.trajectory_id)
    about = ("turns", "tool_calls", "tool_errors", "prompt_tokens", "response_tokens", "policy_version_min",
             "policy_version_max", "worker", "parent_trajectory_id")  # fmt: skip
    return {
        "id": own_id,
        "trace_id": own_id,
        "parent_id": None,
        "display_name": _title(trajectory),
        "started_at": iso_time(trajectory.start_ns),
        "ended_at": iso_time(trajectory.last_ns),
        "inputs": {"messages": asked} if asked else {},
        "output": {"message": conversation[-1]} if replies else None,
        "exception": _exception(trajectory.status, trajectory.error, trajectory.traceback),
        "attributes": {
            **_where(trajectory),
            "status": trajectory.status,
            "tags": trajectory.tags,
            "flags": trajectory.flags,
            **({} if (link := view_link(trajectory.trajectory_id)) is None else {"url": link}),
            **({} if trajectory.pruned is None else {"pruned": str(trajectory.pruned)}),
            **{name: value for name in about if (value := getattr(trajectory, name)) is not None},
            "weave": {"kind": "agent"},
        },
        "summary": summary,
    }


def _below(trajectory: Trajectory, op: Op, parent_id: str, summary: Json) -> Json:
    about = ("kind", "status", "policy_version", "finish_reason", "worker")
    inputs = {} if op.inputs is None else op.inputs
    return {
        "id": call_id(trajectory.trajectory_id, op.op_id),
        "trace_id": call_id(trajectory.trajectory_id),
        "parent_id": parent_id,
        "display_name": None if op.name == object_name(op.name) else op.name[:_LONGEST_TITLE],
        "started_at": iso_time(op.start_ns),
        "ended_at": iso_time(op.last_ns),
        "inputs": inputs if isinstance(inputs, dict) else {"inputs": inputs},
        "output": op.outputs,
        "exception": _exception(op.status, op.error, op.traceback),
        "attributes": {
            **_where(trajectory),
            **{name: value for name in about if (value := getattr(op, name)) is not None},
            **({"weave": {"kind": _KINDS[op.kind]}} if op.kind in _KINDS else {}),
        },
        "summary": summary,
    }


def _where(trajectory: Trajectory) -> Json:
    return {
        **trajectory.coordinates,
        "experiment_name": trajectory.experiment,
        "trajectory_id": trajectory.trajectory_id,
    }


def _title(trajectory: Trajectory) -> str:
    words = (("step", trajectory.step), ("sample", trajectory.sample_index), ("rollout", trajectory.rollout_n))
    parts = [f"{word} {value}" for word, value in words if value is not None]
    return " / ".join([*parts, *(["validation"] if trajectory.validate else [])] or [trajectory.name])[:_LONGEST_TITLE]


def _exception(status: str, error: str | None, traceback: str | None) -> str | None:
    """As Weave's own client writes one, which its page takes apart."""
    if status == "ok":
        return None
    kind, _, message = (error or "Interrupted: its process died before it ended").partition(": ")
    frames = [
        {"filename": file, "line_number": int(line), "function_name": function, "text": text}
        for file, line, function, text in _FRAME.findall(traceback or "")
    ]
    exception = {"type": kind, "message": message, "traceback": frames, "text": traceback or ""}
    return json.dumps(fit(exception, _MOST_ERROR_BYTES))


def _summaries(trajectory: Trajectory) -> dict[int | None, Json]:
    """What Weave shows of each op, and under None of the whole: what went well and the tokens."""
    failures: dict[int | None, int] = {}
    sizes: dict[int | None, int] = {}
    summaries: dict[int | None, Json] = {}
    for op in reversed(list(trajectory.walk())):  # those inside come first
        sizes[op.op_id] = 1 + sum(sizes[child.op_id] for child in op.children)
        failures[op.op_id] = (op.status != "ok") + sum(failures[child.op_id] for child in op.children)
        summaries[op.op_id] = _summary(sizes[op.op_id], failures[op.op_id], op.usage)
    size = 1 + sum(sizes[op.op_id] for op in trajectory.ops)
    failed = (trajectory.status != "ok") + sum(failures[op.op_id] for op in trajectory.ops)
    summaries[None] = _summary(size, failed, trajectory.usage)
    return summaries


def _summary(size: int, failed: int, usage: TokenUsage | None) -> Json:
    summary: Json = {"status_counts": {"success": size - failed, "error": failed}}
    if usage is not None:
        counts = {
            "requests": usage.model_calls,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.response_tokens,
            "total_tokens": usage.total_tokens,
        }
        summary["usage"] = {"policy": counts}
    return summary
