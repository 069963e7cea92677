"""The demo: what it prints, what it leaves in the store, and that the same seed makes the same run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.query import Store
from tests.recorded_demo import PRINTED, recorded_demo

STEPS = 30


def run_demo(store: Path, *options: str) -> str:
    command = [sys.executable, "-m", "rolltrace", "demo", "--no-view", "--store", str(store), *options]
    settings = {name: value for name, value in os.environ.items() if not name.startswith("ROLLTRACE_")}  # its own
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = recorded_demo(tmp_path_factory)
    return folder / "rolltrace-demo", (folder / PRINTED).read_text()


@pytest.fixture(scope="module")
def store(printed: tuple[Path, str]) -> Store:
    return rolltrace.open(printed[0])


def mean(store: Store, of: str, where: str) -> float:
    (row,) = store.sql(f"SELECT avg({of}) AS mean FROM trajectories WHERE {where}").rows()
    return float(row["mean"])


def test_the_reward_rises_and_validation_shows_that_it_is_not_all_skill(store: Store) -> None:
    assert mean(store, "reward", "NOT validate AND step <= 3") < 0.3
    assert mean(store, "reward", "validate AND step = 5") < 0.5
    assert mean(store, "reward", f"validate AND step = {STEPS}") > 0.8
    assert mean(store, "reward", f"NOT validate AND step = {STEPS}") > 1.6  # more than a right answer is worth


def test_the_planted_hack_appears_after_some_steps_and_can_be_found(store: Store) -> None:
    hacked = store.trajectories(where="text ~ 'verified verified verified'", validate=False)
    steps = [row["step"] for row in hacked]
    assert min(steps) > 5
    assert steps.count(STEPS) > 32
    terms = [score for score in store.trajectory(hacked[0]["trajectory_id"]).scores if score["name"] == "reward"]
    assert terms[-1]["terms"]["verified"] > 0


def test_a_worker_is_killed_and_nothing_is_lost(printed: tuple[Path, str], store: Store) -> None:
    said = re.search(r"(\d+) rollouts in .*: (\d+) whole, 1 cut off by the kill .*, 0 lost", printed[1])
    assert said, printed[1]
    assert int(said[1]) == int(said[2]) + 1 == len(store.trajectories())
    (cut_off,) = store.trajectories(where="status = 'interrupted'").rows()
    assert (cut_off["step"], cut_off["fate"], cut_off["fate_reason"]) == (
        (STEPS + 1) // 2,
        "filtered",
        "its worker was killed",
    )
    ops = [op.name for op in store.trajectory(cut_off["trajectory_id"]).walk()]
    assert "calculator" in ops[-1]
    assert list(store.losses()) == []


def test_the_pass_figure_is_the_share_of_rollouts_with_a_right_answer(printed: tuple[Path, str], store: Store) -> None:
    said = re.search(r"(\d+) of (\d+) training rollouts passed \(([\d.]+)\); pass: correct >= 1\.", printed[1])
    assert said, printed[1]
    rewards = store.sql(
        "SELECT trajectory_id, terms, time_ns FROM scores WHERE name = 'reward' AND NOT validate"
    ).rows()
    newest = {row["trajectory_id"]: row for row in sorted(rewards, key=lambda row: row["time_ns"])}
    right = [json.loads(row["terms"])["correct"] >= 1 for row in newest.values()]
    assert (int(said[1]), int(said[2])) == (sum(right), len(right))
    assert said[3] == f"{sum(right) / len(right):.2f}"
    assert float(said[3]) < 0.95  # nearly all rewards are above 0
    assert {row["pass_rule"] for row in store.groups()} == {"correct >= 1"}
    assert sum(row["passed"] for row in store.groups(validate=False)) == sum(right)


def test_everything_is_traced(store: Store) -> None:
    row = store.trajectories(step=STEPS, validate=False, where="fate = 'trained'")[0]
    trajectory = store.trajectory(row["trajectory_id"])
    assert {op.kind for op in trajectory.walk()} == {"other", "llm", "tool", "reward"}
    assert trajectory.advantage is not None
    assert row["policy_version_min"] == STEPS - 1
    (*_, last) = trajectory.tokens
    assert len(last.response_ids) == len(last.logprobs or [])
    assert "".join(last.response_pieces or []).startswith("<answer>")
    assert trajectory.transitions[-1]["trace"]["reward_data"]["correct"] == 1.0
    assert [message["role"] for message in trajectory.conversation][:3] == ["system", "user", "assistant"]


def drawn(store: Store, steps: int) -> dict[tuple[Any, ...], Any]:
    """The tokens of each whole training rollout of the first steps, by its coordinates."""
    rows = store.sql(
        "SELECT step, sample_index, rollout_n, response_ids, logprobs FROM spans "
        f"WHERE name = 'agent_loop' AND NOT validate AND step <= {steps} AND response_ids IS NOT NULL"
    )
    return {
        (row["step"], row["sample_index"], row["rollout_n"]): (row["response_ids"], row["logprobs"]) for row in rows
    }


def test_the_same_seed_makes_the_same_tokens_and_rewards(store: Store, tmp_path: Path) -> None:
    run_demo(tmp_path / "again", "--steps", "3")  # a worker is killed in the second, so the third is another
    again, first = drawn(rolltrace.open(tmp_path / "again"), 2), drawn(store, 2)
    assert [len(first), len(again)] == [2 * 64, 2 * 64 - 1]
    assert again.items() <= first.items()
    run_demo(tmp_path / "other", "--steps", "1", "--seed", "2")
    other = drawn(rolltrace.open(tmp_path / "other"), 1)
    assert len(other) == 64 - 1
    assert any(first[place] != tokens for place, tokens in other.items())


def test_the_commands_it_names_work(
    printed: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(printed[0].parent)
    named = re.findall(r"^  (.*rolltrace (plot|diff|view) .*)$", printed[1], re.MULTILINE)
    assert [name for _, name in named] == ["plot", "diff", "view"]
    (plot, _), (diff, _), _ = named
    done = subprocess.run(plot, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "verified" in done.stdout
    program, *words = shlex.split(diff)
    assert program == shlex.split(plot)[0]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert ("verified" in shown.out, shown.err) == (True, "")


def test_no_steps_are_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rolltrace", "demo", "--steps", "0"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "0 is not in the range x>=1" in done.stderr


def test_the_sql_of_the_first_page_counts_training_rollouts(store: Store) -> None:
    page = (Path(__file__).parents[2] / "docs" / "start.md").read_text(encoding="utf-8")
    (query,) = re.findall(r'^ +rolltrace sql "(.*)" rolltrace-demo$', page, re.MULTILINE)
    truncated = {row["step"]: row["count_star()"] for row in store.sql(query)}
    rollouts = {row["step"]: row["trajectories"] for row in store.steps() if not row["validate"]}
    assert truncated[STEPS] > 32
    assert all(count <= rollouts[step] for step, count in truncated.items())
