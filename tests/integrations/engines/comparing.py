"""What an engine says beside what rolltrace says; and a store with what is rare, to ask about."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from benchmarks.engines import answers as engines
from benchmarks.engines.questions import QUESTIONS
from rolltrace.query import open_store
from tests.draining import drain

COMPARED = (
    "trajectories", "scores", "latest_scores", "labels", "unmatched_scores", "groups", "flags", "losses", "spans",
)  # fmt: skip
"""Views whose rows are compared one by one; not the columns that hold JSON, which engines write down differently."""
_JSON = {"payload", "inputs", "outputs", "terms", "tags", "detail", "body", "trace", "fields"}


def assert_same_answers(ask: engines.Ask, engine: str, ours: list[engines.Rows]) -> None:
    """To the twenty questions."""
    theirs = engines.answers(ask, engines.dialect_of(engine))
    different = [
        question.title
        for question, mine, other in zip(QUESTIONS, ours, theirs, strict=True)
        if not engines.same_rows(mine, other)
    ]
    assert different == []


def assert_same_rows(ask: engines.Ask, store: Path, database: str = "") -> None:
    """In every view."""
    opened = open_store(store)
    ours = {view: opened.sql(f"select * from {view}") for view in COMPARED}
    columns = {view: [name for name in rows.columns if name not in _JSON] for view, rows in ours.items()}
    answers = ask([f"SELECT {', '.join(columns[view])} FROM {database}{view}" for view in COMPARED])
    for view, theirs in zip(COMPARED, answers, strict=True):
        mine = [tuple(row[name] for name in columns[view]) for row in ours[view].rows()]
        assert mine or view == "losses"
        assert engines.same_rows(_plain(mine), _plain(theirs)), view


def _plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in which what JSON and ClickHouse cannot hold is as they have it: no NaN, no null lists."""

    def value(cell: Any) -> Any:
        if isinstance(cell, float) and math.isnan(cell):
            return None
        if cell is None or cell == []:
            return None
        return (
            json.dumps([round(each, 4) if isinstance(each, float) else each for each in cell])
            if isinstance(cell, list)
            else cell
        )

    return [tuple(value(cell) for cell in row) for row in rows]


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int], reply: str) -> dict[str, Any]:
    return {"text": reply, "token_ids": [ord(each) for each in reply], "logprobs": [-0.5] * len(reply)}


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> str:
    raise ValueError(f"no {query}")


def record_what_is_rare(store: Path) -> None:
    """Two runs, late scores by id and by coordinates, labels, NaN, loose ops, errors."""
    ids: dict[tuple[int, int], str] = {}
    for run in ("first", "second"):
        rolltrace.init("p / 数学", "e", "rolltrace", store=store, drain="off", run=run)
        for step in (1, 2) if run == "first" else (2, 3):
            for n in range(3):
                with rolltrace.rollout_trace_attr(7, step=step, rollout_n=n, level="x") as trajectory:
                    generate([1, 2, 3], "é" * n)
                    if n:
                        trajectory.reward((0.5, math.nan)[n == 2], terms={"format": 1.0})
                ids[step, n] = trajectory.id
        with pytest.raises(ValueError, match="no page"), rolltrace.rollout_trace_attr("uuid", step=3, validate=True):
            search("page")
        with pytest.raises(ValueError, match="no trajectory"):
            search("trajectory")  # belongs to none
        rolltrace.score(ids[2, 0], "reward", 0.75)
        rolltrace.score((2, 7, 1), "advantage", -1.5)
        rolltrace.score("f" * 32, "reward", 1.0)  # of a trajectory that nobody traced
        rolltrace.shutdown()
        rolltrace.init("p / 数学", "e", "rolltrace", store=store, drain="off", run="judge")  # it outlives a restart
        rolltrace.score((2, 7, 2), "advantage", 2.5 if run == "first" else 3.5)
        rolltrace.score((3, 7, 0), "reward", 4.5)  # the first time, before there is any
        rolltrace.shutdown()
    opened = open_store(store)
    opened.label(ids[2, 0], "good", author="ann")
    opened.label(ids[2, 1], "bad", author="bob")
    drain(store)
