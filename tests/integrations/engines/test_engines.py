"""The views that `rolltrace sql --print-views` prints, in real engines: the same rows and the same answers as ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engines import answers as engines
from benchmarks.engines.questions import QUESTIONS
from benchmarks.engines.spark import spark_session
from tests.docs.pages import ROOT, blocks_of

from .comparing import assert_same_answers, assert_same_rows

PAGE = ROOT / "docs" / "howto" / "engines.md"


@pytest.mark.parametrize("engine", ["DuckDB", "Polars", "ClickHouse"])
def test_twenty_answers_are_equal_to_ours(engine: str, demo_store: Path, ours: list[engines.Rows]) -> None:
    with engines.ENGINES[engine](demo_store) as ask:
        assert_same_answers(ask, engine, ours)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """One session for all tests: a cluster takes some time to start."""
    with spark_session() as session:
        yield session


def test_twenty_answers_of_spark_are_equal_to_ours(demo_store: Path, ours: list[engines.Rows], spark: Any) -> None:
    assert_same_answers(engines.spark_in(spark, demo_store), "Spark", ours)


def test_the_table_of_the_docs_is_about_these_questions(ours: list[engines.Rows]) -> None:
    page = PAGE.read_text()
    for number, (question, rows) in enumerate(zip(QUESTIONS, ours, strict=True), 1):
        assert rows
        assert f"| {number}. {question.title} |" in page
    assert "DIFFERENT" not in page


@pytest.mark.parametrize("engine", ["clickhouse", "spark"])
def test_the_example_of_the_docs_runs(engine: str, demo_store: Path) -> None:
    (example,) = (block.text for block in blocks_of(PAGE) if block.language == f"python {engine}")
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, cwd=demo_store.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "avg(reward)" in done.stdout


def test_clickhouse_has_the_same_rows(odd_store: Path) -> None:
    with engines.clickhouse(odd_store) as ask:
        assert_same_rows(ask, odd_store, "views.")


def test_duckdb_alone_has_the_same_rows(odd_store: Path) -> None:
    with engines.duckdb(odd_store) as ask:
        assert_same_rows(ask, odd_store)


def test_spark_has_the_same_rows(odd_store: Path, spark: Any) -> None:
    assert_same_rows(engines.spark_in(spark, odd_store), odd_store)
