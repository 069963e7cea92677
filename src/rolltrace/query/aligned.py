"""A comparison for show: what each trajectory said in each turn, runs of equal turns folded into one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rolltrace.query.bounds import bounded
from rolltrace.query.comparison import Comparison, TokenDivergence, TurnRow
from rolltrace.query.model import comparison as model
from rolltrace.query.model.rows import listing_row
from rolltrace.query.model.trajectory import Message
from rolltrace.query.sequence import TokenSequence
from rolltrace.query.shown_messages import messages_of_trajectory, shorten
from rolltrace.query.trajectory import Trajectory

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
        rows=_rows(comparison),
        best=comparison.best,
        identical=comparison.identical,
        first_diverging_turn=comparison.first_diverging_turn,
        first_difference=_difference(comparison.first_diverging_token, sequences),
        attributes=_differing(comparison.attributes),
        scores=_differing(comparison.scores),
    )


def _rows(comparison: Comparison) -> list[model.CompareRow]:
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


def _differing(values: dict[str, list[Any]]) -> list[model.Differing]:
    return [model.Differing(name, [bounded(value) for value in each]) for name, each in values.items()]
