"""One trajectory with everything in it: the tree of its ops, its conversation, tokens, scores.

Inputs and outputs are what was recorded: token lists that the store keeps in columns of their own are put back in their
place, and NaN, infinity and huge integers are numbers again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from rolltrace.query.conversation import conversation_of
from rolltrace.query.prefix import explained
from rolltrace.query.pruned import Pruning, pruning_of
from rolltrace.query.transitions import read_transitions
from rolltrace.record.messages import Message
from rolltrace.store import PRUNED

_HEXADECIMAL = re.compile(r"-?0x[0-9a-f]+", re.ASCII)
_MOST_OPS_DEEP = 100
"""How many ops stand inside each other in the tree; those inside them stand beside the last."""
TOKEN_COLUMNS = ("prompt_ids", "response_ids", "logprobs", "response_mask")
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
    inputs: Any
    outputs: Any
    error: str | None = None
    traceback: str | None = None
    policy_version: int | None = None
    finish_reason: str | None = None
    worker: str | None = None
    children: list[Op] = field(default_factory=list)
    prompt_text: str | None = None
    """The text of the tokens it saw; None without token2text."""
    response_text: str | None = None
    """The text of the tokens it produced."""
    prompt_tokens: int | None = None
    """How many tokens it saw: their ids, or what the model's server says; the same for the others."""
    response_tokens: int | None = None
    cached_tokens: int | None = None
    """How many tokens of the prompt came from a cache."""
    reasoning_tokens: int | None = None
    """How many tokens of the response were reasoning."""
    pruned: Pruning | None = None
    """When and why its payload went; `inputs`, and `outputs` if it gave any, are `{"$pruned": ...}` then."""

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
        return _pieces(self.prompt_text, self.prompt_ids, self.piece_chars, 0)

    @property
    def response_pieces(self) -> list[str] | None:
        """The text of each token of the response."""
        return _pieces(self.response_text, self.response_ids, self.piece_chars, len(self.prompt_ids or ()))


def _pieces(text: str | None, ids: list[int] | None, counts: list[int] | None, first: int) -> list[str] | None:
    if text is None or ids is None or counts is None:
        return None
    ends = list(accumulate(counts[first : first + len(ids)], initial=0))
    fits = len(ends) == len(ids) + 1 and ends[-1] == len(text)  # a text that was changed afterwards has no pieces
    return [text[begin:end] for begin, end in pairwise(ends)] if fits else None


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
    traceback: str | None = None
    parent_trajectory_id: str | None = None
    """The trajectory it was begun in."""
    parent_op_id: int | None = None
    ops: list[Op] = field(default_factory=list, repr=False)
    """The top ops, oldest first; the others are their children."""
    tokens: list[OpTokens] = field(default_factory=list, repr=False)
    """Of every op that has any, oldest first."""
    transitions: list[Row] = field(default_factory=list, repr=False)
    """One per environment step, oldest first, with what was said later about it: see `query.transitions`."""
    scores: list[Row] = field(default_factory=list, repr=False)
    """Every score that was given, oldest first: the newest of a name counts."""
    notes: list[Row] = field(default_factory=list, repr=False)
    findings: list[Row] = field(default_factory=list, repr=False)
    """What the checks found: flag, op_id, detail. `flags` are the names of these."""
    pruned: Pruning | None = None
    """When and why payloads went; None if all are there."""

    def walk(self) -> Iterator[Op]:
        """All ops, each before its children."""
        for op in self.ops:
            yield from op.walk()

    @property
    def conversation(self) -> list[Message]:
        """The messages between model, tools and user: see `query.conversation`."""
        return conversation_of(sorted(self.walk(), key=lambda op: op.start_ns))


def build(
    summary: Row,
    own: Row | None,
    spans: list[Row],
    transitions: list[Row],
    scores: list[Row],
    notes: list[Row],
    findings: list[Row],
) -> Trajectory:
    """A trajectory from its rows; `own` is its row of the `trajectories` table, if it has one."""
    inside: Row = {name: (own or {}).get(name) for name in ("traceback", "parent_trajectory_id", "parent_op_id")}
    tags = summary["tags"]
    notes = [_parsed(row, "body") for row in notes]
    pruned = pruning_of(notes, spans, findings)
    tokens = [_tokens(span) for span in spans if any(span[name] is not None for name in TOKEN_COLUMNS)]
    by_op = {each.op_id: each for each in tokens}
    ops = {span["op_id"]: _op(span, pruned) for span in spans}
    return Trajectory(
        **{**summary, "tags": {} if tags is None else as_object(tags, "tags")},
        **inside,
        ops=_tree(spans, ops),
        tokens=tokens,
        transitions=read_transitions([_marked(_parsed(row, "trace", "fields"), pruned) for row in transitions], ops),
        scores=[{**row, "terms": None if row["terms"] is None else as_object(row["terms"], "terms")} for row in scores],
        notes=[note for note in notes if note["event"] != PRUNED],
        findings=[explained(_parsed(row, "detail"), by_op) for row in findings],
        pruned=pruned,
    )


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


def _op(span: Row, pruned: Pruning | None) -> Op:
    columns = {name: span[name] for name in TOKEN_COLUMNS}
    payload = as_value(span["payload"], columns) if span["payload"] is not None else {}
    if span["payload"] is not None:
        pruned = None
    elif pruned is not None:
        payload = {"inputs": pruned.mark, "outputs": pruned.mark if span["error"] is None else None}
    if not isinstance(payload, dict) or not payload.keys() <= {"inputs", "outputs"}:
        payload = {"inputs": payload}
    plain = (
        "op_id", "name", "kind", "status", "start_ns", "end_ns", "error", "traceback", "policy_version",
        "prompt_tokens", "response_tokens", "cached_tokens", "reasoning_tokens",
    )  # fmt: skip
    return Op(
        **{name: span[name] for name in plain},
        finish_reason=span["finish_reason"],
        worker=span["worker"],
        inputs=payload.get("inputs"),
        outputs=payload.get("outputs"),
        prompt_text=span["prompt_text"],
        response_text=span["response_text"],
        pruned=pruned,
    )


def _marked(transition: Row, pruned: Pruning | None) -> Row:
    if pruned is None or transition["trace"] is not None or transition["fields"] is not None:
        return transition
    return {**transition, "trace": pruned.mark}


def _tokens(span: Row) -> OpTokens:
    names = (*TOKEN_COLUMNS, "prompt_text", "response_text", "piece_chars")
    return OpTokens(span["op_id"], span["name"], *(span[name] for name in names))


def _parsed(row: Row, *names: str) -> Row:
    return {key: as_value(value) if key in names and value is not None else value for key, value in row.items()}


def as_object(text: str, name: str) -> dict[str, Any]:
    """The value of a column that holds objects; whoever reads it relies on that."""
    value = as_value(text)
    return value if isinstance(value, dict) else {name: value}


def as_value(text: str, columns: Row | None = None) -> Any:
    """The value of a JSON column. One that is no JSON, or deeper than any that we write, does not hide the rest."""
    try:
        return restore(json.loads(text), columns or {})
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
