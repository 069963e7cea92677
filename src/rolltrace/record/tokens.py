"""Where token ids stand in the inputs and outputs of an op, under the names that frameworks use."""

from __future__ import annotations

from typing import Any, NamedTuple

from rolltrace.record.values import Array

NAMES: dict[str, tuple[str, ...]] = {
    "prompt_ids": ("prompt_ids", "prompt_token_ids", "input_ids", "prompt_tokens"),
    "response_ids": (
        "response_ids", "token_ids", "output_ids", "output_token_ids", "response_token_ids", "completion_token_ids",
        "completion_ids", "tokens",
    ),
    "logprobs": (
        "logprobs", "log_probs", "response_logprobs", "output_token_logprobs", "rollout_log_probs",
        "completion_logprobs",
    ),
    "response_mask": ("response_mask", "loss_mask", "completion_mask", "action_mask"),
}  # fmt: skip
"""Column -> the keys that verl, tinker, vLLM, SGLang and OpenAI-style outputs have for it."""

PROMPT_NAMES = frozenset(NAMES["prompt_ids"])

SCALARS: dict[str, tuple[str, ...]] = {
    "policy_version": ("policy_version", "weight_version", "model_version", "param_version"),
    "finish_reason": ("finish_reason", "stop_reason"),
}
WRAPPERS = ("outputs", "choices", "sequences", "output")
"""Where vLLM, OpenAI-style and tinker outputs keep the one completion."""
SIDES = ("extra_fields", "metrics", "meta_info")
"""Where verl and SGLang outputs keep scalars about it."""

OWN_PROCESS = "own-process"
"""In the place of a tokenizer's fingerprint: its own process decodes the tokens, and tells the text later."""


class TokenIds(NamedTuple):
    """The tokens of an op; None for what it has none of."""

    prompt: list[int] | None
    response: list[int] | None


def places(value: Any) -> list[dict[str, Any]]:
    """The dicts in which token fields may stand: the value itself, then the one completion inside it."""
    if not isinstance(value, dict):
        return []
    found = [value]
    for name in WRAPPERS:
        inner = value.get(name)
        if isinstance(inner, list) and len(inner) == 1:
            inner = inner[0]
        if isinstance(inner, dict):
            found.append(inner)
    return found


def flat_list(value: Any) -> list[Any] | None:
    """The value as a flat list, perhaps of numbers; None if it is not one."""
    if isinstance(value, Array):
        if len(value.shape) != 1:
            return None
        value = value.tolist()
    if not isinstance(value, list) or (value and isinstance(value[0], dict | list | str)):
        return None
    return value


def token_ids(inputs: Any, outputs: Any) -> TokenIds:
    """The token ids of an op, found as the drainer finds them for its columns."""
    found = [place for value in (outputs, inputs) for place in places(value)]
    return TokenIds(_first_ids(found, "prompt_ids"), _first_ids(found, "response_ids"))


def _first_ids(found: list[dict[str, Any]], column: str) -> list[int] | None:
    for place in found:
        name = next((name for name in NAMES[column] if name in place), "")
        ids = flat_list(place[name]) if name else None
        if ids is not None and all(type(each) is int for each in ids):
            return ids
    return None
