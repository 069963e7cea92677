"""The views that are printed for other engines: plain DuckDB, without our engine, shows the same rows."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import rolltrace
from rolltrace.errors import QueryError
from rolltrace.pass_rule import read_rules
from rolltrace.query import Store, open_store
from rolltrace.query.dialects import DIALECTS, view_statements
from rolltrace.query.views import VIEWS, table_in_files
from rolltrace.record import TABLES
from rolltrace.store import list_parts, table_of
from tests.draining import drain

from .conftest import agent, start


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, late scores by id and by coordinates, labels, amended steps, a dropped trajectory, loose ops."""
    store = tmp_path_factory.mktemp("engines") / "it's a store"
    ids: dict[tuple[int, int], str] = {}
    for run in ("first", "second"):
        start(store, run=run)
        for step in (1, 2) if run == "first" else (2, 3):
            for n in range(3 if step == 2 else 1):
                with rolltrace.rollout_trace_attr(7, step=step, rollout_n=n, level="x") as trajectory:
                    agent("bad" if n == 1 else "page")
                    trajectory.transition({"prompt": "p"}, reward=1.0, metrics={"a": 1})
                    trajectory.amend_transition(reward=2.0, metrics={"b": 2})
                    if n:
                        trajectory.reward((0.5, math.nan)[n == 2], terms={"format": 1.0})
                ids[step, n] = trajectory.id
        agent("loose")
        rolltrace.score(ids[2, 0], "reward", 0.75)
        rolltrace.score((2, 7, 1), "advantage", -1.5)
        rolltrace.score("f" * 32, "reward", 1.0)
        rolltrace.shutdown()
        start(store, run="judge")  # it outlives a restart
        rolltrace.score((2, 7, 2), "advantage", 2.5 if run == "first" else 3.5)
        rolltrace.score((3, 7, 0), "reward", 4.5)  # the first time, before there is any
        rolltrace.shutdown()
    opened = open_store(store)
    opened.label(ids[2, 0], "good", author="ann")
    opened.close()
    drain(store)
    return store


def plain_duckdb(store: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    stored = {table_of(part) for part in list_parts(store)}
    connection.execute(view_statements("duckdb", str(store), stored, pass_rules=read_rules(store)))
    return connection


@pytest.fixture(scope="module")
def both(store: Path) -> Iterator[tuple[Store, duckdb.DuckDBPyConnection]]:
    with open_store(store) as ours, plain_duckdb(store) as alone:
        yield ours, alone


@pytest.mark.parametrize("view", VIEWS)
def test_duckdb_alone_shows_the_same_rows(view: str, both: tuple[Store, duckdb.DuckDBPyConnection]) -> None:
    opened, alone = both
    ours = opened.sql(f"select * from {view}")
    answer = alone.execute(f"select * from {view}")
    assert [name for name, *_ in answer.description or ()] == ours.columns
    theirs = answer.fetchall()
    assert sorted(map(repr, theirs)) == sorted(repr(tuple(row[name] for name in ours.columns)) for row in plain(ours))


def plain(rows: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in rows.arrow().to_pylist()]


def test_a_store_without_some_tables_has_empty_views(tmp_path: Path) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr(1, step=1):
        pass
    rolltrace.shutdown()
    drain(tmp_path)
    with plain_duckdb(tmp_path) as connection:
        counts = {view: connection.execute(f"select count(*) from {view}").fetchall()[0][0] for view in VIEWS}
    assert {view for view, count in counts.items() if count} == {"trajectories", "passes", "groups"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_has_every_view_or_says_why_not(dialect: str) -> None:
    text = view_statements(dialect, "s3://bucket/store", [table.name for table in TABLES])
    for view in (*VIEWS, *map(table_in_files, TABLES)):
        assert f"VIEW {view} " in text or f"-- {view}: not in this dialect, since " in text
    assert "s3" in text


def test_duckdb_alone_knows_what_was_chosen_for_pass_and_other_engines_say_that_they_do_not(
    store: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(store, tmp_path / "copy"))
    with open_store(copy) as ours:
        ours.set_pass(threshold=0.75)
        expected = sorted(map(repr, ours.sql("select * from passes").arrow().to_pylist()))
        with plain_duckdb(copy) as alone:
            answer = alone.execute("select * from passes")
            names = [name for name, *_ in answer.description or ()]
            assert sorted(repr(dict(zip(names, row))) for row in answer.fetchall()) == expected
    note = "passed means reward > 0 here"
    assert note in view_statements("spark", "s", (), pass_rules=read_rules(copy))
    assert note not in view_statements("spark", "s", ())


def test_an_unknown_dialect_is_named() -> None:
    with pytest.raises(QueryError, match=r"unknown dialect 'oracle'; there are duckdb, spark, clickhouse"):
        view_statements("oracle", "store", [])


def test_a_lake_is_read_through_its_delta_tables() -> None:
    every = [table.name for table in TABLES]
    assert "delta_scan('/lakes/a/spans')" in view_statements("duckdb", "/lakes/a", every, is_lake=True)
    assert "deltaLakeLocal('/lakes/a/spans', 'Parquet', " in view_statements(
        "clickhouse", "/lakes/a", every, is_lake=True
    )
    on_s3 = view_statements("clickhouse", "s3://bucket/lake/", every, is_lake=True)
    assert "deltaLake('s3://bucket/lake/spans', 'Parquet', " in on_s3
    assert "--*.parquet" not in on_s3
    assert "compaction" not in on_s3


def test_a_table_that_a_lake_does_not_have_yet_is_empty() -> None:
    text = view_statements("clickhouse", "/lakes/a", ["spans"], is_lake=True)
    assert "/lakes/a/notes" not in text
    assert "FROM null('trajectory_id Nullable(String), " in text


def test_where_an_engine_cannot_read_a_lake_the_message_says_what_can() -> None:
    with pytest.raises(QueryError, match=r"no views of a lake in Spark's dialect.*delta-spark.*duckdb, clickhouse"):
        view_statements("spark", "/lakes/a", [], is_lake=True)
    with pytest.raises(QueryError, match=r"no views of a lake at az:// in ClickHouse's dialect; .* --path https://"):
        view_statements("clickhouse", "az://container/a", [], is_lake=True)


def test_quotes_and_backslashes_of_a_path_are_those_of_the_dialect() -> None:
    path = r"/it's a \store"
    assert r"read_parquet('/it''s a \store/data" in view_statements("duckdb", path, ["spans"])
    assert r"path '/it\'s a \\store/data'" in view_statements("spark", path, ["spans"])
    assert r"file('/it\'s a \\store/data" in view_statements("clickhouse", path, ["spans"])
