"""Several trajectories side by side."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from rolltrace.query.model import Json
from rolltrace.query.model.lists import TrajectoryRow
from rolltrace.query.model.trajectory import Message


class CompareTurn(Struct):
    """One turn of one trajectory: the model's reply with its tool calls, and what was said before it."""

    turn: int
    op_id: str | None
    messages: list[Message]
    tokens: int | None


class CompareRow(Struct):
    """The same turn of every trajectory, or a run of turns that are equal in all of them."""

    first_turn: int
    last_turn: int
    """The same as first_turn, except in a run of equal turns."""
    equal: bool
    tokens: int | None
    """Of equal turns: how many response tokens they have together."""
    turns: list[CompareTurn | None]
    """One for each column; None for a trajectory that ended before. Of equal turns: those of the first column."""


class Difference(Struct):
    """The first place where the replies differ."""

    turn: int
    unit: Literal["token", "character"]
    index: int
    """Among all replies, one after the other."""
    index_in_turn: int
    sequence_index: list[int | None]
    """The same place in the token sequence of each trajectory."""
    values: list[int | str | None]
    pieces: list[str | None]
    """The text of these tokens."""


class Differing(Struct):
    """An attribute or a score that is not the same in all."""

    name: str
    values: list[Json]


class CompareColumn(Struct):
    """One of the trajectories compared."""

    row: TrajectoryRow
    store: str | None
    """Of several stores, the one it is in."""
    turns: int
    parts_at_turn: int | None
    """Where it leaves the way of the best one; None if it does not."""


class Comparison(Struct):
    """Two to eight trajectories side by side."""

    columns: list[CompareColumn]
    rows: list[CompareRow]
    best: int
    """Which column has the highest reward."""
    identical: bool
    first_diverging_turn: int | None
    first_difference: Difference | None
    attributes: list[Differing]
    scores: list[Differing]
