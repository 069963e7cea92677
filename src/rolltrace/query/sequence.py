"""The one token sequence of a trajectory: what its model calls saw and produced, each token once. Pure functions.

Each prompt extends the prompt and response before it, so the sequence is the first prompt, the first response, what
the second prompt has more, and so on. Where a prompt does not extend what came before, because it was tokenised anew
or its history was changed, the sequence goes on with the prompt from its first different token on, and a break says
what stood there before: nothing that was produced, and trained on, is left out.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, TypeVar

from rolltrace.query.op import OpTokens, TokensOfOps, first_difference
from rolltrace.query.trajectory import Trajectory

T = TypeVar("T")
_MOST_IN_BREAK = 64


class CallTokens(NamedTuple):
    """The tokens of one model call, and which weights produced them."""

    tokens: OpTokens
    policy_version: int | None


class TokenSegment(NamedTuple):
    """A run of tokens of one origin."""

    start: int
    end: int
    kind: Literal["prompt", "response"]
    turn: int
    op_id: int
    policy_version: int | None
    has_text: bool


class TokenBreak(NamedTuple):
    """Where a prompt does not extend what came before."""

    at: int
    """The new prompt goes on here; what it replaces stands before."""
    turn: int
    op_id: int
    first_difference: int
    """How many tokens the new prompt shares with what the model had seen."""
    before_ids: list[int]
    before_text: str | None
    before_total: int
    after_ids: list[int]
    after_text: str | None
    after_total: int


@dataclass
class TokenSequence:
    """What `token_sequence` gives: columns over all tokens, and what stands where."""

    ids: list[int] = field(default_factory=list)
    piece_chars: list[int] = field(default_factory=list)
    """How many characters of `text` each token ends; 0 where a segment has no text."""
    text: str = ""
    logprobs: list[float | None] = field(default_factory=list)
    mask: list[int | None] = field(default_factory=list)
    segments: list[TokenSegment] = field(default_factory=list)
    breaks: list[TokenBreak] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def responses(self) -> int:
        """How many tokens the model produced."""
        return sum(each.end - each.start for each in self.segments if each.kind == "response")

    @property
    def trained(self) -> int:
        """How many of these the mask keeps; all of those that have no mask."""
        return sum(
            self.mask[at] != 0
            for each in self.segments
            if each.kind == "response"
            for at in range(each.start, each.end)
        )

    def char_offsets(self) -> list[int]:
        """Where in the text each token begins, and at last where the text ends."""
        return list(accumulate(self.piece_chars, initial=0))

    def least_likely(self, count: int) -> list[int]:
        """The indexes of the tokens with the smallest logprobs."""
        finite = ((value, at) for at, value in enumerate(self.logprobs) if value is not None and math.isfinite(value))
        return [at for _, at in heapq.nsmallest(count, finite)]

    def minimap(self, most: int) -> list[float | None]:
        """The smallest logprob of each of at most so many equally long stretches."""
        if not self.ids:
            return []
        count = min(most, len(self.ids))
        edges = [len(self.ids) * at // count for at in range(count + 1)]
        smallest: list[float | None] = []
        for begin, end in pairwise(edges):
            values = [value for value in self.logprobs[begin:end] if value is not None]
            smallest.append(min(values) if values else None)
        return smallest

    def place_of(self, flag: str, op_id: int | None, detail: object) -> int | None:
        """Where in the sequence a finding of a check is."""
        if flag == "prefix_break":
            return next((each.at for each in self.breaks if each.op_id == op_id), None)
        response = next((each for each in self.segments if each.op_id == op_id and each.kind == "response"), None)
        if response is None:
            return None
        if isinstance(detail, dict) and detail.get("unit") == "token" and isinstance(detail.get("start"), int):
            return min(response.start + int(detail["start"]), response.end - 1)
        return response.end - 1 if flag == "cut_by_length" else response.start


def policy_calls(ops: Sequence[T], kind_of: Callable[[T], str]) -> list[T]:
    """Those of some ops with tokens that make the sequence: calls of the policy, or if there are none the first op
    whose tokens may be the policy's."""
    own = [op for op in ops if kind_of(op) != "aux_llm"]
    return [op for op in own if kind_of(op) == "llm"] or own[:1]


