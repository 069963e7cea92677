"""How each engine is asked, over the views that `rolltrace sql --print-views` prints for it.

Rolltrace itself answers through its API. The others never see it: DuckDB is in a process that does not import it.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.engines.questions import QUESTIONS, SPELLINGS

Rows = list[tuple[Any, ...]]
Ask = Callable[[list[str]], list[Rows]]
_ASKED = ("trajectories", "spans", "latest_scores", "groups")
"""The views that the questions name."""


def views_sql(store: Path, dialect: str, path: str | None = None) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "rolltrace", "sql", "--print-views", "--dialect", dialect, str(store)]
    if path is not None:
        command += ["--path", path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def statements(sql: str) -> list[str]:
    """The statements of a script, one by one, without comments."""
    lines = "\n".join(line for line in sql.splitlines() if not line.startswith("--"))
    return [each.strip() for each in lines.split(";\n") if each.strip()]


@contextmanager
def rolltrace(store: Path) -> Iterator[Ask]:
    import rolltrace

    with rolltrace.open(store) as opened:
        yield lambda questions: [[tuple(row.values()) for row in opened.sql(sql).rows()] for sql in questions]


_ALONE = """
import json, sys
import duckdb
asked = json.load(sys.stdin)
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")  # it would be printed where the answers are
connection.execute(asked["views"])
answers = [connection.execute(sql).fetchall() for sql in asked["questions"]]
assert "rolltrace" not in sys.modules
json.dump(answers, sys.stdout)
"""


@contextmanager
def duckdb(store: Path) -> Iterator[Ask]:
    views = views_sql(store, "duckdb")

    def ask(questions: list[str]) -> list[Rows]:
        asked = json.dumps({"views": views, "questions": questions})
        done = subprocess.run([sys.executable, "-c", _ALONE], input=asked, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return [[tuple(row) for row in rows] for rows in json.loads(done.stdout)]

    yield ask


@contextmanager
def polars(store: Path) -> Iterator[Ask]:
    import polars as pl

    from benchmarks.engines.frames import frames

    context = pl.SQLContext({name: frame.collect().lazy() for name, frame in frames(str(store)).items()}, eager=True)
    yield lambda questions: [context.execute(sql).rows() for sql in questions]


@contextmanager
def clickhouse(store: Path, path: str | None = None) -> Iterator[Ask]:
    """The engine of ClickHouse, in this process."""
    from chdb import session

    with session.Session() as engine:
        engine.query("CREATE DATABASE views")
        engine.query("USE views")
        for each in statements(views_sql(store, "clickhouse", path)):
            engine.query(each)
        engine.query("CREATE DATABASE asked")
        for name in _ASKED:  # once: a view is computed anew for every question
            engine.query(f"CREATE TABLE asked.{name} ENGINE = Memory AS SELECT * FROM views.{name}")
        engine.query("USE asked")

        def ask(questions: list[str]) -> list[Rows]:
            answers = [str(engine.query(sql, "JSONCompactEachRow")) for sql in questions]
            return [[tuple(json.loads(line)) for line in answer.splitlines()] for answer in answers]

        yield ask


@contextmanager
def spark(store: Path, master: str = "local[2]") -> Iterator[Ask]:
    """Spark, in local mode unless told otherwise (`local-cluster[2,1,1024]`: workers in processes of their own)."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g",
        "spark.executor.memory": "512m", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    session = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        for each in statements(views_sql(store, "spark")):
            session.sql(each)
        for name in ("_rows", *_ASKED):  # what most of the views are made of first
            session.sql(f"CACHE TABLE {name}")
        yield lambda questions: [[tuple(row) for row in session.sql(sql).collect()] for sql in questions]
    finally:
        session.stop()


ENGINES: dict[str, Callable[[Path], Any]] = {
    "DuckDB": duckdb, "Polars": polars, "ClickHouse": clickhouse, "Spark": spark
}  # fmt: skip
_DIALECTS = {"Polars": "polars", "ClickHouse": "clickhouse", "Spark": "spark"}


def answers(ask: Ask, dialect: str) -> list[Rows]:
    """The answers to the twenty questions."""
    return ask([question.sql(SPELLINGS[dialect]) for question in QUESTIONS])


def dialect_of(engine: str) -> str:
    return _DIALECTS.get(engine, "duckdb")


def same_rows(one: Sequence[tuple[Any, ...]], other: Sequence[tuple[Any, ...]]) -> bool:
    """Whether two answers hold the same rows, in any order, with numbers that are equal but for rounding in the end."""
    if len(one) != len(other):
        return False
    pairs = zip(_in_order(one), _in_order(other), strict=True)
    return all(_same(left, right) for mine, theirs in pairs for left, right in zip(mine, theirs, strict=True))


def _in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [_key(value) for value in row])


def _key(value: Any) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return 0, round(float(value), 6), ""
    return (2, 0.0, "") if value is None else (1, 0.0, str(value))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
