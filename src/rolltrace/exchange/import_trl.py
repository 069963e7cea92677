"""Reads the completions that TRL's GRPO and RLOO trainers log (`log_completions=True`): `completions_STEP.parquet`.

A row has `step`, `prompt`, `completion` (text or messages), a column for each reward function, what those logged
besides (`log_extra`), and `advantage`. Rows of a step with the same prompt are rollouts of one sample.

Which columns are rewards the file does not say, or the user does; its advantages do. The rewards are the first few
number columns; how many is found by computing the advantages again from the sum of the first one, two, ... columns, in
each of the ways that TRL has. A column that is the same for all rollouts of each prompt changes no advantage: then the
other files of the folder are asked, and at last the user. The sum of the rewards, weighted if so told, is the reward.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from rolltrace.exchange import fields
from rolltrace.exchange.draft import ImportedRow
from rolltrace.exchange.fields import Malformed, is_number
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.packed_files import parquet_rows, read_parquet
from rolltrace.exchange.source_lines import Line
from rolltrace.exchange.text import as_bytes

_OWN_COLUMNS = frozenset({"step", "prompt", "completion", "advantage"})
_STD_EPSILON = 1e-4
"""What TRL adds to a standard deviation before it divides by it."""
_TOLERANCE = 1e-3
_ROUNDING = 2.0**-21
"""Four times the distance of 1.0 from the next number of 32 bits."""
_MAX_FILES = 100
"""How many other files of a folder are read for one whose own advantages leave a question."""


def reader(source: Source) -> LineReader:
    """A reader of the rows of one file."""
    weights: dict[str, float] = dict(source.target.rewards or {})
    samples = fields.Samples()

    def split(path: Path) -> Iterator[Line]:
        weights.update({} if source.target.rewards else _find_rewards(path))
        yield from parquet_rows(path)

    source.split = split

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        fields.require(record, "step", "prompt", "completion")
        step = fields.whole(record["step"], "step")
        where = samples.of((step, as_bytes(record["prompt"])), line.number - 1)
        draft = source.draft(line, "trl", step=step, **where)
        for message in _messages(record, "prompt", "user"):
            draft.add_message(message, said_before=True)
        for message in _messages(record, "completion", "assistant"):
            draft.add_message(message)
        _check_named(record, weights)
        rewards = fields.numbers_in({name: record[name] for name in weights})
        if rewards:
            # NaN: that function had nothing to say of this sample.
            counted = [value * weights[name] for name, value in rewards.items() if not math.isnan(value)]
            draft.score("reward", math.fsum(counted) if counted else math.nan, rewards)
        draft.advantage(record.get("advantage"))
        return draft.finish(fields.without_nothing(fields.leave(record, {*_OWN_COLUMNS, *rewards})))

    return read


def _messages(record: dict[str, Any], name: str, role: str) -> list[dict[str, Any]]:
    value = fields.without_nothing(record[name])
    return [{"role": role, "content": value}] if isinstance(value, str) else fields.objects({name: value}, name)


class _Completions(NamedTuple):
    """What one file says about rewards."""

    columns: list[str]
    """Those that may be rewards, in their order."""
    rewards: list[list[float]]
    """Of each of `columns`, for each completion; NaN where a function had nothing to say."""
    advantages: list[float]
    """NaN if the file has none."""
    runs: list[range]
    """Neighbouring rows with the same prompt."""


def _find_rewards(path: Path) -> dict[str, float]:
    """The columns whose sum is the reward, each with its weight."""
    completions = _read(path)
    columns = completions.columns
    if not columns:
        return {}
    fitting = _fitting_counts(completions)
    others = sorted(each for each in path.parent.glob("completions_*.parquet") if each != path and each.is_file())
    for other in others[:_MAX_FILES]:
        if not fitting or not _open_columns(completions, fitting):
            break
        sibling = _read(other)
        if sibling.columns[: len(columns)] == columns:
            fitting &= _fitting_counts(sibling)
    if not fitting:
        raise Malformed(
            f"its advantages do not follow from the sum of the columns {', '.join(columns)}: they were weighted "
            f"(reward_weights), or some are no rewards; say which are, with their weights: --rewards "
            f"{','.join(f'{name}=1' for name in columns)}"
        )
    unclear = _open_columns(completions, fitting)
    if unclear:
        raise Malformed(
            f"cannot tell whether {', '.join(unclear)} {'is a reward' if len(unclear) == 1 else 'are rewards'}: the "
            f"advantages fit with and without; name the columns that are: --rewards {','.join(columns[: min(fitting)])}"
        )
    return dict.fromkeys(columns[: max(fitting)], 1.0)


def _check_named(record: Mapping[str, Any], rewards: Mapping[str, float]) -> None:
    """Refuse names that are no columns of a row."""
    unknown = [name for name in rewards if name not in record]
    if unknown:
        numbers = [name for name, value in record.items() if name not in _OWN_COLUMNS and is_number(value)]
        raise Malformed(f"no column {', '.join(unknown)} to take for a reward; numbers are in: {', '.join(numbers)}")


def _read(path: Path) -> _Completions:
    rows = [
        {
            name: as_bytes(value) if name == "prompt" else value
            for name, value in row.items()
            if name in ("prompt", "advantage") or isinstance(value, float | int | None)
        }
        for row in read_parquet(path)
    ]
    names = [name for name in (rows[0] if rows else ()) if name not in _OWN_COLUMNS]
    columns = list(takewhile(lambda name: _may_be_reward([row.get(name, "") for row in rows]), names))
    runs, end = [], 0
    for _, same in groupby(rows, key=lambda row: row.get("prompt")):
        start, end = end, end + len(list(same))
        runs.append(range(start, end))
    rewards = [[_number(row[name]) for row in rows] for name in columns]
    return _Completions(columns, rewards, [_number(row.get("advantage")) for row in rows], runs)


def _may_be_reward(values: list[Any]) -> bool:
    """Whether these are what TRL writes of a reward function: numbers of 32 bits as floats."""
    if not all(value is None or isinstance(value, float) for value in values):
        return False
    numbers = [value for value in values if value is not None and math.isfinite(value)]
    try:
        return list(struct.unpack(f"{len(numbers)}f", struct.pack(f"{len(numbers)}f", *numbers))) == numbers
    except OverflowError:
        return False


def _number(value: Any) -> float:
    return float(value) if isinstance(value, float) else float("nan")


def _open_columns(completions: _Completions, fitting: set[int]) -> list[str]:
    """The columns that may be rewards or not, and make a difference; those with `reward` in their name are."""
    between = range(min(fitting), max(fitting))
    return [
        name
        for name, rewards in ((completions.columns[at], completions.rewards[at]) for at in between)
        if "reward" not in name.lower() and any(reward for reward in rewards if not math.isnan(reward))
    ]


def _fitting_counts(completions: _Completions) -> set[int]:
    """How many of the columns may be rewards: the advantages follow from the sum of so many."""
    counts = set(range(1, len(completions.columns) + 1))
    if not completions.advantages or any(map(math.isnan, completions.advantages)):
        return counts
    return {
        count
        for count in counts
        if any(
            _explain(completions.rewards[:count], completions.advantages, groups)
            for groups in _possible_groups(completions.runs)
        )
    }


def _possible_groups(runs: list[range]) -> Iterator[list[range]]:
    """The rows that may have been compared with each other: a prompt may stand in a batch several times in a row.

    TRL keeps as many rows as a training batch has. After an evaluation the first group may be cut off, and is left out.
    """
    longest = max(map(len, runs))
    whole = runs[1:] if len(runs[0]) < longest else runs
    for size in range(1, longest + 1):
        if longest % size == 0 and (size > 1 or longest == 1):
            yield [
                run[start : start + length]
                for run in whole
                for length in [size if len(run) % size == 0 else len(run)]
                for start in range(0, len(run), length)
            ]


def _explain(rewards: Sequence[Sequence[float]], advantages: list[float], groups: list[range]) -> bool:
    """Whether these advantages are those of the sum of these rewards."""
    total = [_sum(row) for row in zip(*rewards)]
    scored = [math.nan if math.isnan(reward) else advantage for reward, advantage in zip(total, advantages)]
    centred, std = _centre(total, groups)
    expected, _ = _centre(scored, groups)
    by_column = [0.0] * len(total)
    for column in rewards:
        for at, (own_centred, own_std) in enumerate(zip(*_centre(column, groups))):
            by_column[at] += own_centred / (own_std + _STD_EPSILON)
    rounding = _ROUNDING * max((abs(reward) for reward in total if not math.isnan(reward)), default=0.0)
    tolerance = _TOLERANCE * max(map(abs, expected)) + 1e-6
    by_group = [1 / (own + _STD_EPSILON) for own in std]
    return any(
        all(
            abs(value * factor - wanted) <= tolerance + rounding * factor
            for value, factor, wanted in zip(computed, factors, expected)
        )
        for computed, factors in (
            (centred, by_group),  # scale_rewards="group", TRL's default
            (centred, [_scale(centred, expected)] * len(total)),  # "none", "batch", and RLOO
            (by_column, [_scale(by_column, expected)] * len(total)),  # multi_objective_aggregation="normalize_then_sum"
        )
    )


def _sum(rewards: Sequence[float]) -> float:
    """The reward of a completion; NaN if no function had anything to say."""
    given = [reward for reward in rewards if not math.isnan(reward)]
    return sum(given) if given else math.nan


def _centre(values: Sequence[float], groups: list[range]) -> tuple[list[float], list[float]]:
    """For each value its distance from the mean of its group, 0 for NaN, and the standard deviation of its group."""
    centred, std = [0.0] * len(values), [0.0] * len(values)
    for group in groups:
        rows = [at for at in group if not math.isnan(values[at])]
        if len(rows) > 1:
            own = [values[at] for at in rows]
            mean = sum(own) / len(own)
            deviation = math.sqrt(sum((value - mean) ** 2 for value in own) / (len(own) - 1))
            for at in rows:
                centred[at], std[at] = values[at] - mean, deviation
    return centred, std


def _scale(values: list[float], expected: list[float]) -> float:
    """The one positive factor between these, as near as it gets."""
    square = sum(value * value for value in values)
    return max(0.0, sum(map(math.prod, zip(values, expected))) / square) if square else 0.0
