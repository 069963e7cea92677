"""How each engine is asked, over the views that `rolltrace sql --print-views` prints for it.

Rolltrace itself answers through its API. The others never see it: DuckDB is in a process that does not import it.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.engines.frames import frames, of_lake, of_store
from benchmarks.engines.questions import QUESTIONS, SPELLINGS
from benchmarks.engines.spark import create_views, spark_session

_VIEW_OF_FILES = re.compile(r"CREATE OR REPLACE VIEW (_files_\w+) AS")
Rows = list[tuple[Any, ...]]
Ask = Callable[[list[str]], list[Rows]]
_ASKED = ("trajectories", "spans", "latest_scores", "groups")
"""The views that the questions name."""


def views_sql(store: Path | str, dialect: str, path: str | None = None) -> str:
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
from importlib.util import find_spec
from pathlib import Path
import duckdb
asked = json.load(sys.stdin)
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")  # it would be printed where the answers are
if delta := find_spec("duckdb_extension_delta"):
    (extension,) = Path(delta.origin).parent.rglob("*.duckdb_extension")
    connection.load_extension(str(extension))
connection.execute(asked["views"])
answers = [connection.execute(sql).fetchall() for sql in asked["questions"]]
assert "rolltrace" not in sys.modules
json.dump(answers, sys.stdout)
"""
WITH_DELTA = Path(__file__).parents[2] / ".venvs" / "duckdb-delta" / "bin" / "python"
"""Has DuckDB and its extension for Delta Lake, which it would otherwise download (`make environment-duckdb-delta`)."""


@contextmanager
def duckdb(store: Path | str, python: str = sys.executable) -> Iterator[Ask]:
    views = views_sql(store, "duckdb")

    def ask(questions: list[str]) -> list[Rows]:
        asked = json.dumps({"views": views, "questions": questions})
        done = subprocess.run([python, "-c", _ALONE], input=asked, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return [[tuple(row) for row in rows] for rows in json.loads(done.stdout)]

    yield ask


def duckdb_on_lake(lake: Path | str) -> AbstractContextManager[Ask]:
    return duckdb(lake, str(WITH_DELTA))


@contextmanager
def polars(store: Path | str, of: Callable[[str, str], Any] = of_store) -> Iterator[Ask]:
    import polars as pl

    tables = frames(lambda name: of(str(store), name))
    context = pl.SQLContext({name: frame.collect().lazy() for name, frame in tables.items()}, eager=True)
    yield lambda questions: [context.execute(sql).rows() for sql in questions]


def polars_on_lake(lake: Path | str) -> AbstractContextManager[Ask]:
    return polars(lake, of_lake)


@contextmanager
def clickhouse(store: Path | str, path: str | None = None, *, keep: bool = False) -> Iterator[Ask]:
    """The engine of ClickHouse, in this process; `keep` reads each file once, which far ones are worth."""
    from chdb import session

    with session.Session() as engine:
        engine.query("CREATE DATABASE views")
        engine.query("USE views")
        for each in statements(views_sql(store, "clickhouse", path)):
            engine.query(_VIEW_OF_FILES.sub(r"CREATE TABLE \1 ENGINE = Memory AS", each) if keep else each)
        engine.query("CREATE DATABASE asked")
        for name in _ASKED:  # once: a view is computed anew for every question
            engine.query(f"CREATE TABLE asked.{name} ENGINE = Memory AS SELECT * FROM views.{name}")
        engine.query("USE asked")

        def ask(questions: list[str]) -> list[Rows]:
            answers = [str(engine.query(sql, "JSONCompactEachRow")) for sql in questions]
            return [[tuple(json.loads(line)) for line in answer.splitlines()] for answer in answers]

        yield ask


@contextmanager
def clickhouse_on_lake(lake: Path) -> Iterator[Ask]:
    before = Path.cwd()
    os.chdir(lake)  # Delta tables are read below the current folder only
    try:
        with clickhouse(lake) as ask:
            yield ask
    finally:
        os.chdir(before)


@contextmanager
def spark(store: Path) -> Iterator[Ask]:
    with spark_session() as session:
        yield spark_in(session, store)


def spark_in(session: Any, store: Path) -> Ask:
    """Spark in a session that is there already."""
    create_views(session, statements(views_sql(store, "spark")), keep=_ASKED)
    return lambda questions: [[tuple(row) for row in session.sql(sql).collect()] for sql in questions]


ENGINES: dict[str, Callable[[Path], AbstractContextManager[Ask]]] = {
    "DuckDB": duckdb, "Polars": polars, "ClickHouse": clickhouse, "Spark": spark
}  # fmt: skip
ON_LAKE: dict[str, Callable[[Path], AbstractContextManager[Ask]]] = {
    "DuckDB": duckdb_on_lake, "Polars": polars_on_lake, "ClickHouse": clickhouse_on_lake
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
