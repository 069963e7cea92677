"""One op of a trajectory, with its tokens: payloads, tokens and texts are read when they are asked for
(query/contents.py). Inputs and outputs are what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from rolltrace.messages import Message, read_reply, read_response_text
from rolltrace.query.contents import TOKEN_COLUMNS, Contents, OpContent, Pruning
from rolltrace.query.values import Row, as_value
from rolltrace.record import MODEL_KINDS

_LAZY = ("inputs", "outputs", "prompt_text", "response_text")


@dataclass(frozen=True)
class Op:
    """One traced call, with the calls made inside it."""

    op_id: int
    name: str
    kind: str
    """llm, aux_llm, tool, env, reward, other."""
    status: str
    """ok, error, cancelled, running, interrupted."""
    start_ns: int
    end_ns: int | None
    inputs: Any = field(repr=False)
    """Its arguments, as they were when the call began."""
    outputs: Any = field(repr=False)
    """What it returned, as it was then."""
    error: str | None = None
    traceback: str | None = None
    policy_version: int | None = None
    finish_reason: str | None = None
    worker: str | None = None
    children: list[Op] = field(default_factory=list)
    """The ops called inside it, oldest first."""
    prompt_text: str | None = field(default_factory=lambda: None, repr=False)
    """The text of the tokens it saw; None without token2text."""
    response_text: str | None = field(default_factory=lambda: None, repr=False)
    prompt_tokens: int | None = None
    """How many tokens it saw: their ids, or what the model's server says; the same for the others."""
    response_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    turn: int | None = None
    """Of a model call of the policy: which turn, from 0."""
    saw: str | None = None
    """Of a model call: the messages that it was given, as ranges of their `seq`; see `Trajectory.seen_by`."""
    thread: str | None = None
    """The thread that it ran in, if not the main one."""
    payload_bytes: int | None = None
    """Size of its inputs and outputs as JSON; None if they were pruned."""
    pruned: Pruning | None = field(default=None, repr=False)
    """When and why its payload went; `inputs`, and `outputs` if it gave any, are `{"$pruned": ...}` then."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What is large, of an op that a store gave: read now."""
            content = self.__dict__.get("_content")
            if content is None or name not in _LAZY:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if name in ("prompt_text", "response_text"):
                return content.texts[name == "response_text"]
            payload = content.once(_read_payload)
            if payload is not None:
                return payload.get(name)
            return None if self.pruned is None or (name == "outputs" and self.error is not None) else self.pruned.mark

    @property
    def content(self) -> OpContent | None:
        """Its columns as they are stored; None for an op that no store gave."""
        content: OpContent | None = self.__dict__.get("_content")
        return content

    @property
    def tokens(self) -> OpTokens | None:
        """Its tokens; None if it has none."""
        return None if self.content is None else _tokens(self)

    @property
    def reply(self) -> Message | None:
        """What a model call answered, if that is one message; where it gave only tokens, their text."""
        reply = read_reply(self.outputs)
        if reply is None and self.response_text is not None:
            reply = read_response_text(self.response_text)[-1]
        return reply

    @property
    def duration_s(self) -> float | None:
        """Seconds from start to end; None without an end."""
        return None if self.end_ns is None else (self.end_ns - self.start_ns) / 1e9

    @property
    def last_ns(self) -> int:
        """When it ended; if that is not known, because its process died, the last that is known of what went on
        inside it."""
        if self.end_ns is not None:
            return self.end_ns
        return max([self.start_ns, *(child.last_ns for child in self.children)])

    @property
    def usage(self) -> TokenUsage | None:
        """The tokens of a model call, or those of the policy's calls inside another op; None if nothing is known.

        A model call that was made by another is a part of it, and not counted again.
        """
        if self.kind in MODEL_KINDS and (self.prompt_tokens is not None or self.response_tokens is not None):
            counts = (self.prompt_tokens or 0, self.response_tokens or 0, self.cached_tokens, self.reasoning_tokens)
            return TokenUsage(1, *counts)
        return total_usage(self.children)

    def _repr_html_(self) -> str:
        from rolltrace.query.notebook import op_html

        return op_html(self)

    def walk(self) -> Iterator[Op]:
        """This op and all inside it, each before its children."""
        waiting = [self]
        while waiting:
            op = waiting.pop()
            yield op
            waiting += reversed(op.children)


class TokenUsage(NamedTuple):
    """How many tokens model calls took."""

    model_calls: int
    prompt_tokens: int
    response_tokens: int
    cached_tokens: int | None = None
    """Of the prompts: read from a cache; None if no call said so."""
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.response_tokens


