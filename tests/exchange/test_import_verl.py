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


def v1_lines(step: int) -> list[dict[str, Any]]:
    """As verl's v1 trainer dumps: sorted by `uid`, which is sample, session and row; the last session has two rows."""
    rows = [("0b9f_a", session, 0) for session in range(4)] + [("7c1d", 0, 0), ("7c1d", 1, 0), ("7c1d", 1, 1)]
    return [
        {
            "input": f"user\nquestion {sample} {row}", "output": f"answer {session} {row}", "gts": "42",
            "score": session / 4 + row, "step": step, "uid": f"{sample}_{session}_{row}",
        }
        for sample, session, row in rows
    ]  # fmt: skip


def test_dumps_of_the_v1_trainer_become_groups_and_not_rollouts_that_stand_alone(
    tmp_path: Path, into: Importer
) -> None:
    for step in (1, 2):
        write(tmp_path / "dumps" / f"{step}.jsonl", v1_lines(step))
    assert into("verl", tmp_path / "dumps") == ImportReport(12, 0, 0)
    assert [row["size"] for row in into.store.groups()] == [4, 2, 4, 2]
    rows = into.store.trajectories(step=2).rows()
    assert [(row["sample_index"], row["rollout_n"], row["turns"], row["reward"]) for row in rows] == [
        (0, 0, 1, 0.0), (0, 1, 1, 0.25), (0, 2, 1, 0.5), (0, 3, 1, 0.75), (4, 0, 1, 0.0), (4, 1, 2, 1.25),
    ]  # fmt: skip
    assert into("verl", tmp_path / "dumps") == ImportReport(0, 12, 0)


def test_numbers_that_verl_wrote_as_text_are_numbers_again(tmp_path: Path, into: Importer) -> None:
    line = {
        "input": "q", "output": "a", "gts": "42", "pred": "41", "score": "0.5", "step": "3", "acc": "True",
        "format_reward": "0.25", "turns": "7", "bonus": "tensor(0.5000, device='cuda:0')", "rate": "nan", "note": "85%",
    }  # fmt: skip
    assert into("verl", write(tmp_path / "x.jsonl", [line])) == ImportReport(1, 0, 0)
    (row,) = into.store.trajectories().rows()
    trajectory = into.store.trajectory(row["trajectory_id"])
    terms = trajectory.scores[0]["terms"]
    assert (row["step"], row["reward"]) == (3, 0.5)
    assert {name: terms[name] for name in ("acc", "format_reward", "turns", "bonus")} == {
        "acc": 1.0, "format_reward": 0.25, "turns": 7.0, "bonus": 0.5,
    }  # fmt: skip
    assert trajectory.tags == {"gts": "42", "pred": "41", "note": "85%"}


def test_verl_needs_project_and_experiment(tmp_path: Path, into: Importer) -> None:
    with pytest.raises(ConfigError, match="--project"):
        into("verl", write(tmp_path / "1.jsonl", verl_lines(1)), project=None)
