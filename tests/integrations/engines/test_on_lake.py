"""The lake's Delta tables, and a store on S3, in real engines: the same rows and the same answers as ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.engines import answers as engines

from .comparing import assert_same_answers, assert_same_rows
from .conftest import S3, ship


@pytest.mark.parametrize("engine", engines.ON_LAKE)
def test_twenty_answers_from_a_lake_are_equal_to_ours(engine: str, demo_lake: Path, ours: list[engines.Rows]) -> None:
    with engines.ON_LAKE[engine](demo_lake) as ask:
        assert_same_answers(ask, engine, ours)


def test_a_lake_has_the_rows_of_its_store_also_after_steps_were_merged(odd_store: Path, tmp_path: Path) -> None:
    store, lake = tmp_path / "store", tmp_path / "lake"
    shutil.copytree(odd_store, store)
    ship(store, str(lake))
    subprocess.run([sys.executable, "-m", "rolltrace", "compact", str(store)], check=True, capture_output=True)
    ship(store, str(lake))  # the parts that were merged are still there, and in no table
    with engines.clickhouse_on_lake(lake) as ask:
        assert_same_rows(ask, odd_store, "views.")
    with engines.duckdb_on_lake(lake) as ask:
        assert_same_rows(ask, odd_store)


@pytest.fixture(scope="module")
def s3_lake(s3: S3, demo_store: Path) -> str:
    ship(demo_store, f"s3://{s3.bucket}/lake")
    return f"s3://{s3.bucket}/lake"


def test_clickhouse_gives_the_same_answers_from_a_lake_on_s3(s3: S3, s3_lake: str, ours: list[engines.Rows]) -> None:
    with engines.clickhouse(s3_lake, f"{s3.address}/lake", keep=True) as ask:
        assert_same_answers(ask, "ClickHouse", ours)


def test_polars_gives_the_same_answers_from_a_lake_on_s3(s3_lake: str, ours: list[engines.Rows]) -> None:
    with engines.polars_on_lake(s3_lake) as ask:
        assert_same_answers(ask, "Polars", ours)


def test_clickhouse_gives_the_same_answers_from_a_store_on_s3(
    s3: S3, demo_store: Path, ours: list[engines.Rows]
) -> None:
    for part in (demo_store / "data").rglob("*.parquet"):
        s3.client.upload_file(str(part), s3.bucket, f"store/{part.relative_to(demo_store)}")
    with engines.clickhouse(demo_store, f"{s3.address}/store", keep=True) as ask:
        assert_same_answers(ask, "ClickHouse", ours)


def test_spark_is_refused_a_lake_and_told_of_a_way(demo_lake: Path) -> None:
    command = [sys.executable, "-m", "rolltrace", "sql", "--print-views", "--dialect", "spark", str(demo_lake)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "there are no views of a lake in Spark's dialect; with the package delta-spark" in done.stderr
