"""How each engine is asked, over the plain tables of a store.

Rolltrace itself answers through its views. The others never see it: DuckDB is in a process that does not import it.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.engines.questions import QUESTIONS, SPELLINGS
from benchmarks.engines.spark import spark_session

Rows = list[tuple[Any, ...]]
Ask = Callable[[list[str]], list[Rows]]
TABLES = ("trajectories", "ops", "tokens", "messages")
"""Those that the questions ask about."""
WITH_DELTA = Path(__file__).parents[2] / ".venvs" / "duckdb-delta" / "bin" / "python"
"""Has DuckDB and its extension for Delta Lake, which it would otherwise download (`make environment-duckdb-delta`)."""


def answer_ours(store: Path) -> list[Rows]:
    """What rolltrace says."""
    import rolltrace

    with rolltrace.open(store) as opened:
        return [[tuple(row.values()) for row in opened.sql(question.ours).rows()] for question in QUESTIONS]


_ALONE = """
import json, sys
from pathlib import Path
import duckdb, duckdb_extension_delta
asked = json.load(sys.stdin)
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")  # it would be printed where the answers are
(extension,) = Path(duckdb_extension_delta.__file__).parent.rglob("*.duckdb_extension")
connection.load_extension(str(extension))
for table in asked["tables"]:
    path = f"{asked['store']}/{table}".replace("'", "''")
    connection.execute(f"CREATE VIEW {table} AS SELECT * FROM delta_scan('{path}')")
json.dump([connection.execute(sql).fetchall() for sql in asked["questions"]], sys.stdout)
"""


@contextmanager
def duckdb(store: Path) -> Iterator[Ask]:
    def ask(questions: list[str]) -> list[Rows]:
        asked = json.dumps({"store": str(store), "tables": TABLES, "questions": questions})
        done = subprocess.run([WITH_DELTA, "-c", _ALONE], input=asked, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return [[tuple(row) for row in rows] for rows in json.loads(done.stdout)]

    yield ask


@contextmanager
def polars(store: Path) -> Iterator[Ask]:
    import polars as pl

    from benchmarks.engines.frames import frames

    context = pl.SQLContext(frames(store), eager=True)
    yield lambda questions: [context.execute(sql).rows() for sql in questions]


@contextmanager
def clickhouse(store: Path) -> Iterator[Ask]:
    """The engine of ClickHouse, in this process. It reads Delta tables below the current folder only."""
    from chdb import session

    before = Path.cwd()
    os.chdir(store)
    try:
        with session.Session() as engine:
            engine.query("CREATE DATABASE plain")
            engine.query("USE plain")
            for table in TABLES:
                engine.query(f"CREATE VIEW {table} AS SELECT * FROM deltaLakeLocal('{_quote(store / table)}')")

            def ask(questions: list[str]) -> list[Rows]:
                answers = [str(engine.query(sql, "JSONCompactEachRow")) for sql in questions]
                return [[tuple(json.loads(line)) for line in answer.splitlines()] for answer in answers]

            yield ask
    finally:
        os.chdir(before)


@contextmanager
def spark(store: Path) -> Iterator[Ask]:
    with spark_session() as session:
        yield spark_in(session, store)


def spark_in(session: Any, store: Path) -> Ask:
    """Spark in a session that is there already. Its own package for Delta Lake comes from Maven; without it, the log
    says which Parquet files count."""
    from deltalake import DeltaTable

    for table in TABLES:
        files = DeltaTable(str(store / table)).file_uris()
        session.read.parquet(*files).createOrReplaceTempView(table)
    return lambda questions: [[tuple(row) for row in session.sql(sql).collect()] for sql in questions]


ENGINES: dict[str, Callable[[Path], AbstractContextManager[Ask]]] = {
    "DuckDB": duckdb, "Polars": polars, "ClickHouse": clickhouse, "Spark": spark
}  # fmt: skip


def answers(ask: Ask, engine: str) -> list[Rows]:
    """The answers of an engine to the twenty questions."""
    spelling = SPELLINGS[engine.lower()]
    return ask([question.plain(spelling) for question in QUESTIONS])


def _quote(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace("'", "\\'")


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
