"""`sql()` reads the views of the store, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolltrace
from rolltrace.query import QueryError, Store, open_store
from rolltrace.query.columns import TRAJECTORY_COLUMNS
from rolltrace.query.views import GROUP_COLUMNS, VIEWS
from rolltrace.tables import TABLE_SCHEMAS, Place, TableStore, address_in, arrow_schema, write_file
from tests.draining import drain

from .conftest import search, start, write_run_in

_OF_SPANS = (
    "tokens", "logprobs", "response_mask", "tokenizer", "text", "prompt_chars", "piece_chars", "prompt_ids",
    "response_ids", "prompt_text", "response_text", "inputs", "outputs",
)  # fmt: skip
_AS_STORED = ("messages", "ops", "scores", "notes", "losses", "flags", "runs", "blobs")


@pytest.fixture(scope="module")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nothing here changes a store: that is what many of these tests are about."""
    folder = tmp_path_factory.mktemp("sql")
    (folder / "other.csv").write_text("secret\n1\n")
    write_run_in(folder / "store", "drained")
    return folder / "store"


@pytest.fixture(scope="module")
def opened(store_path: Path) -> Store:
    return open_store(store_path)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n FROM trajectories",
        "WITH few AS (FROM trajectories LIMIT 3) SELECT count(*) AS n FROM few",
        "FROM spans SELECT count(*) AS n",
        "DESCRIBE spans",
        "SUMMARIZE scores",
        "  -- a remark\n select 1 AS n;",
    ],
)
def test_reading_statements_are_answered(opened: Store, text: str) -> None:
    assert len(opened.sql(text)) >= 1


def test_parameters_are_values(opened: Store) -> None:
    assert opened.sql("SELECT ? AS a, ? AS b", ["'; --", 2]).rows() == [{"a": "'; --", "b": 2}]
    assert opened.sql("SELECT $x AS a", {"x": 1}).rows() == [{"a": 1}]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/proc/self/environ')",
        "FROM glob('/etc/*')",
        "FROM read_csv('{store}/ops/../../other.csv')",
        "FROM read_blob('{store}/journal/*/*')",
        "FROM read_parquet('https://example.org/x.parquet')",
        "COPY trajectories TO '{store}/ops/x.csv'",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "ATTACH '{store}/ops/x.db'",
        "EXPORT DATABASE '{store}/ops'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA version",
        "SET enable_external_access = true",
        "SET threads = 1",
        "CREATE TABLE t (a int)",
        "CREATE OR REPLACE TEMP VIEW spans AS SELECT 1",
        "DROP VIEW spans",
        "INSERT INTO spans VALUES (1)",
        "CALL pragma_version()",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP VIEW spans",
        "FROM query('DROP VIEW spans')",
        "",
        "selec 1",
        "SELECT nothing FROM spans",
        "SELECT * FROM store_path",
        "SELECT 1/",
    ],
)
def test_everything_else_is_refused(store_path: Path, opened: Store, text: str) -> None:
    before = sorted(path for path in store_path.rglob("*"))
    with pytest.raises(QueryError):
        opened.sql(text.replace("{store}", str(store_path)))
    assert sorted(path for path in store_path.rglob("*")) == before
    assert len(opened.trajectories()) == 17


def test_a_python_variable_is_no_table(store_path: Path) -> None:
    outside = pa.table({"a": [1]})
    with pytest.raises(QueryError, match="outside"):
        open_store(store_path).sql("FROM outside")
    assert outside.num_rows == 1


def test_a_fault_in_the_data_of_a_query_is_the_askers(store_path: Path) -> None:
    store = open_store(store_path)
    with pytest.raises(QueryError, match="Conversion"):
        store.sql("SELECT name::INT FROM spans")
    assert store.damaged() == []


@pytest.mark.parametrize("empty", [True, False])
def test_the_views_have_their_documented_columns(tmp_path: Path, store_path: Path, empty: bool) -> None:
    store = open_store(tmp_path if empty else store_path)
    assert store.sql("FROM trajectories").columns == [*TRAJECTORY_COLUMNS, "sample_number", "terms", "task", "answer"]
    columns = {schema.name: [column.name for column in schema.columns] for schema in TABLE_SCHEMAS}
    for table in _AS_STORED:
        assert store.sql(f"FROM {table}").columns == columns[table]
    assert store.sql("FROM spans").columns == [*columns["ops"], *_OF_SPANS]
    # An amendment is part of the step that it amends, and no row of the view.
    shown = [name for name in columns["transitions"] if name not in ("amends", "turn")]
    assert store.sql("FROM transitions").columns == shown
    assert store.sql("FROM groups").columns == [*GROUP_COLUMNS, "sample_number"]
    assert store.sql("FROM latest_scores").columns[:3] == ["trajectory_id", "name", "value"]
    for view in VIEWS:
        store.sql(f"SELECT count(*) FROM {view}")


def test_a_listing_reads_one_table_when_all_is_settled(tmp_path: Path) -> None:
    write_run_in(tmp_path / "store", "settled")
    store = open_store(tmp_path / "store")
    assert len(store.trajectories(where="term.format > 0 and turns > 1 and passed = true")) > 0
    assert set(store._engine._tables) <= {"trajectories", "losses"}


def test_a_file_without_the_newest_columns_reads_as_null(tmp_path: Path) -> None:
    for _ in range(2):
        start(tmp_path)
        search("x")
        rolltrace.shutdown()
        drain(tmp_path)
    tables = TableStore(address_in(tmp_path))
    _, old = tables.files("ops")
    path = tmp_path / "ops" / old.path
    rows = pq.read_table(path, partitioning=None).drop_columns(["finish_reason", "thread"])
    table = tables.table("ops")
    table.commit([write_file(tables.address, "ops", Place("p", "e", None), rows)], [old])
    assert len(rows.schema) == len(arrow_schema("ops")) - 2
    store = open_store(tmp_path)
    assert len(store.trajectories()) == 2
    assert [row["thread"] for row in store.sql("SELECT thread FROM spans")] == [None, None]
    assert [row["name"] for row in store.sql("SELECT name FROM ops")] == ["search", "search"]


@pytest.mark.parametrize(("wanted", "threads"), [("1", 1), ("3,2", 3), ("none", os.cpu_count()), ("0", os.cpu_count())])
def test_a_question_has_as_many_threads_as_omp_num_threads_says(
    wanted: str, threads: int, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", wanted)
    with open_store(store_path) as store:
        assert store.sql("SELECT current_setting('threads') AS threads").rows() == [{"threads": threads}]


def test_spans_have_their_duration_and_the_number_of_their_sample(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")

    @rolltrace.rollout_trace_op
    def op() -> None:
        pass

    for sample in (3, "4", "3.7", "-2", "1e3", "uuid-1", "9" * 30):
        with rolltrace.rollout_trace_attr(sample, step=1):
            op()
    rolltrace.shutdown()
    store = rolltrace.open(tmp_path)
    rows = store.sql("SELECT duration_s, (end_ns - start_ns) / 1e9 AS took FROM spans").rows()
    assert all(row["duration_s"] == row["took"] > 0 for row in rows)
    for view in ("spans", "trajectories", "groups"):
        rows = store.sql(f"SELECT sample_index, sample_number FROM {view}").rows()
        numbers = {str(row["sample_index"]): row["sample_number"] for row in rows}
        assert {name: number for name, number in numbers.items() if number is not None} == {"3": 3, "4": 4, "-2": -2}