def token_sequence(trajectory: Trajectory) -> TokenSequence:
    """The one sequence of a trajectory: of its model calls, or of its first op that has tokens if there are none."""
    read = trajectory.tokens
    tokens = read if isinstance(read, TokensOfOps) else {each.op_id: each for each in read}
    having = read.op_ids if isinstance(read, TokensOfOps) else set(tokens)
    ops = sorted((op for op in trajectory.walk() if op.op_id in having), key=lambda op: op.start_ns)
    calls = policy_calls(ops, lambda op: op.kind)
    # One after the other: together the prompts of a long trajectory are many times its tokens.
    tokens_of_calls = ((tokens.get(op.op_id), op.policy_version) for op in calls)
    return sequence_of(CallTokens(each, version) for each, version in tokens_of_calls if each is not None)


def sequence_of(calls: Iterable[CallTokens]) -> TokenSequence:
    """The one sequence of these model calls, which stand in the order they began."""
    sequence = TokenSequence()
    texts: list[str] = []
    context: list[int] = []
    context_text: tuple[str | None, list[int] | None] = (None, None)
    for turn, (tokens, version) in enumerate(calls):
        prompt, response = tokens.prompt_ids or [], tokens.response_ids or []
        counts, fits = _counts(tokens, len(prompt), len(response))
        shared = len(context)
        if context and (len(prompt) < shared or prompt[:shared] != context):
            shared = first_difference(context, prompt) or 0
            sequence.breaks.append(
                TokenBreak(
                    len(sequence), turn, tokens.op_id, shared,
                    context[shared : shared + _MOST_IN_BREAK], _slice(*context_text, shared, len(context)),
                    len(context) - shared,
                    prompt[shared : shared + _MOST_IN_BREAK],
                    _slice(tokens.prompt_text if fits else None, counts, shared, len(prompt)),
                    len(prompt) - shared,
                )
            )  # fmt: skip
        text = (tokens.prompt_text or "") + (tokens.response_text or "") if fits else ""
        offset = sum(counts[:shared]) if fits else 0
        texts.append(text[offset:])
        added = [("prompt", prompt[shared:], shared), ("response", response, len(prompt))]
        for kind, ids, first in added:
            if not ids:
                continue
            start = len(sequence.ids)
            sequence.ids += ids
            sequence.piece_chars += counts[first : first + len(ids)] if fits else [0] * len(ids)
            is_response = kind == "response"
            sequence.logprobs += _fitted(tokens.logprobs if is_response else None, len(ids))
            sequence.mask += _fitted(tokens.response_mask if is_response else None, len(ids))
            sequence.segments.append(
                TokenSegment(
                    start, start + len(ids), "response" if is_response else "prompt", turn, tokens.op_id, version, fits
                )
            )
        context = [*prompt, *response]
        context_text = (text, counts) if fits else (None, None)
    sequence.text = "".join(texts)
    return sequence


def _counts(tokens: OpTokens, prompt: int, response: int) -> tuple[list[int], bool]:
    """How many characters each token ends, and whether that fits the texts."""
    counts = tokens.piece_chars or []
    texts = ((tokens.prompt_text, prompt), (tokens.response_text, response))
    complete = all(text is not None or count == 0 for text, count in texts)
    fits = complete and len(counts) == prompt + response
    fits = fits and sum(counts[:prompt]) == len(tokens.prompt_text or "")
    return counts, fits and sum(counts[prompt:]) == len(tokens.response_text or "")


def _fitted(values: Sequence[float | int] | None, count: int) -> list:  # type: ignore[type-arg]
    """So many values, None for what is missing."""
    fitted = list(values or ())[:count]
    return fitted + [None] * (count - len(fitted))


def _slice(text: str | None, counts: list[int] | None, start: int, end: int) -> str | None:
    if text is None or counts is None:
        return None
    begin = sum(counts[:start])
    return text[begin : begin + sum(counts[start : min(end, start + _MOST_IN_BREAK)])]
