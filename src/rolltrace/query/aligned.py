"""A comparison for show: what each trajectory said in each turn, runs of equal turns folded into one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from rolltrace.query.comparison import Comparison, TokenDivergence, TurnRow
from rolltrace.query.shown_messages import ShownMessage, messages_of_trajectory
from rolltrace.query.trajectory import Trajectory


class ShownTurn(NamedTuple):
    """One turn of one trajectory: what was said before the model's reply, and the reply with its tool calls."""

    turn: int
    op_id: int | None
    messages: list[ShownMessage]
    tokens: int | None


@dataclass(frozen=True)
class ShownRow:
    """The same turn of every trajectory, or a run of turns that are equal in all."""

    first_turn: int
    last_turn: int
    equal: bool
    tokens: int | None
    """Of equal turns: how many response tokens they have together."""
    turns: list[ShownTurn | None]
    """One for each trajectory, None for one that ended before; of equal turns, those of the first trajectory."""


@dataclass(frozen=True)
class SideBySide:
    """What `side_by_side` gives."""

    rows: list[ShownRow]
    first_difference: TokenDivergence | None
    places: list[int | None]
    """Where the first difference is in the token sequence of each trajectory."""


def side_by_side(comparison: Comparison, places: list[Any]) -> SideBySide:
    """The rows of a comparison. `places` are the token sequences of its trajectories (see `query.token_sequence`)."""
    spoken = [_by_turn(each) for each in comparison.trajectories]
    rows: list[ShownRow] = []
    equal: list[TurnRow] = []
    for row in comparison.turns:
        prompts_differ = row.same and not _same_messages([turns.get(row.index, []) for turns in spoken])
        if row.same and not prompts_differ:
            equal.append(row)
            continue
        if equal:
            rows.append(_folded(equal, spoken))
            equal = []
        turns = [_turn(row, at, own) for at, own in enumerate(spoken)]
        rows.append(ShownRow(row.index, row.index, False, None, turns))
    if equal:
        rows.append(_folded(equal, spoken))
    difference = comparison.first_diverging_token
    return SideBySide(rows, difference, [_place(difference, each) for each in places])


def _by_turn(trajectory: Trajectory) -> dict[int, list[ShownMessage]]:
    by_turn: dict[int, list[ShownMessage]] = {}
    for message in messages_of_trajectory(trajectory):
        by_turn.setdefault(message.turn or 0, []).append(message)
    return by_turn


def _same_messages(several: list[list[ShownMessage]]) -> bool:
    plain = [[(each.role, each.parts) for each in messages] for messages in several]
    return all(each == plain[0] for each in plain[1:])


def _turn(row: TurnRow, at: int, spoken: dict[int, list[ShownMessage]]) -> ShownTurn | None:
    turn = row.turns[at]
    if turn is None:
        return None
    tokens = None if turn.tokens is None else len(turn.tokens)
    return ShownTurn(row.index, turn.op_id, spoken.get(row.index, []), tokens)


def _folded(equal: list[TurnRow], spoken: list[dict[int, list[ShownMessage]]]) -> ShownRow:
    turns = [_turn(row, 0, spoken[0]) for row in equal]
    counts = [turn.tokens for turn in turns if turn is not None and turn.tokens is not None]
    return ShownRow(equal[0].index, equal[-1].index, True, sum(counts) if counts else None, list(turns))


def _place(difference: TokenDivergence | None, sequence: Any) -> int | None:
    if difference is None or difference.unit != "token" or sequence is None:
        return None
    for segment in sequence.segments:
        if segment.kind == "response" and segment.turn == difference.turn:
            return int(min(segment.start + difference.index_in_turn, segment.end - 1))
    return None
