"""Parts: readable by anyone, there all at once, names that no file system takes amiss."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from rolltrace.errors import FormatError
from rolltrace.record.tables import SPANS, TABLES
from rolltrace.store import SCHEMAS, Partition, check_version, list_parts, prepare, write_part
from rolltrace.store.layout import escape, unescape

HOSTILE = [
    "../../etc",
    "a/b",
    "a=b",
    "..",
    ".",
    "",
    "名字",
    "a b",
    "x" * 500,
    "名" * 300,
    "con\0trol",
    "a%2Fb",
    "\ud800",
    "CON",
    "~",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_stays_inside_the_store(tmp_path: Path, name: str) -> None:
    prepare(tmp_path)
    part = write_part(tmp_path, Partition(name, name, -1), SPANS, "w-0", [{"op_id": 1}])
    assert part.resolve().is_relative_to(tmp_path.resolve() / "data")
    assert list_parts(tmp_path) == [part]


@pytest.mark.parametrize("name", [name for name in HOSTILE if len(name) < 100 and name != "\ud800"])
def test_a_name_can_be_read_back_from_its_folder(name: str) -> None:
    assert unescape(escape(name)) == name


def test_different_names_get_different_folders() -> None:
    names = [*HOSTILE, "x" * 501, "a_b", "A/B"]
    assert len({escape(name) for name in names}) == len(names)


def test_every_table_has_an_arrow_schema_with_all_its_columns() -> None:
    assert {name: schema.names for name, schema in SCHEMAS.items()} == {
        table.name: [column.name for column in table.columns] for table in TABLES
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    prepare(tmp_path)
    for step in (1, 2):
        rows = [
            {"project": "p", "experiment": "e", "step": step, "op_id": n, "tokens": [1, 2, n], "payload": '{"a":1}'}
            for n in range(3)
        ]
        write_part(tmp_path, Partition("p", "e", step), SPANS, "w-0", rows)
    return tmp_path


def test_other_tools_read_the_store_without_us(store: Path) -> None:
    pattern = f"{store}/data/*/*/*/spans--*.parquet"
    with duckdb.connect() as database:
        found = database.execute(f"select count(*), sum(len(tokens)) from '{pattern}'").fetchone()
    assert found == (6, 18)
    frame = pl.scan_parquet(pattern).filter(pl.col("step") == 2).collect()
    assert frame["tokens"].to_list() == [[1, 2, 0], [1, 2, 1], [1, 2, 2]]
    files = [str(part) for part in list_parts(store, "spans")]
    assert len(pd.concat(pd.read_parquet(file) for file in files)) == 6
    assert ds.dataset(files).to_table(filter=ds.field("step") == 1).num_rows == 3


def test_the_same_source_again_replaces_its_part(store: Path) -> None:
    write_part(store, Partition("p", "e", 1), SPANS, "w-0", [{"op_id": 7}])
    tables = [pq.read_table(part, partitioning=None) for part in list_parts(store, "spans")]
    assert sorted(len(table) for table in tables) == [1, 3]


def test_a_part_being_written_is_not_listed(store: Path) -> None:
    before = list_parts(store)
    (before[0].parent / f".{before[0].name}.123.new").write_bytes(b"half")
    assert list_parts(store) == before


def test_a_store_of_a_newer_format_is_a_clear_error(store: Path) -> None:
    (store / "format.json").write_text('{"format": 99}')
    with pytest.raises(FormatError, match=r"newer rolltrace \(format 99.*pip install -U rolltrace"):
        check_version(store)


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense", '{"format": "x"}'])
def test_a_damaged_format_page_is_a_clear_error(store: Path, text: str) -> None:
    (store / "format.json").write_text(text)
    with pytest.raises(FormatError, match=r"format"):
        check_version(store)
