"""The one token sequence of a trajectory: what its model calls saw and produced, each token once. Pure functions.

Each prompt extends the prompt and response before it, so the sequence is the first prompt, the first response, what
the second prompt has more, and so on. Where a prompt does not extend what came before, because it was tokenised anew
or its history was changed, the sequence goes on with the prompt from its first different token on, and a break says
what stood there before: nothing that was produced, and trained on, is left out.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, TypeVar

from rolltrace._arrow import pa
from rolltrace.query.model.rows import number
from rolltrace.query.model.trajectory import Segment, TokenBreak, TokenRange, UnlikelyToken
from rolltrace.query.op import Op
from rolltrace.query.trajectory import Trajectory

T = TypeVar("T")
_MAX_IN_BREAK = 64
_MAX_LEAST_LIKELY = 50
_MAX_STRETCHES = 1_000
_WIDTH = array("i").itemsize


class PackedCall(NamedTuple):
    """The tokens of one model call, integers as bytes, four for each: a thousand long prompts are compared at once."""

    op_id: str
    policy_version: int | None
    prompt: bytes
    response: bytes
    counts: bytes
    """How many characters each token ends, those of the prompt first; empty if there is no text."""
    prompt_text: str | None
    response_text: str | None
    logprobs: Sequence[float] | None
    mask: Sequence[int] | None


@dataclass
class TokenSequence:
    """What `token_sequence` gives: columns over all tokens, and what stands where."""

    ids: list[int] = field(default_factory=list)
    piece_chars: list[int] = field(default_factory=list)
    """How many characters of `text` each token ends; 0 where a segment has no text."""
    text: str = ""
    logprobs: list[float | None] = field(default_factory=list)
    mask: list[int | None] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
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

    def range(self, start: int, end: int) -> TokenRange:
        """Tokens start to end, and what is known of all of them."""
        end = min(end, len(self))
        start = min(start, end)
        offsets = self.char_offsets()
        has_text = any(each.has_text for each in self.segments)

        def text(begin: int, until: int) -> str | None:
            return self.text[offsets[begin] : offsets[until]] if has_text else None

        return TokenRange(
            start=start,
            end=end,
            total=len(self),
            responses=self.responses,
            trained=self.trained,
            ids=self.ids[start:end],
            text=text(start, end),
            piece_chars=self.piece_chars[start:end] if has_text else None,
            logprobs=list(map(number, self.logprobs[start:end])),
            mask=self.mask[start:end],
            segments=self.segments,
            breaks=self.breaks,
            minimap=list(map(number, self.minimap(_MAX_STRETCHES))),
            least_likely=[
                UnlikelyToken(at, self.logprobs[at] or 0.0, text(at, at + 1))
                for at in self.least_likely(_MAX_LEAST_LIKELY)
            ],
            has_logprobs=any(each is not None for each in self.logprobs),
            has_mask=any(each is not None for each in self.mask),
            has_text=has_text,
        )

    def place_of(self, flag: str, op_id: str | None, detail: object) -> int | None:
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
    having = trajectory.logprob_means
    ops = sorted((op for op in trajectory.walk() if op.op_id in having), key=lambda op: op.start_ns)
    # One after the other: together the prompts of a long trajectory are many times its tokens.
    return sequence_of(pack(op) for op in policy_calls(ops, lambda op: op.kind))


def pack(op: Op) -> PackedCall:
    """The tokens of an op that has any."""
    assert op.content is not None
    (prompt_text, response_text), lists = op.content.texts, op.content.array
    return PackedCall(
        str(op.op_id), op.policy_version, _bytes(lists("prompt_ids")), _bytes(lists("response_ids")),
        _bytes(lists("piece_chars")), prompt_text, response_text, op.content.list("logprobs"),
        op.content.list("response_mask"),
    )  # fmt: skip


def sequence_of(calls: Iterable[PackedCall]) -> TokenSequence:
    """The one sequence of these model calls, which stand in the order they began."""
    sequence = TokenSequence()
    texts: list[str] = []
    before: PackedCall | None = None
    for turn, call in enumerate(calls):
        context = b"" if before is None else before.prompt + before.response
        shared = len(context)
        if before is not None and not call.prompt.startswith(context):
            shared = _shared_bytes(context, call.prompt)
            end = shared + _MAX_IN_BREAK * _WIDTH
            sequence.breaks.append(
                TokenBreak(
                    len(sequence), turn, call.op_id, shared // _WIDTH,
                    before_ids=_numbers(context[shared:end]), before_text=_text_from(before, shared, end),
                    after_ids=_numbers(call.prompt[shared:end]),
                    after_text=_text_from(call, shared, min(end, len(call.prompt))),
                    before_total=(len(context) - shared) // _WIDTH, after_total=(len(call.prompt) - shared) // _WIDTH,
                )
            )  # fmt: skip
        text = _text_from(call, shared)
        texts.append(text or "")
        _add(sequence, call, "prompt", turn, shared, text is not None)
        _add(sequence, call, "response", turn, len(call.prompt), text is not None)
        before = call
    sequence.text = "".join(texts)
    return sequence


def _add(
    sequence: TokenSequence, call: PackedCall, kind: Literal["prompt", "response"], turn: int, at: int, has_text: bool
) -> None:
    """Tokens of a call at the end of the sequence: those of its prompt from `at` on, or its response."""
    is_response = kind == "response"
    ids = call.response if is_response else call.prompt[at:]
    if not ids:
        return
    start, count = len(sequence), len(ids) // _WIDTH
    sequence.ids += _numbers(ids)
    sequence.piece_chars += _numbers(call.counts[at : at + len(ids)]) if has_text else [0] * count
    sequence.logprobs += _fitted(call.logprobs if is_response else None, count)
    sequence.mask += _fitted(call.mask if is_response else None, count)
    sequence.segments.append(Segment(start, start + count, kind, turn, call.op_id, call.policy_version, has_text))


def _text_from(call: PackedCall, start: int, end: int | None = None) -> str | None:
    """The text of the tokens of a call from this byte on; None if it is not known, or is another one than its tokens'.

    Most of a long prompt is what the call before had: only the characters behind that are counted.
    """
    halves = ((call.prompt_text, call.prompt), (call.response_text, call.response))
    if any(text is None and ids for text, ids in halves) or len(call.counts) != len(call.prompt) + len(call.response):
        return None
    text, count = (call.prompt_text or "") + (call.response_text or ""), sum(_numbers(call.counts[start:]))
    begin = len(text) - count
    if begin < 0:
        return None
    return text[begin:] if end is None else text[begin : begin + sum(_numbers(call.counts[start:end]))]


def _bytes(numbers: pa.Array | None) -> bytes:
    """The bytes of a list of 32-bit integers."""
    if numbers is None or not len(numbers):
        return b""
    return memoryview(numbers.buffers()[1])[
        _WIDTH * numbers.offset : _WIDTH * (numbers.offset + len(numbers))
    ].tobytes()


def _numbers(packed: bytes) -> list[int]:
    return array("i", packed).tolist()


def _shared_bytes(one: bytes, other: bytes) -> int:
    """How many bytes of whole tokens two sequences begin with together: comparing slices is faster than tokens."""
    low, high = 0, min(len(one), len(other)) // _WIDTH
    while low < high:
        middle = (low + high + 1) // 2
        if one[low * _WIDTH : middle * _WIDTH] == other[low * _WIDTH : middle * _WIDTH]:
            low = middle
        else:
            high = middle - 1
    return low * _WIDTH


def _fitted(values: Sequence[float | int] | None, count: int) -> list:  # type: ignore[type-arg]
    """So many values, None for what is missing."""
    fitted = list(values or ())[:count]
    return fitted + [None] * (count - len(fitted))
