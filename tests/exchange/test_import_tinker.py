"""Rollout summaries of tinker-cookbook become trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolltrace.exchange.importer import ImportReport

from .conftest import HOSTILE, Importer, write

SUMMARY: dict[str, Any] = {
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
    assert [each["episode_done"] for each in trajectory.transitions] == [False, True]
    assert trajectory.scores[0]["terms"] == {"correct": 1.0, "final_reward": 1.0}
    assert trajectory.tags == {"split": "train", "tags": ["math"], "final_ob_len": 60, "difficulty": "hard"}


TRACE = {
    "prompt": [{"role": "user", "content": "2+2?"}], "policy_response": "4",
    "reward_data": {"format": "0.5", "id": "7"}, "env_state": {"turn": 1}, "extra": None,
}  # fmt: skip


def run_folder(folder: Path, *, iterations: int = 2) -> Path:
    """What `rl.train.main` of tinker-cookbook leaves behind, with two trajectories in each of two groups."""
    folder.mkdir()
    write(folder / "metrics.jsonl", [{"step": at, "env/all/reward/total": 0.5} for at in range(iterations)])
    write(folder / "checkpoints.jsonl", [{"name": "000000", "batch": 0}])
    write(folder / "timing_spans.jsonl", [{"name": "train", "start": 0.0}])
    (folder / "config.json").write_text("{}")
    for iteration in range(iterations):
        of = folder / f"iteration_{iteration:06d}"
        lines = [
            {**SUMMARY, "iteration": iteration, "group_idx": group, "traj_idx": at}
            for group in range(2)
            for at in range(2)
        ]
        write(of / "train_rollout_summaries.jsonl", lines)
        (of / "train_logtree.json").write_text("{}")
    write(folder / "iteration_000000" / "eval_gsm8k_rollout_summaries.jsonl", [{**SUMMARY, "split": "eval/gsm8k"}])
    return folder


def test_a_run_folder_is_imported_as_it_is(tmp_path: Path, into: Importer) -> None:
    folder = run_folder(tmp_path / "run", iterations=3)
    assert into("tinker", folder) == ImportReport(13, 0, 0)
    assert into.bad == []
    assert [row["size"] for row in into.store.groups(validate=False)] == [2] * 6
    assert into("tinker", folder) == ImportReport(0, 13, 0)
    assert into("tinker", folder / "iteration_000002") == ImportReport(0, 4, 0)


def test_a_step_says_whether_and_why_the_episode_ended(tmp_path: Path, into: Importer) -> None:
    first, second = SUMMARY["steps"]
    ended = [
        {**second, "metrics": {"stop/max_turns": 1.0, "stop/completed": 0.0}},
        {**second, "stop_reason": "timeout"},
    ]
    lines = [{**SUMMARY, "steps": [first, each]} for each in ended] + [{**SUMMARY, "stop_reason": "completed"}]
    into("tinker", write(tmp_path / "x.jsonl", lines))
    trajectories = [into.store.trajectory(row["trajectory_id"]) for row in into.store.trajectories(order="start_ns")]
    steps = [[(step["episode_done"], step["stop_reason"]) for step in each.transitions] for each in trajectories]
    assert steps == [[(False, None), (True, reason)] for reason in ("max_turns", "timeout", "completed")]


def test_the_trace_of_a_step_is_that_of_the_transition(tmp_path: Path, into: Importer) -> None:
    steps = [{**SUMMARY["steps"][0], "trace": TRACE}, SUMMARY["steps"][1]]
    into("tinker", write(tmp_path / "x.jsonl", [{**SUMMARY, "steps": steps}]))
    (row,) = into.store.trajectories().rows()
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert trajectory.transitions[0]["trace"] == {**TRACE, "reward_data": {"format": 0.5, "id": "7"}}
    assert "trace" not in trajectory.transitions[0]["fields"]
    assert trajectory.transitions[1]["trace"] is None
    assert trajectory.conversation[:2] == [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]


def test_numbers_that_came_as_text_are_numbers_again(tmp_path: Path, into: Importer) -> None:
    step = {**SUMMARY["steps"][0], "reward": "0.5", "ob_len": "20", "metrics": {"valid": "tensor(1.)", "turn": "3"}}
    line = {**SUMMARY, "total_reward": "1.5", "final_reward": "np.float32(1.0)", "steps": [step],
            "trajectory_metrics": {"correct": "1", "exact": "True", "difficulty": "hard"}}  # fmt: skip
    into("tinker", write(tmp_path / "x.jsonl", [line]))
    (row,) = into.store.trajectories().rows()
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert (row["reward"], row["prompt_tokens"], row["flags"]) == (1.5, 20, [])
    assert trajectory.scores[0]["terms"] == {"correct": 1.0, "exact": 1.0, "final_reward": 1.0}
    assert (trajectory.transitions[0]["reward"], trajectory.transitions[0]["fields"]["metrics"]) == (
        0.5, {"valid": 1.0, "turn": 3},
    )  # fmt: skip


def test_a_number_that_somebody_formatted_is_flagged_and_costs_no_trajectory(tmp_path: Path, into: Importer) -> None:
    step = {**SUMMARY["steps"][0], "reward": "1.0 / 2", "trace": {**TRACE, "reward_data": {"accuracy": "85%"}}}
    line = {**SUMMARY, "total_reward": "50%", "steps": [step]}
    assert into("tinker", write(tmp_path / "x.jsonl", [line])) == ImportReport(1, 0, 0)
    (row,) = into.store.trajectories().rows()
    assert (row["reward"], row["flags"]) == (None, ["number_as_text"])
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert [each["detail"] for each in trajectory.findings] == [
        {"reward": "1.0 / 2", "reward_data.accuracy": "85%"}, {"total_reward": "50%"},
    ]  # fmt: skip
    assert trajectory.tags["total_reward"] == "50%"


def test_a_number_with_more_digits_than_python_writes_is_flagged_as_when_it_is_traced(
    tmp_path: Path, into: Importer
) -> None:
    step = {**SUMMARY["steps"][0], "reward": "1.000", "metrics": {"valid": "0.50", "turn": "1e-05"}}
    line = {**SUMMARY, "total_reward": "1.500", "steps": [step]}
    assert into("tinker", write(tmp_path / "x.jsonl", [line])) == ImportReport(1, 0, 0)
    (row,) = into.store.trajectories().rows()
    assert (row["reward"], row["flags"]) == (None, ["number_as_text"])
    trajectory = into.store.trajectory(row["trajectory_id"])
    assert trajectory.transitions[0]["reward"] is None
    assert trajectory.transitions[0]["fields"]["metrics"] == {"valid": "0.50", "turn": 1e-05}
    assert [each["detail"] for each in trajectory.findings] == [
        {"reward": "1.000", "metrics.valid": "0.50"}, {"total_reward": "1.500"},
    ]  # fmt: skip


def test_tinker_evaluations_of_one_iteration_stay_apart(tmp_path: Path, into: Importer) -> None:
    lines = [{**SUMMARY, "split": split} for split in ("train", "eval/gsm8k", "eval/math")]
    into("tinker", write(tmp_path / "x.jsonl", lines))
    rows = into.store.trajectories().rows()
    assert [(row["sample_index"], row["validate"]) for row in rows] == [
        (5, False), ("gsm8k/5", True), ("math/5", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"schema_version": 2}, {"steps": None}, {"steps": [3]}, {"iteration": "x"}, {"total_reward": "much"},
     {"trajectory_metrics": [1]}, {"steps": [{"ob_len": 1 << 40}]}, {"traj_idx": 0.5}],
)  # fmt: skip
def test_a_damaged_summary_is_refused(change: dict[str, Any], tmp_path: Path, into: Importer) -> None:
    assert into("tinker", write(tmp_path / "x.jsonl", [{**SUMMARY, **change}, SUMMARY])) == ImportReport(1, 0, 1)
