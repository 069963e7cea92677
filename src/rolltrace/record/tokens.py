"""Where token ids and logprobs stand in the inputs and outputs of an op, under the names that frameworks use.

Most have lists of numbers. Those that have a dict for each token are read by `spelt_out`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rolltrace.record.values import Array

TOKEN_NAMES: dict[str, tuple[str, ...]] = {
    "prompt_ids": (
        "prompt_ids", "prompt_token_ids", "input_ids", "input_token_ids", "prompt_tokens", "input_tokens",
    ),
    "response_ids": (
        "response_ids", "token_ids", "output_ids", "output_token_ids", "response_token_ids", "completion_token_ids",
        "completion_ids", "generation_token_ids", "generated_token_ids", "generated_ids", "tokens", "output_tokens",
        "response_tokens", "completion_tokens", "ids",
    ),
    "logprobs": (
        "logprobs", "log_probs", "response_logprobs", "response_log_probs", "output_token_logprobs", "output_logprobs",
        "rollout_log_probs", "rollout_logprobs", "completion_logprobs", "generation_logprobs", "generation_log_probs",
        "sampling_logprobs", "sampling_per_token_logps", "per_token_logps", "token_logprobs", "maybe_logprobs",
        "action_log_probs", "logps",
    ),
    "response_mask": (
        "response_mask", "loss_mask", "completion_mask", "action_mask", "token_loss_mask", "env_mask", "tool_mask",
        "mask",
    ),
}  # fmt: skip
"""Column -> the keys that are read for it, the first that fits: docs/reference/names.md says whose they are."""
BARE_NAMES = frozenset({"ids", "mask"})
"""Names that say little: read from what an op returned, and only where another of these names stands beside them."""

COLUMN_OF = {name: column for column, names in TOKEN_NAMES.items() for name in names}
_RANK = {name: rank for rank, name in enumerate(COLUMN_OF)}

TOKEN_SCALARS: dict[str, tuple[str, ...]] = {
    "policy_version": ("policy_version", "weight_version", "model_version", "param_version"),
    "finish_reason": ("finish_reason", "stop_reason", "finishReason"),
}
TOKEN_WRAPPERS = ("outputs", "choices", "sequences", "output", "candidates")
"""Where vLLM, OpenAI-style, tinker and Gemini outputs keep the one completion."""
SIDES = ("extra_fields", "metrics", "meta_info", "details", "response_metadata", "message")
"""Where verl, SGLang, TGI and LangChain outputs keep scalars about it."""
_SIDE_NAMES = frozenset(SIDES)
_INSIDE_NAMES = frozenset({"messages", "generations", *TOKEN_WRAPPERS})

OWN_PROCESS = "own-process"
"""In the place of a tokenizer's fingerprint: its own process decodes the tokens, and tells the text later."""


class TokenIds(NamedTuple):
    """The tokens of an op; None for what it has none of."""

    prompt: list[int] | None
    response: list[int] | None


