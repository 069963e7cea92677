"""What a call gave back, and how an op or a trajectory ended.

empty_response: a model call came back with no tokens, or with no text.

unread_reply: a model call from which neither text nor tokens could be read.

Its answer is in no conversation and no export, so somebody should know. What came back is told by its form.

cut_by_length: a response ended because it reached its greatest length.

Servers say so: vLLM, SGLang, OpenAI and tinker `length`, Anthropic `max_tokens`, Gemini `MAX_TOKENS`, OpenAI's
responses `max_output_tokens`. verl says `completed` either way; there the number of tokens tells.

tool_error: a tool op raised, or its result says that it failed in the words of a protocol.

Only what is certain: `isError` is MCP's word, `is_error` that of Anthropic's tool results. A text that reads like an
error may be what the model asked for.

interrupted: its process died before the op or the trajectory ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolltrace.drain.checks.check import Finding, OpFacts
from rolltrace.messages import stream_length
from rolltrace.record import Marker, Opaque

_ABORTED = frozenset({"abort", "aborted", "cancelled"})
"""Somebody stopped it before it could say anything: verl does when the weights change."""


def empty_response(op: OpFacts) -> Finding | None:
    fields = op.fields
    if fields["status"] != "ok" or not op.is_model_call:
        return None
    reason = fields.get("finish_reason")
    if reason in _ABORTED:
        return None
    if op.response_ids_count is None and op.replies:
        is_empty = len(op.replies) == 1 and op.replies[0].is_empty
    else:
        is_empty = fields.get("response_tokens") == 0
    return Finding("empty_response", {"finish_reason": reason} if reason else {}) if is_empty else None


_MAX_FIELDS = 16


def unread_reply(op: OpFacts) -> Finding | None:
    fields = op.fields
    if fields["kind"] != "llm" or fields["status"] != "ok":
        return None
    if op.response_ids_count is not None or fields.get("logprobs") is not None or op.replies:
        return None
    return Finding("unread_reply", _form(op.outputs))


def _form(outputs: Any) -> dict[str, Any]:
    length = stream_length(outputs)
    if length is not None:
        return {"returned": "stream", "items": length.total, "kept_items": length.kept}
    if isinstance(outputs, Opaque):
        return {"returned": outputs.type}
    if isinstance(outputs, Marker):
        return {"returned": type(outputs).__name__}
    if isinstance(outputs, dict):
        return {"returned": "dict", "fields": [str(name) for name in list(outputs)[:_MAX_FIELDS]]}
    return {"returned": "nothing" if outputs is None else type(outputs).__name__}


LENGTH_REASONS = frozenset(
    {"length", "max_tokens", "maxtokens", "max_length", "max_new_tokens", "max_output_tokens", "max_completion_tokens",
     "token_limit", "length_capped"}
)  # fmt: skip
_SEVERAL = ("choices", "outputs", "sequences")
_WITH_REASONS = frozenset({*_SEVERAL, "finish_reason", "meta_info", "incomplete_details"})
_UNCLEAR = frozenset({None, "completed"})
_LIMITS = ("max_tokens", "max_new_tokens", "max_completion_tokens", "max_output_tokens")

_WITH_LIMITS = frozenset({"sampling_params", *_LIMITS})


def cut_by_length(op: OpFacts) -> Finding | None:
    if not op.is_model_call or op.fields["status"] != "ok":
        return None
    count = op.fields.get("response_tokens")
    tokens = {} if count is None else {"response_tokens": count}
    own_reason = op.fields.get("finish_reason")
    for reason in (own_reason, *_reasons(op.outputs)):
        if isinstance(reason, str) and reason.lower() in LENGTH_REASONS:
            return Finding("cut_by_length", {"finish_reason": reason, **tokens})
    most = _most_tokens(op.inputs)
    # More than that is an agent loop around several calls.
    if most is not None and count == most and own_reason in _UNCLEAR:
        return Finding("cut_by_length", {**tokens, "max_tokens": most})
    return None


def _reasons(outputs: Any) -> Iterator[Any]:
    """Reasons that stand where no column is filled from: in SGLang's `meta_info`, or one per sample."""
    if not isinstance(outputs, dict) or _WITH_REASONS.isdisjoint(outputs):
        return
    for name in _SEVERAL:
        several = outputs.get(name)
        for sample in several if isinstance(several, list) else ():
            if isinstance(sample, dict):
                yield from (sample.get("finish_reason"), sample.get("stop_reason"))
    for place in (outputs, outputs.get("meta_info")):
        reason = place.get("finish_reason") if isinstance(place, dict) else None
        yield reason.get("type") if isinstance(reason, dict) else reason
    why = outputs.get("incomplete_details")
    yield why.get("reason") if isinstance(why, dict) else None


def _most_tokens(inputs: Any) -> int | None:
    """How many tokens the call allowed, if it was told."""
    if not isinstance(inputs, dict) or _WITH_LIMITS.isdisjoint(inputs):
        return None
    for place in (inputs.get("sampling_params"), inputs):
        if isinstance(place, dict):
            for name in _LIMITS:
                if type(place.get(name)) is int and place[name] > 0:
                    return int(place[name])
    return None


def tool_error(op: OpFacts) -> Finding | None:
    if op.fields["kind"] != "tool":
        return None
    if op.fields["status"] == "error":
        return Finding("tool_error", {"error": op.fields["error"]})
    outputs = op.outputs
    says_so = isinstance(outputs, dict) and (outputs.get("isError") is True or outputs.get("is_error") is True)
    return Finding("tool_error", {}) if says_so else None


def op_interrupted(op: OpFacts) -> Finding | None:
    return trajectory_interrupted(op.fields)


def trajectory_interrupted(fields: Mapping[str, Any]) -> Finding | None:
    return Finding("interrupted") if fields["status"] == "interrupted" else None
