"""A store with what is rare, settled, to be read row by row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.query import open_store
from tests.draining import drain

TABLES = ("trajectories", "ops", "messages", "scores", "flags")
"""Those whose rows are compared."""
_NOT_COMPARED = {"payload", "tags", "terms", "detail", "body", "traceback"}
"""JSON and maps, which engines write down differently."""


def read_plain(store: Path) -> dict[str, tuple[list[str], list[tuple[Any, ...]]]]:
    """Name of a table -> its columns and rows, as rolltrace itself sees them."""
    tables = {}
    with open_store(store) as opened:
        for name in TABLES:
            view = {"trajectories": "_rows", "scores": "_scores"}.get(name, name)
            rows = opened._ask(f"SELECT * FROM {view}").rows()
            columns = [column for column in rows[0] if column not in _NOT_COMPARED]
            tables[name] = columns, [tuple(row[column] for column in columns) for row in rows]
    return tables


def normalize(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows in which what JSON and ClickHouse cannot hold is as they have it: no NaN, no null lists."""

    def value(cell: Any) -> Any:
        if cell is None or (isinstance(cell, float) and math.isnan(cell)):
            return None
        return " ".join(map(str, cell)) or None if isinstance(cell, list | tuple) else cell

    return [tuple(value(cell) for cell in row) for row in rows]


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int], reply: str) -> dict[str, Any]:
    return {"text": reply, "token_ids": [ord(each) for each in reply], "logprobs": [-0.5] * len(reply)}


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> str:
    raise ValueError(f"no {query}")


def record_what_is_rare(store: Path) -> None:
    """Two runs, late scores by id and by coordinates, labels, NaN, loose ops, errors, no step."""
    ids: dict[tuple[int, int], str] = {}
    for run in ("first", "second"):
        rolltrace.init("p / 数学", "it's an experiment", "rolltrace", store=store, drain="off", run=run)
        for step in (1, 2) if run == "first" else (2, 3):
            for n in range(3):
                with rolltrace.rollout_trace_attr(7, step=step, rollout_n=n, level="x") as trajectory:
                    generate([1, 2, 3], "é" * n)
                    if n:
                        trajectory.reward((0.5, math.nan)[n == 2], terms={"format": 1.0})
                ids[step, n] = trajectory.id
        with rolltrace.rollout_trace_attr("no step"):
            generate([1], "x")
        with pytest.raises(ValueError, match="no page"), rolltrace.rollout_trace_attr("uuid", step=3, validate=True):
            search("page")
        rolltrace.score(ids[2, 0], "reward", 0.75)
        rolltrace.score((2, 7, 1), "advantage", -1.5)
        rolltrace.shutdown()
    with open_store(store) as opened:
        opened.label(ids[2, 0], "good", author="ann")
    drain(store, compacted=True)
