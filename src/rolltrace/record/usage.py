"""How many tokens a model's server says that a call took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rolltrace.record.tokens import COLUMN_OF, SIDES, TOKEN_SCALARS, TOKEN_WRAPPERS


class Usage(NamedTuple):
    """What was said; None for what was not."""

    prompt_tokens: int | None = None
    response_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the prompt: read from a cache."""
    reasoning_tokens: int | None = None
    """Of the response: thought, and not shown."""


_NOTHING = Usage()
USAGE_PLACES = ("usage", "usage_metadata", "usageMetadata", "token_usage", "meta_info", "details")
_AROUND = ("response_metadata", "llm_output", "message", "response")
_LISTS = ("outputs", "choices", "generations", "messages")
_INSIDE_NAMES = frozenset({*USAGE_PLACES, *_AROUND, *_LISTS})
USAGE_NAMES = {
    "prompt_tokens": ("prompt_tokens", "input_tokens", "prompt_token_count", "promptTokenCount"),
    "response_tokens": (
        "completion_tokens", "output_tokens", "generated_tokens", "candidates_token_count", "candidatesTokenCount",
    ),
    "cached_tokens": (
        "cached_tokens", "cache_read_input_tokens", "cache_read", "num_cached_tokens", "cached_content_token_count",
        "cachedContentTokenCount",
    ),
    "reasoning_tokens": ("reasoning_tokens", "reasoning", "thoughts_token_count", "thoughtsTokenCount"),
}  # fmt: skip
USAGE_DETAILS = {
    "cached_tokens": ("prompt_tokens_details", "input_tokens_details", "input_token_details"),
    "reasoning_tokens": ("completion_tokens_details", "output_tokens_details", "output_token_details"),
}
_CACHE_OF_ANTHROPIC = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""What Anthropic does not count among the tokens of the input."""
_THOUGHTS_OF_GEMINI = ("thoughts_token_count", "thoughtsTokenCount")
"""What Gemini does not count among the tokens of the response."""
_DEEPEST = 4


_PLAIN = frozenset({str, int, float, bool, type(None)})
_TELLING = frozenset(
    {*USAGE_PLACES, *_AROUND, *_LISTS, *TOKEN_WRAPPERS, *SIDES, *COLUMN_OF, "items", "num_cached_tokens", "object"}
).union(*TOKEN_SCALARS.values())


def may_tell(value: Any) -> bool:
    """Whether tokens or anything about them may be found in a value. Most ops of tools have none of the names."""
    kind = type(value)
    if kind is dict:
        return not _TELLING.isdisjoint(value)
    return not _PLAIN.issuperset(map(type, value)) if kind is list else kind not in _PLAIN


def usage_of(whole: Any) -> Usage:
    """What the outputs of a model call, a stream joined, say about the tokens it took."""
    for place in _places(whole, 0):
        usage = _read(place)
        if usage != _NOTHING:
            return usage
    if isinstance(whole, list) and len(whole) == 1:
        whole = whole[0]
    return Usage(cached_tokens=_count(whole.get("num_cached_tokens"))) if isinstance(whole, dict) else _NOTHING  # vLLM


def _places(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if isinstance(value, list) and value:
        value = value[-1]  # of a conversation, what came last
    if not isinstance(value, dict) or depth > _DEEPEST:
        return
    if _INSIDE_NAMES.isdisjoint(value):
        return
    for name in USAGE_PLACES:
        if isinstance(value.get(name), dict):
            yield value[name]
    for name in (*_AROUND, *_LISTS):
        if isinstance(value.get(name), dict | list):
            yield from _places(value[name], depth + 1)


def _read(usage: dict[str, Any]) -> Usage:
    counts = {field: _first(usage, names) for field, names in USAGE_NAMES.items()}
    for field, holders in USAGE_DETAILS.items():
        for holder in holders:
            if counts[field] is None and isinstance(usage.get(holder), dict):
                counts[field] = _first(usage[holder], USAGE_NAMES[field])
    if counts["prompt_tokens"] is not None and "input_tokens" in usage:
        counts["prompt_tokens"] += sum(_count(usage.get(name)) or 0 for name in _CACHE_OF_ANTHROPIC)
    thoughts = _first(usage, _THOUGHTS_OF_GEMINI)
    if thoughts is not None:
        counts["response_tokens"] = (counts["response_tokens"] or 0) + thoughts
    return Usage(**counts)


def _first(place: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := _count(place.get(name))) is not None), None)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 31 else None
