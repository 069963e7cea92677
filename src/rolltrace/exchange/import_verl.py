"""Reads verl's step dumps: `trainer.rollout_data_dir` and `trainer.validation_data_dir` hold files STEP.jsonl.

A line has `input`, `output`, `score`, `step`, and what the reward function gave besides. Lines of a file with the same
`uid`, or without one the same `input`, are the rollouts of one sample, which is named by the index of its first line.
The v1 trainer writes `uid` as `{sample}_{session}_{row}`: a session is one rollout, and its rows, which stand together,
are model calls of it; the last one has the score. Further numbers become terms of the reward, all else tags.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, NamedTuple

from rolltrace.exchange.import_rows import ImportedRow, Malformed, is_number, number, number_again, whole
from rolltrace.exchange.importer import Line, LineReader, Source

_OWN = ("input", "output", "score", "step")
_V1_UID = re.compile(r"(.+)_(\d+)_(\d+)", re.DOTALL)
_IS_TEXT = re.compile(
    r"(?:^|_)(?:gts?|truth|answers?|preds?|predictions?|extracted|solution|label|target|uid|uuid|id|text|source)(?:$|_)"
)
"""Names of fields in which digits are an answer or an id, not a number that became text."""


class _Uid(NamedTuple):
    """What the `uid` of a line says."""

    sample: str
    session: int | None = None
    """Which rollout, in dumps of the v1 trainer."""


def _uid(record: dict[str, Any]) -> _Uid | None:
    uid = record.get("uid")
    if not isinstance(uid, str):
        return None
    v1 = _V1_UID.fullmatch(uid)
    return _Uid(uid) if v1 is None else _Uid(v1[1], int(v1[2]))


def _session(record: dict[str, Any]) -> Hashable:
    """What lines of one rollout have in common; None for a line that is a rollout of its own."""
    uid = _uid(record)
    return None if uid is None or uid.session is None else (record.get("step"), uid)


def reader(source: Source) -> LineReader:
    """A reader of the lines of one step."""
    source.same_trajectory = _session
    step_of_file = int(source.path.stem) if source.path.stem.isdecimal() else None
    samples: dict[tuple[int | None, str], int] = {}
    rollouts: dict[tuple[int | None, int], int] = {}

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        for each in line.records:
            if not isinstance(each.get("input"), str) or not isinstance(each.get("output"), str):
                raise Malformed("input and output must be text")
        record = line.records[-1]
        score = number(number_again(record.get("score")), "score")
        step, uid = whole(number_again(record.get("step", step_of_file)), "step"), _uid(record)
        named = line.records[0]["input"] if uid is None else uid.sample
        sample_index = samples.setdefault((step, named), line.number - 1)
        rollout_n = rollouts.get((step, sample_index), 0) if uid is None or uid.session is None else uid.session
        rollouts[step, sample_index] = rollouts.get((step, sample_index), 0) + 1
        own_id = source.trajectory_id(line, step)
        draft = source.draft(line, "verl", own_id, step=step, sample_index=sample_index, rollout_n=rollout_n)
        for each in line.records:
            draft.op("generate", "llm", inputs={"prompt": each["input"]}, outputs={"content": each["output"]})
        extra = {
            name: value if _IS_TEXT.search(name.lower()) else number_again(value)
            for name, value in record.items()
            if name not in _OWN and value is not None
        }
        terms = {name: float(value) for name, value in extra.items() if is_number(value)}
        draft.reward(score, terms)
        return draft.finish({name: value for name, value in extra.items() if name not in terms})

    return read
