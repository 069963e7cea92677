"""What verifiers and prime-rl wrote, imported: the store against the episodes themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rolltrace.query import Trajectory, open_store

from .conftest import ROLLOUTS, STEP, Ran
from .told import check_rollout


def run_import(form: str, source: Path, store: Path) -> dict[str, Any]:
    names = ["--project", "p", "--experiment", form, "--json"]
    command = [sys.executable, "-m", "rolltrace", "import", form, str(source), "--store", str(store), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def read(store: Path) -> list[Trajectory]:
    opened = open_store(store)
    return [opened.trajectory(row["trajectory_id"]) for row in opened.trajectories(limit=None)]


def test_traces_of_verifiers_are_imported_whole_and_once(ran: Ran, written: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert run_import("verifiers", written / "eval", store)["imported"] == len(ran.episodes)
    found = sorted(read(store), key=lambda each: each.start_ns)
    for trajectory, episode in zip(found, ran.episodes):
        check_rollout(trajectory, episode.traces[0], decimals=4)
    assert [each.rollout_n for each in found] == [0, 1] * 3
    again = run_import("verifiers", written / "eval" / "traces.jsonl", store)
    assert (again["imported"], again["already_there"], again["malformed"]) == (0, len(ran.episodes), 0)


def test_rollouts_of_prime_rl_know_what_became_of_them(ran: Ran, written: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    report = run_import("prime-rl", written / "run", store)
    assert report["imported"] == len(ran.episodes) + 1
    assert report["malformed"] == 0
    found = sorted((each for each in read(store) if not each.validate), key=lambda each: each.start_ns)
    (evaluated,) = [each for each in read(store) if each.validate]
    assert (evaluated.step, evaluated.fate) == (STEP, None)
    for trajectory, episode in zip(found, ran.episodes):
        check_rollout(trajectory, episode.traces[0], decimals=4)
    by_fate = {each.fate for each in found[:ROLLOUTS]}, {each.fate for each in found[ROLLOUTS:]}
    assert by_fate == ({"trained"}, {None})
    assert [each.trained_step for each in found[:ROLLOUTS]] == [STEP + 1] * ROLLOUTS
    assert [each.advantage for each in found[:ROLLOUTS]] == [0.5, -0.5]
    assert [(each.step, each.rollout_n) for each in found] == [(STEP, 0), (STEP, 1)] * 3
    assert (found[0].policy_version_min, found[0].policy_version_max) == (STEP - 1, STEP)
    again = run_import("prime-rl", written / "run" / "rollouts", store)
    assert again["imported"] == 0


@pytest.mark.parametrize("form", ["verifiers", "prime-rl"])
def test_the_format_is_recognised(form: str, written: Path, tmp_path: Path) -> None:
    source = written / ("eval" if form == "verifiers" else "run")
    command = [sys.executable, "-m", "rolltrace", "import", "auto", str(source), "--store", str(tmp_path / "store")]
    done = subprocess.run(
        [*command, "--project", "p", "--experiment", "e"], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert form in done.stdout + done.stderr
