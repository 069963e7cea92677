"""What an op or a trajectory says about itself, in the words of OpenTelemetry.

Three vocabularies side by side: the GenAI semantic conventions (`gen_ai.*`), OpenInference (`openinference.span.kind`,
`input.value`, `output.value`), which Phoenix reads, and our own coordinates (`rl.*`). docs/howto/otlp.md lists them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rolltrace.backends.otlp.wire import Value
from rolltrace.backends.values import strict_json, view_link
from rolltrace.messages import read_given_messages, to_genai
from rolltrace.query import Op, Trajectory
from rolltrace.record import MODEL_KINDS

_OPENINFERENCE = {"llm": "LLM", "aux_llm": "LLM", "tool": "TOOL", "reward": "EVALUATOR"}
_PARAMETERS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_tokens": "max_tokens",
    "max_new_tokens": "max_tokens",
    "seed": "seed",
}
_USAGE = {
    "gen_ai.usage.input_tokens": "prompt_tokens",
    "gen_ai.usage.output_tokens": "response_tokens",
    "gen_ai.usage.cache_read.input_tokens": "cached_tokens",
    "rl.reasoning_tokens": "reasoning_tokens",
}
_OUR_INT = 1 << 63
_MAX_FLOAT_BITS = 1024
"""Bits of an integer that is still a float."""


def coordinates(trajectory: Trajectory) -> dict[str, Value]:
    """Where a trajectory stands; on each of its spans, because most receivers filter spans."""
    where = trajectory.coordinates
    attributes = {f"rl.{name}": str(value) if name == "sample_index" else value for name, value in where.items()}
    if isinstance(where.get("sample_index"), int):
        attributes["rl.sample_is_int"] = True
    return {"rl.project": trajectory.project, "rl.experiment": trajectory.experiment, **attributes}


def of_op(op: Op) -> dict[str, Value]:
    """The attributes of an op, without its coordinates."""
    attributes: dict[str, Value] = {"openinference.span.kind": _OPENINFERENCE.get(op.kind, "CHAIN"), "rl.kind": op.kind}
    if op.kind in MODEL_KINDS:
        attributes.update(_of_llm(op))
    elif op.kind == "tool":
        attributes.update({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": op.name})
    attributes.update({**_value("input", op.inputs), **_value("output", op.outputs)})
    if op.policy_version is not None:
        attributes["rl.policy_version"] = op.policy_version
    if op.worker:
        attributes["rl.worker"] = op.worker
    return {**attributes, **_ending(op)}


def of_trajectory(trajectory: Trajectory) -> dict[str, Value]:
    """The attributes of the root span, without its coordinates."""
    conversation = trajectory.conversation
    asked = next((message.get("content") for message in conversation if message.get("role") == "user"), None)
    is_answered = bool(conversation) and conversation[-1].get("role") == "assistant"
    has_parent = bool(trajectory.parent_trajectory_id)
    attributes: dict[str, Value | None] = {
        "openinference.span.kind": "AGENT",
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": trajectory.name,
        "rl.trajectory_id": trajectory.trajectory_id,
        "rl.url": view_link(trajectory.trajectory_id),
        "rl.turns": trajectory.turns,
        "rl.tool_calls": trajectory.tool_calls,
        **_value("input", asked),
        **_value("output", conversation[-1].get("content") if is_answered else None),
        "rl.policy_version": trajectory.policy_version_max,
        "rl.pruned": None if trajectory.pruned is None else str(trajectory.pruned),
        "rl.flags": trajectory.flags or None,
        **{f"rl.tag.{name}": _as_attribute(value) for name, value in trajectory.tags.items()},
        **{key: value for score in trajectory.newest_scores.values() for key, value in of_score(score).items()},
        **_ending(trajectory),
        "rl.tags": strict_json(dict(trajectory.tags)) if trajectory.tags else None,
        "rl.parent_trajectory_id": trajectory.parent_trajectory_id if has_parent else None,
        "rl.parent_op_id": trajectory.parent_op_id or 0 if has_parent else None,
        "rl.is_group": trajectory.is_group or None,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def whole_scores(scores: Iterable[Mapping[str, Any]]) -> dict[str, Value]:
    """Scores with all that is known of them, for `rolltrace collect`."""
    told = [{name: value for name, value in score.items() if value is not None} for score in scores]
    return {"rl.scores": strict_json(told)} if told else {}


def of_score(score: Mapping[str, Any]) -> dict[str, Value]:
    """A score as attributes: `rl.reward` and `rl.reward_terms.NAME`, or `rl.score.NAME` for others."""
    name = str(score["name"])
    key, term_key = (
        ("rl.reward", "rl.reward_terms") if name == "reward" else (f"rl.score.{name}", f"rl.score_terms.{name}")
    )
    attributes = dict(_number(key, score["value"] if score.get("label") is None else score["label"]))
    for term, value in (score.get("terms") or {}).items():
        attributes.update(_number(f"{term_key}.{term}", value))
    return attributes


def _number(key: str, value: Any) -> Iterator[tuple[str, Value]]:
    """A receiver that writes JSON could lose the span over NaN or infinity: these come as text, under another name."""
    if isinstance(value, str):
        yield f"{key}_text", value
    elif isinstance(value, int) and value.bit_length() >= _MAX_FLOAT_BITS:
        yield f"{key}_text", hex(value)
    elif isinstance(value, int | float):
        yield (key, float(value)) if math.isfinite(value) else (f"{key}_text", str(value))


def _of_llm(op: Op) -> Iterator[tuple[str, Value]]:
    inputs = op.inputs if isinstance(op.inputs, dict) else {}
    outputs = op.outputs if isinstance(op.outputs, dict) else {}
    messages = read_given_messages(inputs)
    yield "gen_ai.operation.name", "text_completion" if messages is None else "chat"
    for key, holder in (("gen_ai.request.model", inputs), ("gen_ai.response.model", outputs)):
        if isinstance(holder.get("model"), str):
            yield key, holder["model"]
    parameters = inputs.get("sampling_params")
    for holder in (inputs, parameters if isinstance(parameters, dict) else {}):
        for name, word in _PARAMETERS.items():
            if _is_number(holder.get(name)):
                yield f"gen_ai.request.{word}", holder[name]
    for key, count in _USAGE.items():
        if getattr(op, count) is not None:
            yield key, getattr(op, count)
    if op.finish_reason:
        yield "gen_ai.response.finish_reasons", [op.finish_reason]
    if messages is not None:
        yield "gen_ai.input.messages", strict_json([to_genai(message) for message in messages])
    reply = op.reply
    if reply is not None:
        answer = {**to_genai(reply), "finish_reason": op.finish_reason or "stop"}
        yield "gen_ai.output.messages", strict_json([answer])


def _value(which: str, value: Any) -> dict[str, Value]:
    if value is None:
        return {}
    is_text = isinstance(value, str)
    mime_type = "text/plain" if is_text else "application/json"
    return {f"{which}.value": value if is_text else strict_json(value), f"{which}.mime_type": mime_type}


def _ending(ended: Op | Trajectory) -> dict[str, Value]:
    failed: dict[str, Value] = {} if ended.status == "ok" else {"error.type": error_type(ended)}
    return {"rl.status": ended.status, **failed}


def error_type(ended: Op | Trajectory) -> str:
    """The exception's type, or how it ended without one: cancelled, interrupted."""
    return ended.error.partition(":")[0] if ended.error else ended.status


def _as_attribute(value: Any) -> Value:
    return value if isinstance(value, str | bool) or _is_number(value) else strict_json(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_OUR_INT <= value < _OUR_INT if isinstance(value, int) else math.isfinite(value)