def places(value: Any) -> list[dict[str, Any]]:
    """The dicts in which token fields may stand: the value itself, then the one completion inside it."""
    value = _only(value)  # vLLM gives a list of results, also of one
    if not isinstance(value, dict):
        return []
    standing = [value]
    if _INSIDE_NAMES.isdisjoint(value):
        return standing
    messages = value.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], dict):  # the state of a LangGraph
        standing.append(messages[-1])
    generation = _only(_only(value.get("generations")))
    if isinstance(generation, dict) and isinstance(generation.get("message"), dict):  # LangChain
        standing.append(generation["message"])
    for name in TOKEN_WRAPPERS:
        inner = _only(value.get(name))
        if isinstance(inner, dict):
            standing.append(inner)
            if isinstance(inner.get("provider_specific_fields"), dict):  # where LiteLLM puts what OpenAI does not have
                standing.append(inner["provider_specific_fields"])
            if name == "choices" and isinstance(inner.get("message"), dict):  # NeMo Gym
                standing.append(inner["message"])
    return standing


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def sides(standing: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The dicts beside these in which scalars may stand."""
    return [
        side
        for place in standing
        if not _SIDE_NAMES.isdisjoint(place)
        for name in SIDES
        if isinstance(side := place.get(name), dict)
    ]


def names_in(place: dict[str, Any], *, is_answer: bool) -> dict[str, list[str]]:
    """Column -> the names in a dict under which its values may stand, the likeliest first.

    Args:
        place: One of `places`.
        is_answer: Whether it is of what an op returned, and not of what it was given.
    """
    found = [name for name in place if name in COLUMN_OF]
    if not is_answer or len(found) == 1:
        found = [name for name in found if name not in BARE_NAMES]
    columns: dict[str, list[str]] = {}
    for name in sorted(found, key=_RANK.__getitem__) if len(found) > 1 else found:
        columns.setdefault(COLUMN_OF[name], []).append(name)
    return columns


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
    """The token ids of an op, found as the drainer finds them for its columns; `outputs` with a stream joined."""
    answered, given = places(outputs), places(inputs)
    named = [(place, names_in(place, is_answer=at < len(answered))) for at, place in enumerate((*answered, *given))]
    prompt, response = (_first_ids(named, column) for column in ("prompt_ids", "response_ids"))
    if prompt is None or response is None:
        spelt = spelt_out(answered)
        prompt, response = prompt or spelt.get("prompt_ids"), response or spelt.get("response_ids")
    return TokenIds(prompt, response)


def _first_ids(named: list[tuple[dict[str, Any], dict[str, list[str]]]], column: str) -> list[int] | None:
    for place, names in named:
        for name in names.get(column, ()):
            ids = flat_list(place[name])
            if ids is not None and all(type(each) is int for each in ids):
                return ids
    return None


def spelt_out(standing: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The token columns of outputs that have a dict or a list for each token, as far as they are understood.

    Of several logprobs at a place, the one of the token that was taken is meant.
    """
    columns: dict[str, list[Any]] = {}
    for place in standing:
        for read in (_vllm, _sglang, _tgi, _openai):
            for column, values in read(place).items():
                if values:
                    columns.setdefault(column, values)
    return columns


def _vllm(place: dict[str, Any]) -> dict[str, list[Any]]:
    """`[{token id: {"logprob", "rank", "decoded_token"}, ...}, ...]`, or the same in flat lists."""
    logprobs, ids = place.get("logprobs"), flat_list(place.get("token_ids"))
    if isinstance(logprobs, dict) and isinstance(logprobs.get("start_indices"), list):
        logprobs = _unflattened(logprobs)
    if not isinstance(logprobs, list) or ids is None or len(logprobs) != len(ids):
        return {}
    chosen = [_logprob_of(several, token) for several, token in zip(logprobs, ids)]
    return {} if None in chosen else {"logprobs": chosen}


def _unflattened(flat: dict[str, Any]) -> list[Any]:
    columns = [flat.get(name) for name in ("start_indices", "end_indices", "token_ids", "logprobs")]
    if not all(isinstance(column, list) for column in columns):
        return []
    starts, ends, ids, logprobs = columns
    return [dict(zip(ids[start:end], logprobs[start:end])) for start, end in zip(starts, ends)]  # type: ignore[index, arg-type]


def _logprob_of(several: Any, token: Any) -> float | None:
    if not isinstance(several, dict):
        return None
    one = several.get(token, several.get(str(token)))  # JSON has no numbers as keys
    one = one.get("logprob") if isinstance(one, dict) else one
    return float(one) if isinstance(one, int | float) else None


def _sglang(place: dict[str, Any]) -> dict[str, list[Any]]:
    """`[[logprob, token id, text], ...]`, for the response and, from some place on, for the prompt."""
    info = place.get("meta_info")
    if not isinstance(info, dict):
        return {}
    columns = {}
    response = _triples(info.get("output_token_logprobs"))
    if response and all(isinstance(logprob, int | float) for logprob, _ in response):
        columns = {"logprobs": [logprob for logprob, _ in response], "response_ids": [token for _, token in response]}
    prompt = _triples(info.get("input_token_logprobs"))
    if prompt and len(prompt) == info.get("prompt_tokens"):  # all of it, then
        columns["prompt_ids"] = [token for _, token in prompt]
    return columns


def _triples(values: Any) -> list[tuple[Any, int]]:
    if not isinstance(values, list) or not all(isinstance(each, list) and len(each) >= 2 for each in values):
        return []
    pairs = [(each[0], each[1]) for each in values]
    return pairs if all(type(token) is int for _, token in pairs) else []


def _tgi(place: dict[str, Any]) -> dict[str, list[Any]]:
    """`details` with `tokens` and `prefill`: `[{"id", "text", "logprob"}, ...]`."""
    details = place.get("details")
    if not isinstance(details, dict):
        return {}
    columns: dict[str, list[Any]] = {}
    for column, name in (("response_ids", "tokens"), ("prompt_ids", "prefill")):
        tokens = details.get(name)
        if isinstance(tokens, list) and all(isinstance(each, dict) and type(each.get("id")) is int for each in tokens):
            columns[column] = [each["id"] for each in tokens]
            logprobs = [each.get("logprob") for each in tokens]
            if name == "tokens" and all(isinstance(each, int | float) for each in logprobs):
                columns["logprobs"] = logprobs
    return columns


def _openai(place: dict[str, Any]) -> dict[str, list[Any]]:
    """`logprobs` with `content`, or `token_logprobs`, of a choice; LangChain has it among the response's metadata."""
    metadata = place.get("response_metadata")
    for holder in (place, metadata if isinstance(metadata, dict) else {}):
        logprobs = holder.get("logprobs")
        if (
            isinstance(logprobs, list)
            and logprobs
            and all(isinstance(each, dict) and "token" in each for each in logprobs)
        ):
            logprobs = {"content": logprobs}
        if not isinstance(logprobs, dict):
            continue
        content, flat = logprobs.get("content"), logprobs.get("token_logprobs")
        if isinstance(content, list) and all(isinstance(each, dict) for each in content):
            values = [each.get("logprob") for each in content]
            ids = [_named_id(each.get("token")) for each in content]
            if all(isinstance(each, int | float) for each in values):
                return {"logprobs": values, **({} if None in ids else {"response_ids": ids})}
        if isinstance(flat, list) and all(isinstance(each, int | float) for each in flat):
            return {"logprobs": flat}
    return {}


def _named_id(token: Any) -> int | None:
    """The id of a token that a server was asked to name by it."""
    name = token.removeprefix("token_id:") if isinstance(token, str) and token.startswith("token_id:") else ""
    return int(name) if name.isdecimal() else None
