"""What a trajectory is in Weave: one root call, a call per op below it, and a score per score.

Ids are made of ours, so that the same trajectory is always the same calls.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from rolltrace.backends.weave.fit import fit, json_bytes
from rolltrace.query import Op, Trajectory
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
_SAID = ("value", "terms", "label", "reason")
_REFERENCES = ("weave://", "weave-trace-internal://", "weave-private://")
_FRAME = re.compile(r' *File "(.*)", line (\d+), in (.*)\n(?: {4,}(?!File ")(.*)\n)?')
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Json = dict[str, Any]


class Call(NamedTuple):
    """One call, without the project and the op that it is of."""

    trajectory_id: str
    id: str
    op: str
    fields: Json


class Score(NamedTuple):
    """One score of a root call."""

    trajectory_id: str
    id: str
    name: str
    output: Json


def call_id(trajectory_id: str, op_id: int | None = None) -> str:
    """The id of an op's call, or of the root call; the root's is also the id of the trace."""
    root = uuid.UUID(hex=trajectory_id)
    return str(root if op_id is None else uuid.uuid5(root, str(op_id)))


def calls_of(trajectory: Trajectory) -> Iterator[Call]:
    """The root call, then one for each op, each before those inside it."""
    last_ns = _last_ns(trajectory)
    summaries = _summaries(trajectory)
    yield _call(trajectory, trajectory.name, _root(trajectory, last_ns, summaries[None]))
    parents = {child.op_id: op.op_id for op in trajectory.walk() for child in op.children}
    for op in trajectory.walk():
        parent_id = call_id(trajectory.trajectory_id, parents.get(op.op_id))
        yield _call(trajectory, op.name, _below(trajectory, op, parent_id, last_ns, summaries[op.op_id]))


def scores_of(trajectory: Trajectory) -> list[Score]:
    """The newest score of each name. One that has changed has another id."""
    newest = {row["name"]: row for row in trajectory.scores}
    root = uuid.UUID(hex=trajectory.trajectory_id)
    made = []
    for name, row in newest.items():
        said = to_json({key: row[key] for key in _SAID if row.get(key) not in (None, {})})
        content = json.dumps([name, row["time_ns"], said], sort_keys=True)
        output = fit(_defused(said), _MOST_SCORE_BYTES)
        made.append(Score(trajectory.trajectory_id, str(uuid.uuid5(root, content)), name, output))
    return made


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


def _call(trajectory: Trajectory, name: str, fields: Json) -> Call:
    fields["display_name"] = _defused(fields["display_name"])
    fields["attributes"] = fit(defused(fields["attributes"]), _MOST_ATTRIBUTE_BYTES)
    payload = {"inputs": defused(fields["inputs"]), "output": defused(fields["output"])}
    rest = json_bytes({**fields, "inputs": None, "output": None})
    fields.update(fit(payload, _MOST_CALL_BYTES - rest))
    return Call(trajectory.trajectory_id, fields["id"], name, fields)


def _root(trajectory: Trajectory, last_ns: int, summary: Json) -> Json:
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
        "started_at": _time(trajectory.start_ns),
        "ended_at": _time(trajectory.end_ns or last_ns),
        "inputs": {"messages": asked} if asked else {},
        "output": {"message": conversation[-1]} if replies else None,
        "exception": _exception(trajectory.status, trajectory.error, trajectory.traceback),
        "attributes": {
            **_where(trajectory),
            "status": trajectory.status,
            "tags": trajectory.tags,
            "flags": trajectory.flags,
            **({} if trajectory.pruned is None else {"pruned": str(trajectory.pruned)}),
            **{name: value for name in about if (value := getattr(trajectory, name)) is not None},
            "weave": {"kind": "agent"},
        },
        "summary": summary,
    }


def _below(trajectory: Trajectory, op: Op, parent_id: str, last_ns: int, summary: Json) -> Json:
    about = ("kind", "status", "policy_version", "finish_reason", "worker")
    given = {} if op.inputs is None else op.inputs
    return {
        "id": call_id(trajectory.trajectory_id, op.op_id),
        "trace_id": call_id(trajectory.trajectory_id),
        "parent_id": parent_id,
        "display_name": None if op.name == object_name(op.name) else op.name[:_LONGEST_TITLE],
        "started_at": _time(op.start_ns),
        "ended_at": _time(last_ns if op.end_ns is None else op.end_ns),
        "inputs": given if isinstance(given, dict) else {"inputs": given},
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
    where = {
        "step": trajectory.step,
        "sample_index": trajectory.sample_index,
        "rollout_n": trajectory.rollout_n,
        "validate": trajectory.validate,
        "experiment_name": trajectory.experiment,
        "run": trajectory.run,
        "trajectory_id": trajectory.trajectory_id,
    }
    return {name: value for name, value in where.items() if value is not None}


def _title(trajectory: Trajectory) -> str:
    words = (("step", trajectory.step), ("sample", trajectory.sample_index), ("rollout", trajectory.rollout_n))
    said = [f"{word} {value}" for word, value in words if value is not None]
    return " / ".join([*said, *(["validation"] if trajectory.validate else [])] or [trajectory.name])[:_LONGEST_TITLE]


def _last_ns(trajectory: Trajectory) -> int:
    """The last moment anything is known of: what was interrupted ends there, for Weave shows no other end."""
    ends = [op.end_ns or op.start_ns for op in trajectory.walk()]
    return max([trajectory.end_ns or trajectory.start_ns, *ends])


def _time(ns: int) -> str:
    return (_EPOCH + timedelta(microseconds=ns // 1000)).isoformat()


def _exception(status: str, error: str | None, traceback: str | None) -> str | None:
    """As Weave's own client writes one, which its page takes apart."""
    if status == "ok":
        return None
    kind, _, message = (error or "Interrupted: its process died before it ended").partition(": ")
    frames = [
        {"filename": file, "line_number": int(line), "function_name": function, "text": text}
        for file, line, function, text in _FRAME.findall(traceback or "")
    ]
    told = {"type": kind, "message": message, "traceback": frames, "text": traceback or ""}
    return json.dumps(fit(told, _MOST_ERROR_BYTES))


