"""Which columns of TRL's completions are rewards: the file does not say, its advantages do.

TRL writes one column per reward function first, then what those functions logged besides (`log_extra`), then the
advantage. So the rewards are the first few number columns; how many is found by computing the advantages again from
the sum of the first one, two, ... columns, in each of the ways that TRL has. A column that is the same for all rollouts
of each prompt changes no advantage: then the other files of the folder are asked, and at last the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rolltrace.exchange.import_rows import Malformed, is_number
from rolltrace.exchange.splitting import read_parquet
from rolltrace.exchange.text import as_bytes

OWN_COLUMNS = frozenset({"step", "prompt", "completion", "advantage"})
_STD_EPSILON = 1e-4
"""What TRL adds to a standard deviation before it divides by it."""
_TOLERANCE = 1e-3
_MAX_FILES = 100
"""How many other files of a folder are read for one whose own advantages leave a question."""

_Numbers = npt.NDArray[np.float64]


class _Completions(NamedTuple):
    """What one file says about rewards."""

    columns: list[str]
    """Those that may be rewards, in their order."""
    rewards: _Numbers
    """A row for each completion, a column for each of `columns`; NaN where a function had nothing to say."""
    advantages: _Numbers
    """NaN if the file has none."""
    runs: list[range]
    """Neighbouring rows with the same prompt."""


def find_rewards(path: Path) -> dict[str, float]:
    """The columns whose sum is the reward, each with its weight.

    Raises:
        Malformed: the file leaves it open; the message says what to type.
    """
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


def check_named(record: Mapping[str, Any], rewards: Mapping[str, float]) -> None:
    """Refuse names that are no columns of a row.

    Raises:
        Malformed: the message lists the columns with numbers.
    """
    unknown = [name for name in rewards if name not in record]
    if unknown:
        numbers = [name for name, value in record.items() if name not in OWN_COLUMNS and is_number(value)]
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
    names = [name for name in (rows[0] if rows else ()) if name not in OWN_COLUMNS]
    columns = list(takewhile(lambda name: _may_be_reward([row.get(name, "") for row in rows]), names))
    runs, end = [], 0
    for _, same in groupby(rows, key=lambda row: row.get("prompt")):
        start, end = end, end + len(list(same))
        runs.append(range(start, end))
    numbers = np.array([[row[name] for name in columns] for row in rows], dtype=np.float64)
    advantages = np.array([_number(row.get("advantage")) for row in rows], dtype=np.float64)
    return _Completions(columns, numbers.reshape(len(rows), len(columns)), advantages, runs)


def _may_be_reward(values: list[Any]) -> bool:
    """Whether these are what TRL writes of a reward function: numbers of 32 bits as floats."""
    if not all(value is None or isinstance(value, float) for value in values):
        return False
    numbers = np.array([_number(value) for value in values], dtype=np.float64)
    with np.errstate(over="ignore"):
        return bool(np.array_equal(numbers.astype(np.float32).astype(np.float64), numbers, equal_nan=True))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, float) else float("nan")


def _open_columns(completions: _Completions, fitting: set[int]) -> list[str]:
    """The columns that may be rewards or not, and make a difference; those with `reward` in their name are."""
    between = range(min(fitting), max(fitting))
    columns = completions.columns
    zero = [not np.nan_to_num(completions.rewards[:, at]).any() for at in between]
    return [columns[at] for at, is_zero in zip(between, zero) if not is_zero and "reward" not in columns[at].lower()]


def _fitting_counts(completions: _Completions) -> set[int]:
    """How many of the columns may be rewards: the advantages follow from the sum of so many."""
    counts = set(range(1, len(completions.columns) + 1))
    if np.isnan(completions.advantages).any() or not len(completions.advantages):
        return counts
    return {
        count
        for count in counts
        if any(
            _explain(completions.rewards[:, :count], completions.advantages, groups)
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


def _explain(rewards: _Numbers, advantages: _Numbers, groups: list[range]) -> bool:
    """Whether these advantages are those of the sum of these rewards."""
    is_scored = ~np.isnan(rewards).all(axis=1)
    total = np.where(is_scored, np.nansum(rewards, axis=1), np.nan)
    centred, std = _centre(total, groups)
    expected, _ = _centre(np.where(is_scored, advantages, np.nan), groups)
    by_column = np.zeros_like(total)
    for column in rewards.T:
        own_centred, own_std = _centre(column, groups)
        by_column += own_centred / (own_std + _STD_EPSILON)
    rounding = 4 * np.finfo(np.float32).eps * np.abs(np.nan_to_num(total)).max()
    tolerance = _TOLERANCE * np.abs(expected).max() + 1e-6
    return any(
        bool((np.abs(computed * factor - expected) <= tolerance + rounding * factor).all())
        for computed, factor in (
            (centred, 1 / (std + _STD_EPSILON)),  # scale_rewards="group", TRL's default
            (centred, _scale(centred, expected)),  # "none", "batch", and RLOO
            (by_column, _scale(by_column, expected)),  # multi_objective_aggregation="normalize_then_sum"
        )
    )


def _centre(values: _Numbers, groups: list[range]) -> tuple[_Numbers, _Numbers]:
    """For each value its distance from the mean of its group, 0 for NaN, and the standard deviation of its group."""
    centred, std = np.zeros_like(values), np.zeros_like(values)
    for group in groups:
        rows = np.array(group)
        rows = rows[~np.isnan(values[rows])]
        if len(rows) > 1:
            centred[rows] = values[rows] - values[rows].mean()
            std[rows] = values[rows].std(ddof=1)
    return centred, std


def _scale(values: _Numbers, expected: _Numbers) -> float:
    """The one positive factor between these, as near as it gets."""
    square = float(values @ values)
    return max(0.0, float(values @ expected) / square) if square else 0.0
