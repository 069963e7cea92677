"""Reads the completions that TRL's GRPO and RLOO trainers log (`log_completions=True`): `completions_STEP.parquet`.

A row has `step`, `prompt`, `completion` (text or messages), a column for each reward function, what those logged
besides, and `advantage`. Which of them are rewards is found by `trl_rewards`, or told by the user; their sum, weighted
if so told, is the reward. Rows of a step with the same prompt are rollouts of one sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rolltrace.exchange.import_rows import (
    ImportedRow,
    Malformed,
    Samples,
    is_number,
    listed,
    require,
    whole,
    without_nothing,
)
from rolltrace.exchange.importer import BadLine, Line, LineReader, Source
from rolltrace.exchange.splitting import parquet_rows
from rolltrace.exchange.text import as_bytes
from rolltrace.exchange.trl_rewards import OWN_COLUMNS, check_named, find_rewards


def reader(source: Source) -> LineReader:
    """A reader of the rows of one file."""
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
        require(record, "step", "prompt", "completion")
        step = whole(record["step"], "step")
        where = samples.of((step, as_bytes(record["prompt"])), line.number - 1)
        draft = source.draft(line, "trl", step=step, **where)
        for message in _messages(record, "prompt", "user"):
            draft.add_message(message, said_before=True)
        for message in _messages(record, "completion", "assistant"):
            draft.add_message(message)
        check_named(record, weights)
        rewards = {name: float(record[name]) for name in weights if is_number(record[name])}
        if rewards:
            # NaN: that function had nothing to say of this sample.
            counted = [value * weights[name] for name, value in rewards.items() if not math.isnan(value)]
            draft.score("reward", math.fsum(counted) if counted else math.nan, rewards)
        if is_number(record.get("advantage")):
            draft.score("advantage", record["advantage"])
        tags = {name: value for name, value in record.items() if name not in OWN_COLUMNS and name not in rewards}
        return draft.finish(without_nothing(tags))

    return read


def _messages(record: dict[str, Any], name: str, role: str) -> list[dict[str, Any]]:
    value = without_nothing(record[name])
    return [{"role": role, "content": value}] if isinstance(value, str) else listed({name: value}, name)
