"""Rollout summaries of tinker-cookbook become trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolltrace.exchange.importer import ImportReport

from .conftest import HOSTILE, Importer, write

SUMMARY = {
    "schema_version": 1, "split": "train", "iteration": 3, "group_idx": 5, "traj_idx": 1, "tags": ["math"],
    "sampling_client_step": 2, "total_reward": 1.5, "final_reward": 1.0,
    "trajectory_metrics": {"correct": 1, "difficulty": "hard"}, "final_ob_len": 60,
    "steps": [
        {"step_idx": 0, "ob_len": 20, "ac_len": 8, "reward": 0.5, "episode_done": False, "metrics": {"valid": 1.0},
         "logs": {"action": HOSTILE}},
        {"step_idx": 1, "ob_len": 40, "ac_len": 12, "reward": 0.0, "episode_done": True, "metrics": {}, "logs": {}},
    ],
}  # fmt: skip


def test_tinker_summaries_keep_coordinates_rewards_and_steps(tmp_path: Path, into: Importer) -> None:
    file = write(tmp_path / "train_rollout_summaries.jsonl", [SUMMARY])
    assert into("tinker", file) == ImportReport(1, 0, 0)
    (row,) = into.store.trajectories().rows()
    wanted = {
        "step": 3, "sample_index": 5, "rollout_n": 1, "validate": False, "reward": 1.5, "turns": 2,
        "prompt_tokens": 40, "response_tokens": 20, "policy_version_min": 2,
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert [each["reward"] for each in trajectory.transitions] == [0.5, 0.0]
    assert trajectory.transitions[0]["fields"]["logs"] == {"action": HOSTILE}
    assert trajectory.transitions[1]["fields"]["episode_done"] is True
    assert trajectory.scores[0]["terms"] == {"correct": 1.0, "final_reward": 1.0}
    assert trajectory.tags == {"split": "train", "tags": ["math"], "final_ob_len": 60, "difficulty": "hard"}


def test_tinker_evaluations_of_one_iteration_stay_apart(tmp_path: Path, into: Importer) -> None:
    lines = [{**SUMMARY, "split": split} for split in ("train", "eval/gsm8k", "eval/math")]
    into("tinker", write(tmp_path / "x.jsonl", lines))
    rows = into.store.trajectories().rows()
    assert [(row["sample_index"], row["validate"]) for row in rows] == [
        (5, False), ("eval/gsm8k/5", True), ("eval/math/5", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"schema_version": 2}, {"steps": None}, {"steps": [3]}, {"iteration": "x"}, {"total_reward": "much"},
     {"trajectory_metrics": [1]}, {"steps": [{"ob_len": 1 << 40}]}, {"traj_idx": 0.5}],
)  # fmt: skip
def test_a_damaged_summary_is_refused(change: dict[str, Any], tmp_path: Path, into: Importer) -> None:
    assert into("tinker", write(tmp_path / "x.jsonl", [{**SUMMARY, **change}, SUMMARY])) == ImportReport(1, 0, 1)
