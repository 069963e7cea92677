"""One trajectory: the tree of its ops, its conversation, tokens, scores.

It is a skeleton: payloads, tokens and texts of ops are read when they are asked for (query/contents.py).

Inputs and outputs are what was recorded: token lists that the store keeps in columns of their own are put back in their
place, and NaN, infinity and huge integers are numbers again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from rolltrace.flags import UNREADABLE
from rolltrace.query.contents import TOKEN_COLUMNS, Contents, OpContent, pieces_of
from rolltrace.query.conversation import conversation_of, from_last_telling
from rolltrace.query.prefix import explained
from rolltrace.query.pruned import Pruning, pruning_of
from rolltrace.query.transitions import read_transitions
from rolltrace.record.messages import Message
from rolltrace.store import PRUNED

if TYPE_CHECKING:
    from rolltrace.query.token_sequence import TokenSequence

_HEXADECIMAL = re.compile(r"-?0x[0-9a-f]+", re.ASCII)
_TELLING_OPS = 32
_MOST_OPS_DEEP = 100
"""How many ops stand inside each other in the tree; those inside them stand beside the last."""
_LAZY = ("inputs", "outputs", "prompt_text", "response_text", "pruned")
Row = dict[str, Any]


@dataclass(frozen=True)
class Op:
    """One traced call, with the calls made inside it."""

    op_id: int
    name: str
    kind: str
    status: str
    """ok, error, cancelled, running, interrupted"""
    start_ns: int
    end_ns: int | None
    inputs: Any = field(repr=False)
    outputs: Any = field(repr=False)
    error: str | None = None
    traceback: str | None = None
    policy_version: int | None = None
    finish_reason: str | None = None
    worker: str | None = None
    children: list[Op] = field(default_factory=list)
    prompt_text: str | None = field(default_factory=lambda: None, repr=False)
    """The text of the tokens it saw; None without token2text."""
    response_text: str | None = field(default_factory=lambda: None, repr=False)
    """The text of the tokens it produced."""
    prompt_tokens: int | None = None
    """How many tokens it saw: their ids, or what the model's server says; the same for the others."""
    response_tokens: int | None = None
    cached_tokens: int | None = None
    """How many tokens of the prompt came from a cache."""
    reasoning_tokens: int | None = None
    """How many tokens of the response were reasoning."""
    pruned: Pruning | None = field(default_factory=lambda: None, repr=False)
    """When and why its payload went; `inputs`, and `outputs` if it gave any, are `{"$pruned": ...}` then."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What is large, of an op that a store gave: read now."""
            content = self.__dict__.get("_content")
            if content is None or name not in _LAZY:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if name in ("prompt_text", "response_text"):
                return content.texts[name == "response_text"]
            pruned = None if content.has_payload else self.__dict__["_pruning"]
            if name == "pruned":
                return pruned
            if pruned is not None:
                return None if name == "outputs" and self.error is not None else pruned.mark
            payload = _payload(content)
            return None if payload is None else payload.get(name)

    @property
    def content(self) -> OpContent | None:
        """Its columns as they are stored; None for an op that no store gave."""
        found: OpContent | None = self.__dict__.get("_content")
        return found

    @property
    def tokens(self) -> OpTokens | None:
        """Its tokens; None if it has none."""
        return None if self.content is None else _tokens(self.op_id, self.name, self.content)

    @property
    def duration_s(self) -> float | None:
        return None if self.end_ns is None else (self.end_ns - self.start_ns) / 1e9

    def walk(self) -> Iterator[Op]:
        """This op and all inside it, each before its children."""
        waiting = [self]
        while waiting:
            op = waiting.pop()
            yield op
            waiting += reversed(op.children)


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
        return pieces_of(self.prompt_text, self.prompt_ids, self.piece_chars, 0)

    @property
    def response_pieces(self) -> list[str] | None:
        """The text of each token of the response."""
        return pieces_of(self.response_text, self.response_ids, self.piece_chars, len(self.prompt_ids or ()))


class TokensOfOps(Sequence[OpTokens]):
    """The tokens of those ops that have any, each read when it is asked for."""

    def __init__(self, ops: Sequence[Op], contents: Contents) -> None:
        self._all = ops
        self._contents = contents

    @cached_property
    def _ops(self) -> list[Op]:
        return [op for op in self._all if op.op_id in self._contents.ops_with_tokens]

    @overload
    def __getitem__(self, at: int) -> OpTokens: ...
    @overload
    def __getitem__(self, at: slice) -> list[OpTokens]: ...
    def __getitem__(self, at: int | slice) -> OpTokens | list[OpTokens]:
        if isinstance(at, slice):
            return [self._of(op) for op in self._ops[at]]
        return self._of(self._ops[at])

    def __len__(self) -> int:
        return len(self._ops)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, TokensOfOps | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<tokens of {len(self)} ops>"

    @property
    def op_ids(self) -> set[int]:
        """The ids of these ops."""
        return {op.op_id for op in self._ops}

    def get(self, op_id: int) -> OpTokens | None:
        """The tokens of one op; None if there is no such op."""
        return next((self._of(op) for op in self._all if op.op_id == op_id), None)

    def _of(self, op: Op) -> OpTokens:
        assert op.content is not None
        return _tokens(op.op_id, op.name, op.content)


