"""Completions that TRL logged."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
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


def grouped(values: np.ndarray) -> np.ndarray:
    """The rollouts of each prompt in a row of their own."""
    return values.reshape(-1, GENERATIONS)


def centred(values: np.ndarray) -> np.ndarray:
    return (grouped(values) - grouped(values).mean(axis=1, keepdims=True)).reshape(-1)


def stds(values: np.ndarray) -> np.ndarray:
    return np.repeat(grouped(values).std(axis=1, ddof=1), GENERATIONS) + 1e-4


def normalised(values: np.ndarray) -> np.ndarray:
    return centred(values) / stds(values)


GENERATIONS = 4
AGGREGATIONS = {
    "group": lambda first, second: normalised(first + second),
    "none": lambda first, second: centred(first + second),
    "batch": lambda first, second: centred(first + second) / ((first + second).std(ddof=1) + 1e-4),
    "rloo": lambda first, second: centred(first + second) * GENERATIONS / (GENERATIONS - 1),
    "normalize_then_sum": lambda first, second: (
        (both := normalised(first) + normalised(second)) / (both.std(ddof=1) + 1e-4)
    ),
}


def completions(
    path: Path, aggregation: str = "group", seed: int = 0, weight: float = 1.0, **extra: Callable[[int, int], object]
) -> tuple[Path, list[float]]:
    """A file as TRL writes it, for three prompts, and the rewards that it trained on.

    Args:
        extra: What the reward functions log besides, from the prompt and the rollout of it.
    """
    draw = np.random.default_rng(seed)
    count = 3 * GENERATIONS
    correct = draw.integers(0, 2, count).astype(np.float32).astype(np.float64)
    short = (-draw.integers(1, 40, count) / 100).astype(np.float32).astype(np.float64)
    columns = {
        "step": [1] * count,
        "prompt": [f"prompt {at // GENERATIONS}" for at in range(count)],
        "completion": ["c"] * count,
        "correct": correct.tolist(),
        "short": short.tolist(),
        **{name: [value(at // GENERATIONS, at) for at in range(count)] for name, value in extra.items()},
        "advantage": AGGREGATIONS[aggregation](correct, weight * short).astype(np.float32).astype(float).tolist(),
    }
    return write_rows(path, **columns), (correct + weight * short).tolist()


def rewards_of(into: Importer) -> list[float]:
    rows = into.store.trajectories(order="sample_index,rollout_n").rows()
    return [row["reward"] for row in sorted(rows, key=lambda row: (int(row["sample_index"]), row["rollout_n"]))]


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_numbers_that_reward_functions_log_are_no_rewards(aggregation: str, tmp_path: Path, into: Importer) -> None:
    file, rewards = completions(
        tmp_path / "completions_00001.parquet",
        aggregation,
        golden=lambda prompt, row: 17 + prompt,
        chars=lambda prompt, row: float(row % 5),
        bleu=lambda prompt, row: row / 7,
    )
    assert into("trl", file) == ImportReport(12, 0, 0)
    assert rewards_of(into) == pytest.approx(rewards)
    first = into.store.trajectory(into.store.trajectories(order="sample_index,rollout_n").rows()[1]["trajectory_id"])
    assert first.newest_scores["reward"].terms.keys() == {"correct", "short"}
    assert first.tags.keys() == {"golden", "chars", "bleu"}


def test_a_column_that_changes_no_advantage_is_asked_for(tmp_path: Path, into: Importer) -> None:
    file, rewards = completions(
        tmp_path / "completions_00001.parquet", difficulty=lambda prompt, row: float(prompt + 1)
    )
    assert into("trl", file) == ImportReport(0, 0, 1)
    assert str(into.bad[0]) == (
        f"{file}: cannot tell whether difficulty is a reward: the advantages fit with and without; name the columns "
        "that are: --rewards correct,short"
    )
    assert into("trl", file, rewards={"correct": 1.0, "short": 1.0}) == ImportReport(12, 0, 0)
    assert rewards_of(into) == pytest.approx(rewards)


def test_the_other_steps_tell_what_one_step_leaves_open(tmp_path: Path, into: Importer) -> None:
    completions(tmp_path / "completions_00001.parquet", difficulty=lambda prompt, row: 2.0)
    completions(tmp_path / "completions_00002.parquet", seed=1, difficulty=lambda prompt, row: float(row % 3))
    assert into("trl", tmp_path) == ImportReport(24, 0, 0)
    assert {row["reward"] > 1 for row in into.store.trajectories().rows()} == {False}


def test_weighted_rewards_are_asked_for(tmp_path: Path, into: Importer) -> None:
    file, rewards = completions(tmp_path / "completions_00001.parquet", weight=0.25)
    assert into("trl", file) == ImportReport(0, 0, 1)
    assert "reward_weights" in into.bad[0].reason
    assert into.bad[0].reason.endswith("--rewards correct=1,short=1")
    assert into("trl", file, rewards={"correct": 1.0, "short": 0.25}) == ImportReport(12, 0, 0)
    assert rewards_of(into) == pytest.approx(rewards)


def test_without_advantages_several_columns_are_asked_for(tmp_path: Path, into: Importer) -> None:
    text = {"step": [1, 1], "prompt": ["p", "p"], "completion": ["c", "d"]}
    file = write_rows(tmp_path / "x.parquet", **text, a=[1.0, 0.0], b=[0.0, 1.0])
    assert into("trl", file) == ImportReport(0, 0, 1)
    assert into.bad[0].reason.endswith("--rewards a")
    assert into("trl", write_rows(tmp_path / "y.parquet", **text, a=[1.0, 0.0])) == ImportReport(2, 0, 0)


def test_a_reward_that_is_no_column_is_refused_with_those_there_are(tmp_path: Path, into: Importer) -> None:
    file, _ = completions(tmp_path / "completions_00001.parquet")
    assert into("trl", file, rewards={"correkt": 1.0}) == ImportReport(0, 0, 12)
    assert into.bad[0].reason == "no column correkt to take for a reward; numbers are in: correct, short"


def test_a_group_cut_off_by_an_evaluation_is_left_out_of_the_comparison(tmp_path: Path, into: Importer) -> None:
    whole, _ = completions(tmp_path / "whole.parquet", chars=lambda prompt, row: float(row % 5))
    cut = pq.read_table(whole).slice(2)
    pq.write_table(cut, tmp_path / "completions_00001.parquet")
    assert into("trl", tmp_path / "completions_00001.parquet") == ImportReport(10, 0, 0)
    assert {row["reward"] > 1 for row in into.store.trajectories().rows()} == {False}
