"""Completions that TRL logged."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rolltrace.exchange.importer import ImportReport

from .conftest import Importer
from .mutations import SAMPLES, outcomes

FOLDER = SAMPLES / "trl"
FILE = FOLDER / "completions" / "completions_00003.parquet"


def test_completions_keep_rewards_groups_and_tool_calls(into: Importer) -> None:
    assert into("trl", FOLDER) == ImportReport(6, 0, 0)
    rows = into.store.trajectories(order="step,sample_index,rollout_n").rows()
    assert [(row["step"], row["sample_index"], row["rollout_n"], row["reward"]) for row in rows] == [
        (3, 0, 0, 1.5), (3, 0, 1, 0.5), (3, 2, 0, 1.0), (3, 2, 1, 0.0), (4, 0, 0, 2.0), (4, 0, 1, 2.0),
    ]  # fmt: skip
    first = into.store.trajectory(rows[0]["trajectory_id"])
    assert [(op.name, op.kind) for op in first.ops] == [("assistant", "llm"), ("add", "tool"), ("assistant", "llm")]
    assert (first.ops[1].inputs, first.ops[1].outputs) == ({"a": 17, "b": 25}, "42")
    assert [message["role"] for message in first.conversation] == ["system", "user", "assistant", "tool", "assistant"]
    assert {each["name"]: each["value"] for each in first.scores} == {"reward": 1.5, "advantage": 0.7}
    assert (first.scores[0]["terms"], first.tags) == ({"correct_reward": 1.0, "format_reward": 0.5}, {"answer": "42"})
    assert into("trl", FILE) == ImportReport(0, 4, 0)


def write_rows(path: Path, **columns: list[object]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_a_reward_function_that_does_not_apply_is_not_counted(tmp_path: Path, into: Importer) -> None:
    text = {"step": [1], "prompt": ["p"], "completion": ["c"], "advantage": [0.0]}
    into("trl", write_rows(tmp_path / "x.parquet", **text, a_reward=[1.0], b_reward=[math.nan]))
    (row,) = into.store.trajectories().rows()
    assert row["reward"] == 1.0


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"step": [1], "prompt": ["p"]}, "no column completion"),
        ({"step": ["x"], "prompt": ["p"], "completion": ["c"]}, "step must be a whole number"),
        ({"step": [1], "prompt": [5], "completion": ["c"]}, "prompt must be a list of objects"),
    ],
)
def test_other_tables_are_refused(
    columns: dict[str, list[object]], reason: str, tmp_path: Path, into: Importer
) -> None:
    assert into("trl", write_rows(tmp_path / "x.parquet", **columns)) == ImportReport(0, 0, 1)
    assert reason in into.bad[0].reason


def test_a_parquet_file_that_is_cut_off_is_refused(tmp_path: Path, into: Importer) -> None:
    (tmp_path / "x.parquet").write_bytes(FILE.read_bytes()[:-100])
    assert into("trl", tmp_path / "x.parquet") == ImportReport(0, 0, 1)
    assert "not a Parquet file" in into.bad[0].reason


def test_whatever_is_wrong_in_a_row_is_refused_by_name_or_read(tmp_path: Path) -> None:
    good, refused = outcomes("trl", FILE, tmp_path)
    assert good > 100
    assert refused > 10
