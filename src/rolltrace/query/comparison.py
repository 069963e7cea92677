"""Align trajectories turn by turn and find where they diverge, and show that side by side.

A turn is a model call with the tool calls that began after it and before the next one. Tool calls before the first
model call belong to no turn. Something diverges where not all trajectories have the same; having no such turn,
token or call any more, because a trajectory ended, is a difference too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from rolltrace.errors import ConfigError
from rolltrace.query.columns import COLUMNS
from rolltrace.query.contents import Pruning
from rolltrace.query.conversation import messages_of_trajectory, shorten
from rolltrace.query.model import trajectory as model
from rolltrace.query.model.rows import listing_row
from rolltrace.query.model.trajectory import Message
from rolltrace.query.op import Op, OpTokens
from rolltrace.query.scope import NO_OLDER_RUNS, OlderRuns
from rolltrace.query.sequence import TokenSequence
from rolltrace.query.trajectory import Trajectory
from rolltrace.query.values import bounded

ATTRIBUTES = tuple(column.name for column in COLUMNS if column.comparable)
"""What `Comparison.attributes` looks at."""


class ToolCall(NamedTuple):
    """A call of a tool: diverges by name or arguments, not by what came back."""

    name: str
    arguments: Any


@dataclass(frozen=True)
class Turn:
    """A model call and the tool calls after it."""

    op_id: int
    tokens: list[int] | None
    text: str | None
    tools: list[Op]
    details: OpTokens | None = None
    pruned: Pruning | None = None
    """When and why its payload went: there is nothing to compare."""

    @property
    def calls(self) -> list[ToolCall]:
        return [ToolCall(op.name, op.inputs) for op in self.tools]


@dataclass(frozen=True)
class TurnRow:
    """The same turn of every trajectory; None for one that has ended before."""

    index: int
    turns: list[Turn | None]
    same: bool
    """The same reply, the same tool calls, the same results."""

    @property
    def known(self) -> bool:
        """Whether there is something to compare in all of them: no payload was pruned."""
        return _none_pruned(self.turns)


@dataclass(frozen=True)
class TokenDivergence:
    """The first place where the replies differ."""

    unit: Literal["token", "character"]
    """Characters when tokens were not recorded everywhere."""
    index: int
    """Among all replies, one after the other."""
    turn: int
    index_in_turn: int
    values: list[int | str | None]
    """What each trajectory has there; None for one whose reply has ended."""
    texts: list[str | None] = field(default_factory=list)
    """The text of these tokens; None where it is not known."""


@dataclass(frozen=True)
class ToolDivergence:
    """The first tool call that differs in name or arguments."""

    turn: int
    index_in_turn: int
    calls: list[ToolCall | None]


class Parting(NamedTuple):
    """Where a trajectory diverges from the best one; None and None if it does not."""

    turn: int | None
    token: TokenDivergence | None
    """Its `values` are those of the best one and of this one."""


@dataclass(frozen=True)
class Comparison:
    """What `Store.compare` and `Store.compare_group` give."""

    trajectories: list[Trajectory]
    turns: list[TurnRow]
    first_diverging_turn: int | None
    """Index of the first turn that differs; None if none does."""
    first_diverging_token: TokenDivergence | None
    first_diverging_tool_call: ToolDivergence | None
    attributes: dict[str, list[Any]]
    """Those that differ: name -> one value per trajectory."""
    scores: dict[str, list[float | str | None]]
    best: int
    """Which trajectory has the highest reward; the first, if none has any."""
    partings: list[Parting]
    """For each trajectory, where it diverges from the best one."""
    older_runs: OlderRuns = NO_OLDER_RUNS
    """Of a group: what was left out because a newer run reached the step."""

    @property
    def identical(self) -> bool:
        """Whether model and tools did the same in all of them; not so where a payload was pruned and nobody knows."""
        return self.first_diverging_turn is None and all(row.known for row in self.turns)

    def _repr_html_(self) -> str:
        from rolltrace.query.notebook import comparison_html

        return comparison_html(self)


def compare(trajectories: Sequence[Trajectory]) -> Comparison:
    """Where two or more trajectories diverge."""
    if len(trajectories) < 2:
        raise ConfigError(f"comparing needs two or more trajectories, not {len(trajectories)}")
    split = [turns_of(each) for each in trajectories]
    rows = _rows(split)
    best = max(range(len(split)), key=lambda at: _rank(trajectories[at].reward))
    return Comparison(
        trajectories=list(trajectories),
        turns=rows,
        first_diverging_turn=_first_turn(rows),
        first_diverging_token=_first_token(rows),
        first_diverging_tool_call=_first_tool_call(rows),
        attributes=_differing({name: [getattr(each, name) for each in trajectories] for name in ATTRIBUTES}),
        scores=_differing(_scores(trajectories)),
        best=best,
        partings=[_parting(split[best], turns) for turns in split],
    )


def turns_of(trajectory: Trajectory) -> list[Turn]:
    """The turns of a trajectory, in the order they began."""
    details = {tokens.op_id: tokens for tokens in trajectory.tokens}
    said: dict[int, list[str]] = {}
    for row in trajectory.messages:
        if row.op_id is not None and row.kind == "message" and row.role == "assistant":
            said.setdefault(row.op_id, []).append(row.to_message().spoken())
    turns: list[Turn] = []
    for op in sorted(trajectory.walk(), key=lambda op: op.start_ns):
        if op.kind == "llm":
            tokens = details.get(op.op_id)
            ids = None if tokens is None else tokens.response_ids
            turns.append(Turn(op.op_id, ids, _text_of(op, said.get(op.op_id)), [], tokens, op.pruned))
        elif op.kind == "tool" and turns:
            turns[-1].tools.append(op)
    return turns


def _text_of(op: Op, said: list[str] | None) -> str | None:
    if op.pruned is not None:
        return None
    if said is not None:
        return "\n".join(said)
    reply = op.reply  # of a call around other calls, whose reply is theirs
    return None if reply is None else reply.spoken()


def _rows(split: Sequence[list[Turn]]) -> list[TurnRow]:
    return [
        TurnRow(index, list(turns), _all_same([_substance(turn) for turn in turns]) and _none_pruned(turns))
        for index, turns in enumerate(zip_longest(*split))
    ]


def _none_pruned(turns: Sequence[Turn | None]) -> bool:
    return all(turn is None or turn.pruned is None for turn in turns)


def _rank(reward: float | None) -> float:
    return -math.inf if reward is None or math.isnan(reward) else reward


def _parting(best: list[Turn], other: list[Turn]) -> Parting:
    rows = _rows([best, other])
    return Parting(_first_turn(rows), _first_token(rows))


def _first_turn(rows: list[TurnRow]) -> int | None:
    return next((row.index for row in rows if not row.same and row.known), None)


def _substance(turn: Turn | None) -> Any:
    if turn is None:
        return None
    return turn.tokens, turn.text, [(op.name, op.inputs, op.outputs, op.error) for op in turn.tools]


def _first_token(rows: list[TurnRow]) -> TokenDivergence | None:
    rows = [row for row in rows if row.known]
    present = [turn for row in rows for turn in row.turns if turn is not None]
    tokens = all(turn.tokens is not None for turn in present)
    before = 0
    for row in rows:
        replies: list[Sequence[Any]] = [
            () if turn is None else (turn.tokens or ()) if tokens else (turn.text or "") for turn in row.turns
        ]
        for at, values in enumerate(zip_longest(*replies)):
            if not _all_same(values):
                texts = [_piece(turn, at) for turn in row.turns] if tokens else []
                return TokenDivergence(
                    "token" if tokens else "character", before + at, row.index, at, list(values), texts
                )
        before += len(replies[0])
    return None


def _piece(turn: Turn | None, at: int) -> str | None:
    pieces = None if turn is None or turn.details is None else turn.details.response_pieces
    return pieces[at] if pieces is not None and at < len(pieces) else None


def _first_tool_call(rows: list[TurnRow]) -> ToolDivergence | None:
    for row in rows:
        if not row.known:
            continue
        calls = [[] if turn is None else turn.calls for turn in row.turns]
        for at, each in enumerate(zip_longest(*calls)):
            if not _all_same(each):
                return ToolDivergence(row.index, at, list(each))
    return None


def _scores(trajectories: Sequence[Trajectory]) -> dict[str, list[float | str | None]]:
    newest = [{name: score.shown for name, score in each.newest_scores.items()} for each in trajectories]
    return {name: [each.get(name) for each in newest] for name in sorted(set().union(*newest))}


def _differing(values: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: each for name, each in values.items() if not _all_same(each)}


def _all_same(values: Sequence[Any]) -> bool:
    # By their text: NaN is the same as NaN here, and True is not 1.
    return all(value == values[0] or repr(value) == repr(values[0]) for value in values[1:])


Spoken = dict[int, list[Message]]
"""The messages of each turn."""


def side_by_side(
    comparison: Comparison, sequences: Sequence[TokenSequence], names: Sequence[str | None] | None = None
) -> model.Comparison:
    """A comparison as a page shows it; `sequences` are those of its trajectories, `names` of the stores they are in."""
    compared = comparison.trajectories
    columns = [
        model.CompareColumn(listing_row(each.to_row()), name, each.turns, parting.turn)
        for each, name, parting in zip(compared, names or [None] * len(compared), comparison.partings)
    ]
    return model.Comparison(
        columns=columns,
        rows=_shown_rows(comparison),
        best=comparison.best,
        identical=comparison.identical,
        first_diverging_turn=comparison.first_diverging_turn,
        first_difference=_difference(comparison.first_diverging_token, sequences),
        attributes=_shown(comparison.attributes),
        scores=_shown(comparison.scores),
    )


def _shown_rows(comparison: Comparison) -> list[model.CompareRow]:
    spoken = [_by_turn(each) for each in comparison.trajectories]
    rows: list[model.CompareRow] = []
    for row in comparison.turns:
        equal = row.same and _same_messages([turns.get(row.index, []) for turns in spoken])
        turns = [_turn(row, at, own) for at, own in enumerate(spoken[:1] if equal else spoken)]
        tokens = turns[0].tokens if equal and turns[0] is not None else None
        last = rows[-1] if rows else None
        if equal and last is not None and last.equal:
            last.last_turn = row.index
            last.turns += turns
            last.tokens = tokens if last.tokens is None else last.tokens + (tokens or 0)
        else:
            rows.append(model.CompareRow(row.index, row.index, equal, tokens, turns))
    return rows


def _by_turn(trajectory: Trajectory) -> Spoken:
    by_turn: Spoken = {}
    for message in messages_of_trajectory(trajectory):
        by_turn.setdefault(message.turn or 0, []).append(message)
    return by_turn


def _same_messages(several: list[list[Message]]) -> bool:
    plain = [[(each.role, each.parts) for each in messages] for messages in several]
    return all(each == plain[0] for each in plain[1:])


def _turn(row: TurnRow, at: int, spoken: Spoken) -> model.CompareTurn | None:
    turn = row.turns[at]
    if turn is None:
        return None
    messages = [shorten(each, index) for index, each in enumerate(spoken.get(row.index, []))]
    return model.CompareTurn(row.index, str(turn.op_id), messages, None if turn.tokens is None else len(turn.tokens))


def _difference(found: TokenDivergence | None, sequences: Sequence[TokenSequence]) -> model.Difference | None:
    if found is None:
        return None
    places = [_place(found, each) for each in sequences]
    return model.Difference(found.turn, found.unit, found.index, found.index_in_turn, places, found.values, found.texts)


def _place(difference: TokenDivergence, sequence: TokenSequence) -> int | None:
    """Where in the one token sequence of a trajectory it is."""
    if difference.unit == "token":
        for segment in sequence.segments:
            if segment.kind == "response" and segment.turn == difference.turn:
                return min(segment.start + difference.index_in_turn, segment.end - 1)
    return None


def _shown(values: dict[str, list[Any]]) -> list[model.Differing]:
    return [model.Differing(name, [bounded(value) for value in each]) for name, each in values.items()]
