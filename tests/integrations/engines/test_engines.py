"""The views that `rolltrace sql --print-views` prints, in real engines: the same rows and the same answers as ours."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from benchmarks.engines import answers as engines
from benchmarks.engines.questions import QUESTIONS
from rolltrace.query import open_store
from tests.draining import drain

ROOT = Path(__file__).parents[3]
COMPARED = (
    "trajectories",
    "scores",
    "latest_scores",
    "labels",
    "unmatched_scores",
    "groups",
    "flags",
    "losses",
    "spans",
)
"""Views whose rows are compared one by one; not the columns that hold JSON, which engines write down differently."""
_JSON = {"payload", "inputs", "outputs", "terms", "tags", "detail", "body", "trace", "fields"}


@pytest.fixture(scope="module")
def ours(demo_store: Path) -> list[engines.Rows]:
    with engines.rolltrace(demo_store) as ask:
        return engines.answers(ask, "duckdb")


@pytest.mark.parametrize("engine", ["DuckDB", "Polars", "ClickHouse"])
def test_twenty_answers_are_equal_to_ours(engine: str, demo_store: Path, ours: list[engines.Rows]) -> None:
    with engines.ENGINES[engine](demo_store) as ask:
        check_answers(engines.answers(ask, engines.dialect_of(engine)), ours)


def test_twenty_answers_of_spark_are_equal_to_ours(demo_store: Path, ours: list[engines.Rows]) -> None:
    with engines.spark(demo_store) as ask:
        check_answers(engines.answers(ask, "spark"), ours)


def check_answers(theirs: list[engines.Rows], ours: list[engines.Rows]) -> None:
    different = [
        question.title
        for question, mine, other in zip(QUESTIONS, ours, theirs, strict=True)
        if not engines.same_rows(mine, other)
    ]
    assert different == []


def test_the_table_of_the_docs_is_about_these_questions(ours: list[engines.Rows]) -> None:
    page = (ROOT / "docs" / "howto" / "engines.md").read_text()
    for number, (question, rows) in enumerate(zip(QUESTIONS, ours, strict=True), 1):
        assert rows
        assert f"| {number}. {question.title} |" in page
    assert "DIFFERENT" not in page


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt_ids: list[int], reply: str) -> dict[str, Any]:
    return {"text": reply, "token_ids": [ord(each) for each in reply], "logprobs": [-0.5] * len(reply)}


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> str:
    raise ValueError(f"no {query}")


@pytest.fixture(scope="module")
def odd_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with what is rare: two runs, late scores by id and by coordinates, labels, NaN, loose ops, errors."""
    store = tmp_path_factory.mktemp("odd") / "it's a store"
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
    opened = open_store(store)
    opened.label(ids[2, 0], "good", author="ann")
    opened.label(ids[2, 1], "bad", author="bob")
    drain(store)
    return store


@pytest.fixture(scope="module")
def clickhouse(odd_store: Path) -> Iterator[engines.Ask]:
    with engines.clickhouse(odd_store) as ask:
        yield ask


@pytest.mark.parametrize("view", COMPARED)
def test_clickhouse_has_the_same_rows(view: str, odd_store: Path, clickhouse: engines.Ask) -> None:
    columns, mine = our_rows(odd_store, view)
    (theirs,) = clickhouse([f"SELECT {', '.join(columns)} FROM views.{view}"])
    assert mine or view in ("losses",)
    assert engines.same_rows(plain(mine), plain(theirs))


def test_duckdb_alone_has_the_same_rows(odd_store: Path) -> None:
    with engines.duckdb(odd_store) as ask:
        for view in COMPARED:
            columns, mine = our_rows(odd_store, view)
            (theirs,) = ask([f"SELECT {', '.join(columns)} FROM {view}"])
            assert engines.same_rows(plain(mine), plain(theirs)), view


def our_rows(store: Path, view: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    result = open_store(store).sql(f"select * from {view}")
    columns = [name for name in result.columns if name not in _JSON]
    return columns, [tuple(row[name] for name in columns) for row in result.rows()]


def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
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
