"""Reads the completions that TRL's GRPO and RLOO trainers log (`log_completions=True`): `completions_STEP.parquet`.

A row has `step`, `prompt`, `completion` (text or messages), a column for each reward function, what those logged
besides, and `advantage`. Which of them are rewards is found by `trl_rewards`, or told by the user; their sum, weighted
if so told, is the reward. Rows of a step with the same prompt are rollouts of one sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from rolltrace.exchange.importer import BadLine, Line, LineReader, Source, place_of
from rolltrace.exchange.splitting import as_bytes, parquet_rows
from rolltrace.exchange.trl_rewards import OWN_COLUMNS, check_named, find_rewards


def files(folder: Path) -> list[Path]:
    """The completions of an output folder, or of the folder `completions` in it."""
    return sorted(folder.glob("completions_*.parquet")) or sorted(folder.glob("completions/completions_*.parquet"))


def reader(source: Source) -> LineReader:
    """A reader of the rows of one file."""
    source.target.named()
    weights: dict[str, float] = dict(source.target.rewards or {})
    samples = Samples()

    def split(source: Source) -> Iterator[Line | BadLine]:
        try:
            weights.update(find_rewards(source.path) if not source.target.rewards else {})
        except Malformed as fault:
            yield BadLine(source.path, 0, str(fault))
        else:
            yield from parquet_rows(source)

    source.split = split

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
        check_named(record, weights)
        rewards = {name: float(record[name]) for name in weights if is_number(record[name])}
        tags = {name: value for name, value in record.items() if name not in OWN_COLUMNS and name not in rewards}
        ops = turns.finished()
        end = turns.end_ns + 1
        rows = [trajectory_row(place, "trl", at, end, without_nothing(tags)), *ops]
        if rewards:
            # NaN: that function had nothing to say of this sample.
            counted = [value * weights[name] for name, value in rewards.items() if not math.isnan(value)]
            rows.append(score_row(place, math.fsum(counted) if counted else math.nan, rewards, end))
        if is_number(record.get("advantage")):
            rows.append(score_row(place, record["advantage"], {}, end, "advantage"))
        return rows

    return read


def _messages(record: dict[str, Any], name: str, role: str) -> list[dict[str, Any]]:
    value = without_nothing(record[name])
    return [{"role": role, "content": value}] if isinstance(value, str) else listed({name: value}, name)
