"""Find token ids, logprobs and masks in the inputs and outputs of an op, under the names that frameworks use.

What is found becomes a typed column and is taken out of the JSON, where `{"$column": NAME}` stands in its place.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rolltrace.record import Array

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

_TYPES = {
    "prompt_ids": pa.int32(),
    "response_ids": pa.int32(),
    "logprobs": pa.float32(),
    "response_mask": pa.int8(),
}


def take_columns(inputs: Any, outputs: Any) -> dict[str, Any]:
    """The token columns and scalars of an op. Replaces what it takes in `inputs` and `outputs`."""
    found: dict[str, Any] = {}
    places = [place for value in (outputs, inputs) for place in _places(value)]
    for column, names in NAMES.items():
        for place in places:
            name = next((name for name in names if name in place), "")
            values = _typed(place[name], column) if name else None
            if values is not None:
                found[column] = values
                place[name] = {"$column": column}
                break
    for column, names in SCALARS.items():
        for place in places:
            value = next((place[name] for name in names if name in place), None)
            if isinstance(value, int if column == "policy_version" else str) and not isinstance(value, bool):
                found[column] = value
                break
    return join_tokens(found)


def join_tokens(found: dict[str, Any]) -> dict[str, Any]:
    """Prompt and response as one column: what an agent loop returns as its response is what its last model call saw
    as its prompt, and only within a column can the compression see that."""
    halves = []
    for column, count in (("prompt_ids", "prompt_tokens"), ("response_ids", "response_tokens")):
        ids = found.pop(column, None)
        if ids is not None:
            halves.append(ids)
            found[count] = len(ids)
    if halves:
        found["tokens"] = halves[0] if len(halves) == 1 else pa.concat_arrays(halves)
    return found


def _places(value: Any) -> list[dict[str, Any]]:
    """The dicts in which token fields may stand: the value itself, then the one completion inside it."""
    if not isinstance(value, dict):
        return []
    places = [value]
    for name in WRAPPERS:
        inner = value.get(name)
        if isinstance(inner, list) and len(inner) == 1:
            inner = inner[0]
        if isinstance(inner, dict):
            places.append(inner)
    return places


def _typed(value: Any, column: str) -> pa.Array | None:
    """The values as an Arrow array; None if they are not a flat list of fitting numbers."""
    if isinstance(value, pa.Array):
        return value
    if isinstance(value, Array):
        if len(value.shape) != 1:
            return None
        value = value.tolist()
    if not isinstance(value, list) or (value and isinstance(value[0], dict | list | str)):
        return None
    try:
        return pa.array(value, type=_TYPES[column])
    except (pa.ArrowException, TypeError, OverflowError, ValueError):
        return None
