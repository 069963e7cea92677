"""What a trajectory is in Weave: one root call, a call per op below it, and a score per score.

Ids are made of ours, so that the same trajectory is always the same calls.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rolltrace.backends.values import iso_time, view_link
from rolltrace.backends.weave.fit import fit, json_bytes
from rolltrace.query import Op, TokenUsage, Trajectory
from rolltrace.record import to_json

_MAX_CALL_BYTES = 3 << 20
"""Weave keeps 3.5 MiB of JSON of a call, and replaces what is larger by a word."""
_MAX_SCORE_BYTES = 512 << 10
"""Weave refuses feedback of more than 1 MiB."""
_MAX_ATTRIBUTE_BYTES = 256 << 10
_MAX_ERROR_BYTES = 128 << 10
_MAX_NAME_CHARS = 128
_MAX_TITLE_CHARS = 1024
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
    yield _root(trajectory, summaries[None])
    parents = {child.op_id: op.op_id for op in trajectory.walk() for child in op.children}
    for op in trajectory.walk():
        yield _below(trajectory, op, call_id(trajectory.trajectory_id, parents.get(op.op_id)), summaries[op.op_id])


def scores_of(trajectory: Trajectory) -> list[WeaveScore]:
    """The newest score of each name. One that has changed has another id."""
    root = uuid.UUID(hex=trajectory.trajectory_id)
    scores = []
    for name, score in trajectory.newest_scores.items():
        values = to_json({key: score[key] for key in _SCORE_FIELDS if score[key] not in (None, {})})
        content = json.dumps([name, score.time_ns, values], sort_keys=True)
        output = fit(_defused(values), _MAX_SCORE_BYTES)
        scores.append(WeaveScore(trajectory.trajectory_id, str(uuid.uuid5(root, content)), name, output))
    return scores


def object_name(name: str) -> str:
    """A name as Weave has them for ops and scores: letters, digits, `.`, `_` and `-`."""
    return re.sub(r"[^\w.]+", "-", name).strip("-")[:_MAX_NAME_CHARS] or "unnamed"


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


def _root(trajectory: Trajectory, summary: Json) -> WeaveCall:
    conversation = trajectory.conversation
    replies = [number for number, message in enumerate(conversation) if message.get("role") == "assistant"]
    asked = conversation[: replies[0]] if replies else conversation
    words = (("step", trajectory.step), ("sample", trajectory.sample_index), ("rollout", trajectory.rollout_n))
    title = [f"{word} {value}" for word, value in words if value is not None]
    title += ["validation"] if trajectory.validate else []
    about = ("turns", "tool_calls", "tool_errors", "prompt_tokens", "response_tokens", "policy_version_min",
             "policy_version_max", "worker", "parent_trajectory_id")  # fmt: skip
    attributes = {
        "status": trajectory.status,
        "tags": trajectory.tags,
        "flags": trajectory.flags,
        **({} if (link := view_link(trajectory.trajectory_id)) is None else {"url": link}),
        **({} if trajectory.pruned is None else {"pruned": str(trajectory.pruned)}),
        **_named(trajectory, about),
        "weave": {"kind": "agent"},
    }
    return _call(
        trajectory, trajectory, call_id(trajectory.trajectory_id), None, " / ".join(title or [trajectory.name]),
        {"messages": asked} if asked else {}, {"message": conversation[-1]} if replies else None, attributes, summary,
    )  # fmt: skip


def _below(trajectory: Trajectory, op: Op, parent_id: str, summary: Json) -> WeaveCall:
    about = _named(op, ("kind", "status", "policy_version", "finish_reason", "worker"))
    inputs = {} if op.inputs is None else op.inputs if isinstance(op.inputs, dict) else {"inputs": op.inputs}
    title = None if op.name == object_name(op.name) else op.name
    kind = {"weave": {"kind": _KINDS[op.kind]}} if op.kind in _KINDS else {}
    own_id = call_id(trajectory.trajectory_id, op.op_id)
    return _call(trajectory, op, own_id, parent_id, title, inputs, op.outputs, {**about, **kind}, summary)


def _call(
    trajectory: Trajectory, traced: Op | Trajectory, own_id: str, parent_id: str | None, title: str | None, inputs: Any,
    output: Any, attributes: Json, summary: Json,
) -> WeaveCall:  # fmt: skip
    where = {
        **trajectory.coordinates,
        "experiment_name": trajectory.experiment,
        "trajectory_id": trajectory.trajectory_id,
    }
    fields = {
        "id": own_id,
        "trace_id": call_id(trajectory.trajectory_id),
        "parent_id": parent_id,
        "display_name": None if title is None else _defused(title[:_MAX_TITLE_CHARS]),
        "started_at": iso_time(traced.start_ns),
        "ended_at": iso_time(traced.last_ns),
        "inputs": None,
        "output": None,
        "exception": _exception(traced),
        "attributes": fit(defused({**where, **attributes}), _MAX_ATTRIBUTE_BYTES),
        "summary": summary,
    }
    payload = {"inputs": defused(inputs), "output": defused(output)}
    fields.update(fit(payload, _MAX_CALL_BYTES - json_bytes(fields)))
    return WeaveCall(trajectory.trajectory_id, own_id, traced.name, fields)


def _named(traced: Op | Trajectory, names: Sequence[str]) -> Json:
    return {name: value for name in names if (value := getattr(traced, name)) is not None}


def _exception(ended: Op | Trajectory) -> str | None:
    """As Weave's own client writes one, which its page takes apart."""
    if ended.status == "ok":
        return None
    kind, _, message = (ended.error or "Interrupted: its process died before it ended").partition(": ")
    traceback = ended.traceback or ""
    frames = [
        {"filename": file, "line_number": int(line), "function_name": function, "text": text}
        for file, line, function, text in _FRAME.findall(traceback)
    ]
    exception = {"type": kind, "message": message, "traceback": frames, "text": traceback}
    return json.dumps(fit(exception, _MAX_ERROR_BYTES))


def _summaries(trajectory: Trajectory) -> dict[int | None, Json]:
    """What Weave shows of each op, and under None of the whole: what went well and the tokens."""
    counts: dict[int, tuple[int, int]] = {}
    summaries: dict[int | None, Json] = {}

    def count(traced: Op | Trajectory, inside: list[Op]) -> tuple[int, int]:
        """The calls of an op and all inside it, and how many of them failed."""
        below = [counts[op.op_id] for op in inside]
        return 1 + sum(size for size, _ in below), (traced.status != "ok") + sum(failed for _, failed in below)

    for op in reversed(list(trajectory.walk())):  # those inside come first
        counts[op.op_id] = count(op, op.children)
        summaries[op.op_id] = _summary(*counts[op.op_id], op.usage)
    summaries[None] = _summary(*count(trajectory, trajectory.ops), trajectory.usage)
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
