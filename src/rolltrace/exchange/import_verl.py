"""Reads verl's step dumps: `trainer.rollout_data_dir` and `trainer.validation_data_dir` hold files STEP.jsonl.

A line has `input`, `output`, `score`, `step`, and what the reward function gave besides. Lines of a file with the same
`uid`, or without one the same `input`, are the rollouts of one sample, which is named by the index of its first line.
Further numbers become terms of the reward, all else tags.
"""

from __future__ import annotations

from typing import Any

from rolltrace.exchange.import_checks import ImportChecks
from rolltrace.exchange.import_rows import (
    ImportedRow,
    Malformed,
    is_number,
    score_row,
    span_row,
    trajectory_row,
    whole,
)
from rolltrace.exchange.importer import Line, LineReader, Source, place_of

_OWN = ("input", "output", "score", "step")


def reader(source: Source) -> LineReader:
    """A reader of the lines of one step."""
    source.target.named()
    checks = ImportChecks()
    step_of_file = int(source.path.stem) if source.path.stem.isdecimal() else None
    samples: dict[tuple[int | None, str], int] = {}
    rollouts: dict[tuple[int | None, int], int] = {}

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        prompt, reply, score = record.get("input"), record.get("output"), record.get("score")
        if not isinstance(prompt, str) or not isinstance(reply, str):
            raise Malformed("input and output must be text")
        if score is not None and not is_number(score):
            raise Malformed(f"score must be a number, not {score!r:.60}")
        step = whole(record.get("step", step_of_file), "step")
        uid = record.get("uid")
        sample_index = samples.setdefault((step, uid if isinstance(uid, str) else prompt), line.number - 1)
        rollout_n = rollouts.get((step, sample_index), 0)
        rollouts[step, sample_index] = rollout_n + 1
        extra = {name: value for name, value in record.items() if name not in _OWN and value is not None}
        place = place_of(
            source, line, source.trajectory_id(line, step), step=step, sample_index=sample_index, rollout_n=rollout_n,
            validate=source.target.validate,
        )  # fmt: skip
        at = line.time_ns
        tags = {name: value for name, value in extra.items() if not is_number(value)}
        call = span_row(place, 0, "generate", "llm", at, inputs={"prompt": prompt}, outputs={"content": reply})
        rows = [trajectory_row(place, "verl", at, at + 1, tags), call]
        terms = {name: float(value) for name, value in extra.items() if is_number(value)}
        if score is not None or terms:
            rows.append(score_row(place, score, terms, at + 1))
        return checks.flagged(place, rows)

    return read
