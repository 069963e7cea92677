"""Reads the completions that TRL's GRPO and RLOO trainers log (`log_completions=True`): `completions_STEP.parquet`.

A row has `step`, `prompt`, `completion` (text or messages), a column for each reward function, what those logged
besides, and `advantage`. Numbers are terms of the reward, those called a reward alone if there are any; their sum is
the reward, which is what TRL trains on unless it was given `reward_weights`, which the file does not tell. Rows of a
step with the same prompt are rollouts of one sample.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_checks import ImportChecks
from rolltrace.exchange.import_rows import (
    ImportedRow,
    Malformed,
    Samples,
    is_number,
    listed,
    score_row,
    trajectory_row,
    whole,
    without_nothing,
)
from rolltrace.exchange.import_turns import Turns, add_message
from rolltrace.exchange.importer import Line, LineReader, Source, place_of
from rolltrace.exchange.splitting import as_bytes, parquet_rows

_OWN = frozenset({"step", "prompt", "completion", "advantage"})


def files(folder: Path) -> list[Path]:
    """The completions of an output folder, or of the folder `completions` in it."""
    return sorted(folder.glob("completions_*.parquet")) or sorted(folder.glob("completions/completions_*.parquet"))


def recognise(peek: Peek) -> str | None:
    """By its columns."""
    is_log = peek.columns >= _OWN
    return "a Parquet file with step, prompt, completion and advantage" if is_log else None


def reader(source: Source) -> LineReader:
    """A reader of the rows of one file."""
    source.target.named()
    source.split = parquet_rows
    checks, samples = ImportChecks(), Samples()

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        missing = ", ".join(sorted({"step", "prompt", "completion"} - record.keys()))
        if missing:
            raise Malformed(f"the file has no column {missing}")
        step, at = whole(record["step"], "step"), line.time_ns
        where = samples.of((step, as_bytes(record["prompt"])), line.number - 1)
        place = place_of(source, line, step=step, validate=source.target.validate, **where)
        turns = Turns(place, at)
        for message in _messages(record, "prompt", "user"):
            add_message(turns, message, said_before=True)
        for message in _messages(record, "completion", "assistant"):
            add_message(turns, message)
        rewards = _rewards(record)
        tags = {name: value for name, value in record.items() if name not in _OWN and name not in rewards}
        ops = turns.finished()
        end = turns.end_ns + 1
        rows = [trajectory_row(place, "trl", at, end, without_nothing(tags)), *ops]
        if rewards:
            counted = [value for value in rewards.values() if not math.isnan(value)]  # NaN: not for this sample
            rows.append(score_row(place, math.fsum(counted) if counted else math.nan, rewards, end))
        if is_number(record.get("advantage")):
            rows.append(score_row(place, record["advantage"], {}, end, "advantage"))
        return checks.flagged(place, rows)

    return read


def _rewards(record: dict[str, Any]) -> dict[str, float]:
    numbers = {
        name: float(value)
        for name, value in record.items()
        if name not in _OWN and is_number(value) and not isinstance(value, bool)
    }
    called = {name: value for name, value in numbers.items() if "reward" in name.lower()}
    return called or numbers


def _messages(record: dict[str, Any], name: str, role: str) -> list[dict[str, Any]]:
    value = without_nothing(record[name])
    return [{"role": role, "content": value}] if isinstance(value, str) else listed({name: value}, name)
