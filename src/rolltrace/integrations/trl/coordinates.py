"""Which sample a row of a batch is, and which of its rollouts: also when its group is spread over several ranks.

TRL itself takes the rows of all ranks one after the other, and every `num_generations` of them as a group. So where a
row stands among all rows says what it is, and ranks need not ask each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import xxhash

import rolltrace
from rolltrace.record import SampleIndex

ID_COLUMNS = ("sample_index", "index", "id", "uid", "task_id", "idx", "question_id", "problem_id")
"""Columns of a dataset that say which sample a row is, the best first."""
_PLAIN = (str, int, float, bool, type(None))


class Coordinates(NamedTuple):
    """Where a row stands."""

    sample_index: SampleIndex
    rollout_n: int


class BatchPosition(NamedTuple):
    """Where a batch of this process stands among those of all ranks."""

    step: int
    validate: bool
    rank: int
    group_size: int


def coordinates_of(rows: Sequence[Mapping[str, Any]], position: BatchPosition) -> list[Coordinates]:
    """The coordinates of each row. A sample that is drawn again in the same step gets further numbers."""
    first_row = position.rank * len(rows)
    first_numbers: dict[int, int] = {}
    coordinates = []
    for at, row in enumerate(rows, first_row):
        group, number = divmod(at, position.group_size)
        sample = sample_of(row)
        if group not in first_numbers:
            first_numbers[group] = rolltrace.capture.next_rollout_n(
                sample, position.step, validate=position.validate, count=position.group_size
            )
        coordinates.append(Coordinates(sample, first_numbers[group] + number))
    return coordinates


def sample_of(row: Mapping[str, Any]) -> SampleIndex:
    """What its dataset calls the row; else a digest of what it says, the same in every epoch and on every rank."""
    for column in ID_COLUMNS:
        value = row.get(column)
        if isinstance(value, int | str) and not isinstance(value, bool) and value != "":
            return value
    text = json.dumps(_plain(row), sort_keys=True)
    return xxhash.xxh3_64_hexdigest(text.encode(errors="surrogatepass"))


def _plain(value: Any) -> Any:
    """Without what has no text of its own, such as images: their representation differs between processes."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, _PLAIN) else None