def total_usage(ops: Iterable[Op]) -> TokenUsage | None:
    """The policy's tokens in some ops that are not inside each other; None if nothing is known of any."""
    each = (total_usage(op.children) if op.kind == "aux_llm" else op.usage for op in ops)
    usages = [usage for usage in each if usage is not None]
    if not usages:
        return None
    calls, prompt, response, cached, reasoning = zip(*usages)
    return TokenUsage(sum(calls), sum(prompt), sum(response), _sum_of_some(cached), _sum_of_some(reasoning))


def _sum_of_some(counts: Iterable[int | None]) -> int | None:
    present = [count for count in counts if count is not None]
    return sum(present) if present else None


class OpTokens(NamedTuple):
    """The tokens of one model call; None for what was not recorded."""

    op_id: int
    name: str
    prompt_ids: list[int] | None
    response_ids: list[int] | None
    logprobs: list[float] | None
    response_mask: list[int] | None
    prompt_text: str | None = None
    response_text: str | None = None
    piece_chars: list[int] | None = None
    """How many characters each token ends, those of the prompt first; 0 inside a character."""

    @property
    def prompt_pieces(self) -> list[str] | None:
        """The text of each token of the prompt."""
        return _pieces(self.prompt_text, self.prompt_ids, self.piece_chars, 0)

    @property
    def response_pieces(self) -> list[str] | None:
        """The text of each token of the response."""
        return _pieces(self.response_text, self.response_ids, self.piece_chars, len(self.prompt_ids or ()))


def _pieces(text: str | None, ids: list[int] | None, counts: list[int] | None, first: int) -> list[str] | None:
    """The text of each token of one half; None if it is not known."""
    if text is None or ids is None or counts is None:
        return None
    ends = list(accumulate(counts[first : first + len(ids)], initial=0))
    fits = len(ends) == len(ids) + 1 and ends[-1] == len(text)
    return [text[begin:end] for begin, end in pairwise(ends)] if fits else None


class TokensOfOps(Sequence[OpTokens]):
    """The tokens of those ops that have any, each read when it is asked for."""

    def __init__(self, ops: Iterable[Op], contents: Contents) -> None:
        self._all = ops
        self.contents = contents

    @cached_property
    def _ops(self) -> list[Op]:
        return [op for op in self._all if op.op_id in self.contents.logprob_means]

    @overload
    def __getitem__(self, at: int) -> OpTokens: ...
    @overload
    def __getitem__(self, at: slice) -> list[OpTokens]: ...
    def __getitem__(self, at: int | slice) -> OpTokens | list[OpTokens]:
        return [_tokens(op) for op in self._ops[at]] if isinstance(at, slice) else _tokens(self._ops[at])

    def __len__(self) -> int:
        return len(self._ops)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, TokensOfOps | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<tokens of {len(self)} ops>"


_PLAIN = tuple(name for name in Op.__dataclass_fields__ if name not in (*_LAZY, "children", "pruned"))


def op_of(span: Row, contents: Contents, pruned: Pruning | None) -> Op:
    op = object.__new__(Op)
    pruned = None if span["payload_bytes"] is not None or span["status"] == "running" else pruned
    content = OpContent(contents, span["op_id"], span["prompt_tokens"], span["response_tokens"])
    op.__dict__.update({name: span.get(name) for name in _PLAIN}, children=[], pruned=pruned, _content=content)
    op.__dict__["start_ns"] = span["start_ns"] or 0  # another program may have written the row
    return op


def _read_payload(content: OpContent, text: str | None) -> Row | None:
    """Inputs and outputs; None if there is no payload, or none any more."""
    if text is None:
        return None
    columns = {name: content.list(name) for name in TOKEN_COLUMNS if f'"{name}"' in text} if '"$column"' in text else {}
    payload = as_value(text, columns)
    if not isinstance(payload, dict) or not payload.keys() <= {"inputs", "outputs"}:
        return {"inputs": payload}
    return payload


def _tokens(op: Op) -> OpTokens:
    assert op.content is not None
    lists = {column: op.content.list(column) for column in TOKEN_COLUMNS}
    prompt, response = op.content.texts
    chars = op.content.column("piece_chars")
    return OpTokens(op.op_id, op.name, **lists, prompt_text=prompt, response_text=response, piece_chars=chars)


def first_difference(before: Sequence[int], prompt: Sequence[int]) -> int | None:
    """The index of the first token that a prompt does not share with what came before; None if it extends it."""
    for index, (one, other) in enumerate(zip(before, prompt)):
        if one != other:
            return index
    return len(prompt) if len(prompt) < len(before) else None
