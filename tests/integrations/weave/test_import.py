"""Calls that are in Weave become trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolltrace.backends.weave import WeaveBackend
from rolltrace.cli import main
from rolltrace.query import open_store

from .conftest import run_workers
from .reading import trajectories_of

NAMED = ("--project", "p", "--experiment", "e")


def test_calls_become_trajectories_with_their_ops(
    tmp_path: Path, project: str, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run_workers(tmp_path / "traced", 2, 4)
    traced = trajectories_of(open_store(tmp_path / "traced"))
    assert WeaveBackend().send(traced) == []
    arguments = ["import", "weave", project, "--store", str(tmp_path / "store"), *NAMED]
    assert main(arguments) == 0
    assert main(arguments) == 0
    assert "0 new trajectories imported" in capsys.readouterr().out
    again = trajectories_of(open_store(tmp_path / "store"))
    assert len(again) == len(traced)

    def told(trajectory: Any) -> Any:
        ops = sorted((op.name.rpartition(".")[2], op.status) for op in trajectory.walk())
        return trajectory.step, str(trajectory.sample_index), trajectory.rollout_n, ops

    for before, after in zip(sorted(map(told, traced)), sorted(map(told, again))):
        assert before[:3] == after[:3]
        assert len(after[3]) == len(before[3]) + 1, "the root is a call in Weave"
