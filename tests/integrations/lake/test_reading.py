"""A lake is read as a folder is: fetched when needed, kept within bounds, and clear about what is wrong with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

import rolltrace
from rolltrace.errors import ConfigError, FormatError, IncompleteWarning, StoreError
from tests.integrations.lake.answers import QUESTIONS, assert_same, rounded
from tests.integrations.lake.conftest import BUCKET, cli
from tests.integrations.lake.faults import Proxy


def test_every_command_that_reads_says_the_same(shipped: Path, lake: str) -> None:
    with rolltrace.open(shipped) as store:
        one, other = (row["trajectory_id"] for row in store.trajectories(step=1, experiment="first", limit=2))
    for words in (
        ("ls", "--json", "--limit", "100"), ("ls", "--experiments", "--json"), ("groups", "--step", "1", "--json"),
        ("show", one, "--json"), ("diff", one, other), ("sql", "select count(*) from spans"), ("plot", "--json"),
        ("export", "jsonl", "-o", "-"),
    ):  # fmt: skip
        assert rounded(cli(*words, "--store", lake)) == rounded(cli(*words, "--store", shipped)), words


def test_a_listing_loads_no_pandas(shipped: Path, lake: str) -> None:
    program = f"import sys, rolltrace; rolltrace.open({lake!r}).experiments(); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_only_the_parts_of_the_step_are_fetched(shipped: Path, lake: str, s3: Proxy) -> None:
    s3.requests.clear()
    with rolltrace.open(lake) as store:
        assert len(store.sql("SELECT * FROM transitions", step=1)) == 0
        assert len(store.trajectories(step=1))
    parts = [
        path for method, path in s3.requests if method == "GET" and ".parquet" in path and "_delta_log" not in path
    ]
    assert parts
    assert {path.split("step%3D")[-1].split("step=")[-1].split("/")[0] for path in parts} <= {"1", "none"}


def test_a_cache_that_is_too_small_changes_no_answer(
    shipped: Path, lake: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROLLTRACE_CACHE_BYTES", "20kB")
    assert_same(shipped, lake)
    with rolltrace.open(lake) as store:
        QUESTIONS["losses"](store)
    held = [file for file in (tmp_path / "cache").rglob("*.parquet") if file.stat().st_mtime_ns]
    largest = max(file.stat().st_size for file in (tmp_path / "cache").rglob("*.parquet"))
    assert sum(file.stat().st_size for file in held) <= max(20_000, 4 * largest)


def test_a_cache_that_is_removed_is_made_again(shipped: Path, lake: str, tmp_path: Path) -> None:
    assert_same(shipped, lake)
    os.system(f"rm -r {tmp_path / 'cache'}")
    assert_same(shipped, lake)


def keys(lake: str, word: str) -> list[str]:
    prefix = lake.removeprefix(f"s3://{BUCKET}/")
    listed = boto3.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/")["Contents"]
    return [each["Key"] for each in listed if word in each["Key"]]


def test_a_part_that_came_damaged_is_named_and_the_rest_answered(shipped: Path, lake: str) -> None:
    key = next(each for each in keys(lake, "scores/project") if "step=none" not in each)
    content = boto3.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()
    boto3.client("s3").put_object(Bucket=BUCKET, Key=key, Body=content[:100] + b"damage" + content[106:])
    with rolltrace.open(lake) as store, pytest.warns(IncompleteWarning, match=key.rpartition("/")[2].replace("~", ".")):
        assert len(store.trajectories(all_runs=True))
    with rolltrace.open(lake) as store:
        (problem,) = store.damaged(thorough=True)
        assert "checksum" in problem[1]


def test_a_part_that_is_gone_is_named_and_the_rest_answered(shipped: Path, lake: str) -> None:
    key = next(each for each in keys(lake, "flags/project"))
    boto3.client("s3").delete_object(Bucket=BUCKET, Key=key)
    with rolltrace.open(lake) as store, pytest.warns(IncompleteWarning, match="does not have it"):
        assert len(store.trajectories(all_runs=True))


def test_a_log_that_names_files_elsewhere_is_refused(shipped: Path, lake: str, tmp_path: Path) -> None:
    key = keys(lake, "flags/_delta_log")[-1]
    number = int(key.rpartition("/")[2].partition(".")[0]) + 1
    values = '{"project":"p","experiment":"e","step":"1"}'
    rest = '"size":1,"modificationTime":1,"dataChange":true'
    add = f'{{"add":{{"path":"../../../x.parquet","partitionValues":{values},{rest}}}}}'
    new = f"{key.rpartition('/')[0]}/{number:020d}.json"
    boto3.client("s3").put_object(Bucket=BUCKET, Key=new, Body=add.encode())
    with pytest.raises(FormatError, match=r"x\.parquet.*rolltrace did not put there"), rolltrace.open(lake) as store:
        store.experiments()


def test_a_log_that_is_damaged_is_named(shipped: Path, lake: str) -> None:
    key = keys(lake, "flags/_delta_log")[-1]
    boto3.client("s3").put_object(Bucket=BUCKET, Key=key, Body=b'{"add":{"path":')
    with (
        pytest.raises(rolltrace.RolltraceError, match="reading the log of flags failed"),
        rolltrace.open(lake) as store,
    ):
        store.experiments()


def test_what_is_no_lake_is_said_to_be_none(s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="there is no lake at 's3://traces/empty'; fill one with: rolltrace ship"):
        rolltrace.open(f"s3://{BUCKET}/empty")
    with pytest.raises(ConfigError, match="no such bucket"):
        rolltrace.open("s3://nowhere/x")
    with pytest.raises(ConfigError, match="a lake is at s3://"):
        rolltrace.open("ftp://nowhere/x")
    with pytest.raises(ConfigError, match="no user, password or query"):
        rolltrace.open("s3://me:secret@nowhere/x")


def test_a_lake_is_not_written_to(shipped: Path, lake: str) -> None:
    with rolltrace.open(lake) as store:
        (row,) = store.trajectories(limit=1)
        with pytest.raises(StoreError, match="it is a lake"):
            store.label(row["trajectory_id"], "good")
    for words in (("prune", "--where", "reward < 1"), ("compact",), ("drain",)):
        assert "it is a lake" in cli(*words, "--store", lake, check=False)
