"""Dumps of verl's rollouts become groups of trajectories."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from rolltrace.errors import ConfigError
from rolltrace.exchange.importer import ImportReport

from .conftest import Importer, write


def verl_lines(step: int) -> list[dict[str, Any]]:
    return [
        {
            "input": f"user\nquestion {at // 2}", "output": f"answer {at}", "gts": "42", "score": at / 4, "step": step,
            "acc": at % 2 == 0, "format_reward": 0.5, "pred": "41",
        }
        for at in range(4)
    ]  # fmt: skip


def test_verl_dumps_become_groups_of_rollouts(tmp_path: Path, into: Importer) -> None:
    for step in (1, 2, 10):
        write(tmp_path / "dumps" / f"{step}.jsonl", verl_lines(step))
    assert into("verl", tmp_path / "dumps") == ImportReport(12, 0, 0)
    rows = into.store.trajectories(step=10).rows()
    assert [(row["sample_index"], row["rollout_n"], row["reward"]) for row in rows] == [
        (0, 0, 0.0), (0, 1, 0.25), (2, 0, 0.5), (2, 1, 0.75),
    ]  # fmt: skip
    trajectory = into.store.trajectory(rows[3]["trajectory_id"])
    assert trajectory.conversation == [
        {"role": "user", "content": "user\nquestion 1"}, {"role": "assistant", "content": "answer 3"},
    ]  # fmt: skip
    assert trajectory.tags == {"gts": "42", "pred": "41"}
    assert trajectory.scores[0]["terms"] == {"acc": 0.0, "format_reward": 0.5}
    assert into.store.trajectories(where="group.spread > 0.2 and tag.gts = '42'").rows()


def test_verl_lines_without_a_step_take_that_of_the_file(tmp_path: Path, into: Importer) -> None:
    line = {"input": "q", "output": "a", "score": math.nan}
    for step in (3, 4):
        write(tmp_path / f"{step}.jsonl", [line, line])
    assert into("verl", tmp_path / "3.jsonl", tmp_path / "4.jsonl").imported == 4
    assert [row["step"] for row in into.store.trajectories().rows()] == [3, 3, 4, 4]
    assert math.isnan(into.store.trajectories().rows()[0]["reward"])


def test_validation_dumps_are_told_apart(tmp_path: Path, into: Importer) -> None:
    file = write(tmp_path / "1.jsonl", verl_lines(1))
    into("verl", file)
    into("verl", file, validate=True)
    assert [row["validate"] for row in into.store.trajectories().rows()] == [False] * 4 + [True] * 4


def test_verl_needs_project_and_experiment(tmp_path: Path, into: Importer) -> None:
    with pytest.raises(ConfigError, match="--project"):
        into("verl", write(tmp_path / "1.jsonl", verl_lines(1)), project=None)