class _Counts(NamedTuple):
    """Of a call and all inside it."""

    success: int
    error: int
    requests: int
    prompt_tokens: int
    completion_tokens: int


def _summaries(trajectory: Trajectory) -> dict[int | None, Json]:
    """What Weave shows of each op, and under None of the whole: what went well and the tokens, as its client sums."""
    own = {
        op.op_id: (op.prompt_tokens or 0, op.response_tokens or 0)
        for op in trajectory.walk()
        if op.prompt_tokens is not None or op.response_tokens is not None
    }
    counts: dict[int | None, _Counts] = {}
    for op in reversed(list(trajectory.walk())):  # those inside come first
        counts[op.op_id] = _sum(op.status, [counts[child.op_id] for child in op.children], own.get(op.op_id))
    counts[None] = _sum(trajectory.status, [counts[op.op_id] for op in trajectory.ops], None)
    return {op_id: _summary(count) for op_id, count in counts.items()}


def _sum(status: str, inside: list[_Counts], tokens: tuple[int, int] | None) -> _Counts:
    total = _Counts(*(sum(column) for column in zip(*inside))) if inside else _Counts(0, 0, 0, 0, 0)
    if tokens is not None and not total.requests:  # what a model call inside this one has counted is not counted again
        total = total._replace(requests=1, prompt_tokens=tokens[0], completion_tokens=tokens[1])
    return total._replace(success=total.success + (status == "ok"), error=total.error + (status != "ok"))


def _summary(count: _Counts) -> Json:
    summary: Json = {"status_counts": {"success": count.success, "error": count.error}}
    if count.requests:
        tokens = {"prompt_tokens": count.prompt_tokens, "completion_tokens": count.completion_tokens}
        total = count.prompt_tokens + count.completion_tokens
        summary["usage"] = {"policy": {"requests": count.requests, **tokens, "total_tokens": total}}
    return summary
