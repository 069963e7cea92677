"""Engines that know nothing of rolltrace read its plain tables: the same rows, and the same answers as ours."""

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
from tests.integrations.engines.comparing import normalize, read_plain, record_what_is_rare

PAGE = ROOT / "docs" / "howto" / "engines.md"


def find_different(theirs: list[engines.Rows], ours: list[engines.Rows]) -> list[str]:
    """The questions to which the answers differ."""
    pairs = zip(QUESTIONS, ours, theirs, strict=True)
    return [question.title for question, mine, other in pairs if not engines.same_rows(mine, other)]


@pytest.mark.parametrize("engine", ["DuckDB", "Polars", "ClickHouse"])
def test_twenty_answers_are_equal_to_ours(engine: str, demo_store: Path, ours: list[engines.Rows]) -> None:
    with engines.ENGINES[engine](demo_store) as ask:
        assert find_different(engines.answers(ask, engine), ours) == []


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """One session for all tests: a cluster takes some time to start."""
    with spark_session() as session:
        yield session


def test_twenty_answers_of_spark_are_equal_to_ours(demo_store: Path, ours: list[engines.Rows], spark: Any) -> None:
    assert find_different(engines.answers(engines.spark_in(spark, demo_store), "Spark"), ours) == []


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


@pytest.fixture(scope="module")
def odd_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("odd") / "it's a store"
    record_what_is_rare(store)
    return store


@pytest.mark.parametrize("engine", ["DuckDB", "ClickHouse"])
def test_settled_tables_have_the_same_rows_elsewhere(engine: str, odd_store: Path) -> None:
    with engines.ENGINES[engine](odd_store) as ask:
        check_rows(ask, odd_store)


def test_settled_tables_have_the_same_rows_in_spark(odd_store: Path, spark: Any) -> None:
    check_rows(engines.spark_in(spark, odd_store), odd_store)


def check_rows(ask: engines.Ask, store: Path) -> None:
    tables = {name: table for name, table in read_plain(store).items() if name in engines.TABLES}
    answers = ask([f"SELECT {', '.join(columns)} FROM {name}" for name, (columns, _) in tables.items()])
    for (name, (_, mine)), theirs in zip(tables.items(), answers, strict=True):
        assert mine
        assert engines.same_rows(normalize(mine), normalize(theirs)), name
