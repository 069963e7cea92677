"""Reads verl's step dumps: `trainer.rollout_data_dir` and `trainer.validation_data_dir` hold files STEP.jsonl.

A line has `input`, `output`, `score`, `step`, and what the reward function gave besides. Lines of a file with the same
`uid`, or without one the same `input`, are the rollouts of one sample, which is named by the index of its first line.
The v1 trainer writes `uid` as `{sample}_{session}_{row}`: a session is one rollout, and its rows, which stand together,
are model calls of it; the last one has the score. Further numbers become terms of the reward, all else tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from rolltrace.exchange import fields
from rolltrace.exchange.draft import ImportedRow
from rolltrace.exchange.fields import number_again
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import Line, json_records

_OWN = ("input", "output", "score", "step")
_V1_UID = re.compile(r"(.+)_(\d+)_(\d+)", re.DOTALL)
_IS_TEXT = re.compile(
    r"(?:^|_)(?:gts?|truth|answers?|preds?|predictions?|extracted|solution|label|target|uid|uuid|id|text|source)(?:$|_)"
)
"""Names of fields in which digits are an answer or an id, not a number that became text."""


def reader(source: Source) -> LineReader:
    """A reader of the lines of one step."""
    source.split = _rollouts
    step_of_file = int(source.path.stem) if source.path.stem.isdecimal() else None
    samples: dict[tuple[int | None, str], int] = {}
    rollouts: dict[tuple[int | None, int], int] = {}

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        records = fields.objects(record, "rows") or [{}]
        for each in records:
            if not isinstance(each.get("input"), str) or not isinstance(each.get("output"), str):
                raise fields.Malformed("input and output must be text")
        record = records[-1]
        score = fields.number(number_again(record.get("score")), "score")
        step = fields.whole(number_again(record.get("step", step_of_file)), "step")
        sample, session = _read_uid(record)
        name = records[0]["input"] if sample is None else sample
        sample_index = samples.setdefault((step, name), line.number - 1)
        rollout_n = rollouts.get((step, sample_index), 0) if session is None else session
        rollouts[step, sample_index] = rollouts.get((step, sample_index), 0) + 1
        own_id = source.trajectory_id(line, step)
        draft = source.draft(line, "verl", own_id, step=step, sample_index=sample_index, rollout_n=rollout_n)
        for each in records:
            draft.op("generate", "llm", inputs={"prompt": each["input"]}, outputs={"content": each["output"]})
        extra = {
            name: number_again(value) if isinstance(value, str) and not _IS_TEXT.search(name.lower()) else value
            for name, value in record.items()
            if name not in _OWN and value is not None
        }
        terms = fields.numbers_in(extra)
        draft.reward(score, terms)
        return draft.finish(fields.leave(extra, terms))

    return read


def _read_uid(record: Any) -> tuple[str | None, int | None]:
    """The sample that the `uid` of a line names and, in dumps of the v1 trainer, which rollout of it."""
    uid = record.get("uid") if isinstance(record, dict) else None
    if not isinstance(uid, str):
        return None, None
    v1 = _V1_UID.fullmatch(uid)
    return (uid, None) if v1 is None else (v1[1], int(v1[2]))


def _rollouts(path: Path) -> Iterator[Line]:
    """The rollouts of a file, each with its rows: those of one session stand together."""

    def session(line: Line) -> object:
        sample, number = _read_uid(line.value)
        return line.number if number is None else (line.value.get("step"), sample, number)

    for _, group in groupby(json_records(path), session):
        lines = list(group)
        if isinstance(lines[0].value, dict):
            yield Line(
                lines[0].number, b"\n".join(line.raw for line in lines), {"rows": [line.value for line in lines]}
            )
        else:
            yield lines[0]
