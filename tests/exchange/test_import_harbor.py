"""Harbor's trajectories, with the rewards that stand beside them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rolltrace.exchange.importer import ImportReport
from tests.nightly import nightly

from .conftest import Importer
from .mutations import SAMPLES, outcomes

JOBS = SAMPLES / "harbor" / "jobs"
TRIAL = JOBS / "2026-11-16__12-00-00" / "add-numbers__aB3xY"


def test_a_jobs_folder_is_imported_with_its_rewards(into: Importer) -> None:
    assert into("harbor", JOBS) == ImportReport(4, 0, 0)
    rows = [row for row in into.store.trajectories().rows() if row["name"] == "terminus-2"]
    wanted = [("add-numbers", 0, 1.0, 2, 2, "ok"), ("add-numbers", 1, 0.0, 2, 2, "error")]
    names = ("sample_index", "rollout_n", "reward", "turns", "tool_calls", "status")
    assert [tuple(row[name] for name in names) for row in rows] == wanted
    first, second = (into.store.trajectory(row["trajectory_id"]) for row in rows)
    assert [message["role"] for message in first.conversation] == [
        "system", "user", "assistant", "tool", "tool", "assistant",
    ]  # fmt: skip
    assert (second.scores[0]["terms"], second.error) == ({"tests_passed": 0.5}, "AgentTimeoutError: over 900 s")
    call, shell = first.ops[0], first.ops[1]
    assert (call.prompt_tokens, call.response_tokens, call.outputs["logprobs"]) == (3, 2, [-0.25, -0.5])
    assert (shell.name, shell.inputs, shell.outputs) == ("bash", {"keystrokes": "echo $((17+25))\n"}, "42")
    assert first.tags["model"] == "fake/model"
    assert into("harbor", JOBS) == ImportReport(0, 4, 0)


def test_a_subagent_is_a_trajectory_begun_in_its_parent_and_in_no_group(into: Importer) -> None:
    into("harbor", TRIAL)
    parent, child = into.store.trajectories(order="name").rows()[::-1]
    assert child["name"] == "checker"
    assert into.store.trajectory(child["trajectory_id"]).parent_trajectory_id == parent["trajectory_id"]
    assert child["sample_index"] is None


def test_a_reward_that_comes_later_is_added_by_importing_again(tmp_path: Path, into: Importer) -> None:
    trial = shutil.copytree(TRIAL, tmp_path / TRIAL.name)
    (trial / "verifier" / "reward.txt").unlink()
    (trial / "result.json").unlink()
    assert into("harbor", trial) == ImportReport(2, 0, 0)
    (trial / "verifier" / "reward.txt").write_text("0.5\n")
    assert into("harbor", trial) == ImportReport(0, 2, 0)
    assert [row["reward"] for row in into.store.trajectories(order="name").rows()] == [None, 0.5]


def test_two_trials_with_the_same_trajectory_are_two(tmp_path: Path, into: Importer) -> None:
    for name in ("add-numbers__one", "add-numbers__two"):
        shutil.copytree(TRIAL, tmp_path / "job" / name)
    assert into("harbor", tmp_path / "job") == ImportReport(4, 0, 0)
    assert len(into.store.trajectories().rows()) == 4


def test_steps_copied_from_before_are_no_model_calls(tmp_path: Path, into: Importer) -> None:
    record = json.loads((TRIAL / "agent" / "trajectory.json").read_text())
    record["steps"][2]["is_copied_context"] = True
    (tmp_path / "trajectory.json").write_text(json.dumps(record))
    into("harbor", tmp_path / "trajectory.json")
    row = next(row for row in into.store.trajectories().rows() if row["name"] == "terminus-2")
    assert (row["turns"], row["tool_calls"], row["reward"]) == (1, 0, None)
    assert len(into.store.trajectory(row["trajectory_id"]).conversation) == 6


def test_files_beside_it_that_are_damaged_cost_only_themselves(tmp_path: Path, into: Importer) -> None:
    trial = shutil.copytree(TRIAL, tmp_path / TRIAL.name)
    for name, text in (("result.json", '{"step_results": 5, "verifier_result": []'), ("verifier/reward.txt", "good")):
        (trial / name).write_text(text)
    (trial / "verifier" / "reward.json").write_text("[1]")
    assert into("harbor", trial) == ImportReport(2, 0, 0)


def test_whatever_is_wrong_in_a_trajectory_is_refused_by_name_or_read(tmp_path: Path) -> None:
    good, refused = outcomes("harbor", TRIAL / "agent" / "trajectory.json", tmp_path)
    assert good > nightly(500, 150)
    assert refused > 10