@dataclass(frozen=True)
class Trajectory:
    """What `Store.trajectory(id)` gives: the columns of `trajectories`, and what is inside."""

    trajectory_id: str
    project: str
    experiment: str
    step: int | None
    sample_index: int | str | None
    rollout_n: int | None
    validate: bool
    name: str
    status: str
    error: str | None
    start_ns: int
    end_ns: int | None
    duration_s: float | None
    turns: int
    tool_calls: int
    tool_errors: int
    prompt_tokens: int | None
    response_tokens: int | None
    reward: float | None
    policy_version_min: int | None
    policy_version_max: int | None
    flags: list[str]
    tags: dict[str, Any]
    worker: str
    advantage: float | None = None
    fate: str | None = None
    """What training did with it: trained, filtered, ..."""
    fate_reason: str | None = None
    staleness: int | None = None
    """How many versions its oldest weights are behind its step."""
    run: str | None = None
    """The training job that wrote it."""
    superseded: bool = False
    """A newer run of the experiment reached the same step."""
    trained_step: int | None = None
    """The step that trained on it, as its newest fate says."""
    traceback: str | None = None
    parent_trajectory_id: str | None = None
    """The trajectory it was begun in."""
    parent_op_id: int | None = None
    ops: list[Op] = field(default_factory=list, repr=False)
    """The top ops, oldest first; the others are their children."""
    tokens: Sequence[OpTokens] = field(default_factory=list, repr=False)
    """Of every op that has any, oldest first. Each is read when it is asked for."""
    transitions: list[Row] = field(default_factory=list, repr=False)
    """One per environment step, oldest first, as the newest word about it says; `earlier` has what that replaced: see
    `query.transitions`."""
    scores: list[Row] = field(default_factory=list, repr=False)
    """Every score that was given, oldest first: the newest of a name counts."""
    notes: list[Row] = field(default_factory=list, repr=False)
    findings: list[Row] = field(default_factory=list, repr=False)
    """What the checks found: flag, op_id, detail. `flags` are the names of these."""
    pruned: Pruning | None = field(default_factory=lambda: None)
    """When and why payloads went; None if all are there."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """`pruned`, of a trajectory that has no note about it."""
            if name != "pruned":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.__dict__[name] = _first_pruning(self.walk())
            return self.__dict__[name]

    def walk(self) -> Iterator[Op]:
        """All ops, each before its children."""
        for op in self.ops:
            yield from op.walk()

    @property
    def conversation(self) -> list[Message]:
        """The messages between model, tools and user: see `query.conversation`."""
        return conversation_of(from_last_telling(sorted(self.walk(), key=lambda op: op.start_ns)))

    def token_sequence(self) -> TokenSequence:
        """All tokens as one sequence, each prompt without what the turn before had: see `query.token_sequence`."""
        from rolltrace.query.token_sequence import token_sequence

        return token_sequence(self)


def build(
    summary: Row,
    own: Row | None,
    spans: list[Row],
    contents: Contents,
    transitions: list[Row],
    scores: list[Row],
    notes: list[Row],
    findings: list[Row],
) -> Trajectory:
    """A trajectory from its rows; `own` is its row of the `trajectories` table, if it has one.

    The rows of ops are without what is large; `contents` has that.
    """
    inside: Row = {name: (own or {}).get(name) for name in ("traceback", "parent_trajectory_id", "parent_op_id")}
    notes = [_parsed(row, "body") for row in notes]
    pruned = pruning_of(notes)
    unreadable = {finding["op_id"] for finding in findings if finding["flag"] == UNREADABLE.name}
    ops = {span["op_id"]: _op(span, contents, pruned, unreadable) for span in spans}
    tokens = TokensOfOps(list(ops.values()), contents)
    events = [_parsed(row, "trace", "fields") for row in transitions]
    is_bare = any(row["trace"] is None and row["fields"] is None and not row["amends"] for row in events)
    mark = _first_pruning(ops.values()) if pruned is None and is_bare else pruned
    built = Trajectory(
        **{**summary, "tags": tags_of(summary["tags"])},
        **inside,
        ops=_tree(spans, ops),
        tokens=tokens,
        transitions=read_transitions([_marked(row, mark) for row in events], ops),
        scores=[{**row, "terms": None if row["terms"] is None else as_object(row["terms"], "terms")} for row in scores],
        notes=[note for note in notes if note["event"] != PRUNED],
        findings=[explained(_parsed(row, "detail"), tokens) for row in findings],
        pruned=pruned,
    )
    if pruned is None:  # it may have been, before that left a note: looked up when somebody asks
        del built.__dict__["pruned"]
    return built


def _first_pruning(ops: Iterable[Op]) -> Pruning | None:
    """How the first of some ops whose payload is gone was pruned. All go at once, so a few are enough to tell."""
    return next((op.pruned for op in islice(ops, _TELLING_OPS) if op.pruned is not None), None)


def _tree(spans: list[Row], ops: dict[int, Op]) -> list[Op]:
    top: list[Op] = []
    parents = parents_of(spans, ops)
    for op_id, op in ops.items():
        parent = parents[op_id]
        (top if parent is None else ops[parent].children).append(op)
    return top


def parents_of(spans: list[Row], ops: Container[int]) -> dict[int, int | None]:
    """Under which op each op stands; no more than so many inside each other, and none inside itself."""
    # The parent of a top op may be in the trajectory around this one, or lost.
    parents = {span["op_id"]: span["parent_id"] if span["parent_id"] in ops else None for span in spans}
    depths: dict[int, int] = {}
    for op_id in parents:
        chain: dict[int, None] = {}
        at: int | None = op_id
        while at is not None and at not in depths and at not in chain:
            chain[at] = None
            at = parents[at]
        if at in chain:  # round in a circle: somebody has to be the first
            parents[next(reversed(chain))] = None
        for each in reversed(chain):
            parent = parents[each]
            if parent is None:
                depths[each] = 1
                continue
            if depths[parent] == _MOST_OPS_DEEP:
                parents[each] = parents[parent]
            depths[each] = min(depths[parent] + 1, _MOST_OPS_DEEP)
    return parents


_PLAIN = (
    "op_id", "name", "kind", "status", "start_ns", "end_ns", "error", "traceback", "policy_version", "finish_reason",
    "worker", "prompt_tokens", "response_tokens", "cached_tokens", "reasoning_tokens",
)  # fmt: skip


def _op(span: Row, contents: Contents, pruned: Pruning | None, unreadable: set[int]) -> Op:
    op = object.__new__(Op)
    if pruned is None and span["op_id"] not in unreadable:
        pruned = Pruning()  # of a store that was pruned before that left a note, if its payload is gone
    content = OpContent(contents, span["op_id"], span["prompt_tokens"], span["response_tokens"])
    op.__dict__.update({name: span[name] for name in _PLAIN}, children=[], _content=content, _pruning=pruned)
    return op


def _payload(content: OpContent) -> Row | None:
    """Inputs and outputs; None if there is no payload, or none any more."""
    found: Row | None = content.once(_read_payload)
    return found


def _read_payload(content: OpContent, text: str | None) -> Row | None:
    if text is None:
        return None
    payload = as_value(text, _Columns(content) if '"$column"' in text else {})
    if not isinstance(payload, dict) or not payload.keys() <= {"inputs", "outputs"}:
        return {"inputs": payload}
    return payload


class _Columns(dict[str, Any]):
    """The token columns of an op, each read when the payload names it."""

    def __init__(self, content: OpContent) -> None:
        self._content = content

    def __contains__(self, name: object) -> bool:
        return name in TOKEN_COLUMNS

    def __getitem__(self, name: str) -> Any:
        return self._content.list(name)


def _tokens(op_id: int, name: str, content: OpContent) -> OpTokens:
    prompt_ids, response_ids, logprobs, mask = (content.list(column) for column in TOKEN_COLUMNS)
    prompt, response = content.texts
    chars = content.column("piece_chars")
    return OpTokens(op_id, name, prompt_ids, response_ids, logprobs, mask, prompt, response, chars)


def _marked(transition: Row, pruned: Pruning | None) -> Row:
    if pruned is None or transition["amends"] or transition["trace"] is not None or transition["fields"] is not None:
        return transition
    return {**transition, "trace": pruned.mark}


def _parsed(row: Row, *names: str) -> Row:
    return {key: as_value(value) if key in names and value is not None else value for key, value in row.items()}


def tags_of(stored: str | dict[str, Any] | None) -> dict[str, Any]:
    """The tags of a trajectory, whether they were read already or not."""
    if isinstance(stored, dict):
        return stored
    return {} if stored is None else as_object(stored, "tags")


def as_object(text: str, name: str) -> dict[str, Any]:
    """The value of a column that holds objects; whoever reads it relies on that."""
    value = as_value(text)
    return value if isinstance(value, dict) else {name: value}


def as_value(text: str, columns: Row | None = None) -> Any:
    """The value of a JSON column. One that is no JSON, or deeper than any that we write, does not hide the rest."""
    try:
        value = json.loads(text)
        return restore(value, {} if columns is None else columns) if '"$' in text else value
    except (ValueError, RecursionError):
        return {"$opaque": {"type": "unknown", "fields": {"bytes": len(text)}, "reason": "cannot be read"}}


def restore(value: Any, columns: Row) -> Any:
    """A JSON value as it was recorded: token columns put back, numbers that JSON cannot hold made again."""
    if isinstance(value, list):
        return [restore(item, columns) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key == "$column" and isinstance(inner, str) and inner in columns:
            return columns[inner]
        if key == "$float" and inner in ("nan", "inf", "-inf"):
            return float(inner)
        if key == "$int" and isinstance(inner, str) and _HEXADECIMAL.fullmatch(inner):
            return int(inner, 16)
    return {key: restore(item, columns) for key, item in value.items()}
