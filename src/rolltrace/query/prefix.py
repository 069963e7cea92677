"""Where a prompt leaves the turn before it. Pure functions.

The drainer compares hashes and knows only that two turns do not fit together (the flag `prefix_break`); the tokens are
here, when somebody looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rolltrace.query.trajectory import OpTokens


def first_difference(before: Sequence[int], prompt: Sequence[int]) -> int | None:
    """The index of the first token that a prompt does not share with what came before; None if it extends it."""
    for index, (one, other) in enumerate(zip(before, prompt)):
        if one != other:
            return index
    return len(prompt) if len(prompt) < len(before) else None


class KnownTokens(Protocol):
    """The tokens of ops, by their id."""

    def get(self, op_id: int, /) -> OpTokens | None: ...


def explained(finding: dict[str, Any], tokens: KnownTokens) -> dict[str, Any]:
    """A finding; a prefix break with `first_difference` in its detail, if the tokens of both turns are there."""
    detail = finding["detail"]
    if finding["flag"] != "prefix_break" or not isinstance(detail, dict):
        return finding
    now, last = tokens.get(finding["op_id"]), tokens.get(detail.get("previous_op_id", 0))
    if now is None or last is None or now.prompt_ids is None:
        return finding
    found = first_difference([*(last.prompt_ids or ()), *(last.response_ids or ())], now.prompt_ids)
    return {**finding, "detail": {**detail, "first_difference": found}}
