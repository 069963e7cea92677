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

from rolltrace.exchange import fields
from rolltrace.exchange.draft import ImportedRow
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.packed_files import parquet_rows
from rolltrace.exchange.source_lines import Line
from rolltrace.exchange.text import as_bytes
from rolltrace.exchange.trl_rewards import OWN_COLUMNS, check_named, find_rewards


def reader(source: Source) -> LineReader:
    """A reader of the rows of one file."""
    weights: dict[str, float] = dict(source.target.rewards or {})
    samples = fields.Samples()

    def split(path: Path) -> Iterator[Line]:
        weights.update({} if source.target.rewards else find_rewards(path))
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
        check_named(record, weights)
        rewards = fields.numbers_in({name: record[name] for name in weights})
        if rewards:
            # NaN: that function had nothing to say of this sample.
            counted = [value * weights[name] for name, value in rewards.items() if not math.isnan(value)]
            draft.score("reward", math.fsum(counted) if counted else math.nan, rewards)
        draft.advantage(record.get("advantage"))
        return draft.finish(fields.without_nothing(fields.leave(record, {*OWN_COLUMNS, *rewards})))

    return read


def _messages(record: dict[str, Any], name: str, role: str) -> list[dict[str, Any]]:
    value = fields.without_nothing(record[name])
    return [{"role": role, "content": value}] if isinstance(value, str) else fields.objects({name: value}, name)
