"""Calls that are in Weave become trajectories."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rolltrace.backends.weave import WeaveBackend
from rolltrace.cli import main
from rolltrace.query import open_store

from .conftest import ENTITY, run_workers
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
        scores = sorted(
            (name, score.value, score.label, sorted(score.terms.items()))
            for name, score in trajectory.newest_scores.items()
        )
        return trajectory.step, str(trajectory.sample_index), trajectory.rollout_n, ops, scores

    for before, after in zip(sorted(map(told, traced)), sorted(map(told, again))):
        assert before[:3] == after[:3]
        assert before[4] == after[4]
        assert len(after[3]) == len(before[3]) + 1, "the root is a call in Weave"


def test_feedback_becomes_scores_and_labels(tmp_path: Path, project: str, client: Any) -> None:
    import weave

    @weave.op
    def generate(question: str) -> str:
        return "42"

    @weave.op
    def rollout(question: str) -> str:
        return str(generate(question))

    @weave.op
    def judge(output: str) -> dict[str, Any]:
        return {"correct": output == "42", "style": 0.25}

    with weave.attributes({"step": 3, "sample_index": 7, "rollout_n": 0}):
        _, call = rollout.call("17+25?")
    asyncio.run(call.apply_scorer(judge))
    client.flush()
    (inside,) = call.children()
    call.feedback.add_reaction("\N{THUMBS UP SIGN}", creator="ann")
    call.feedback.add_note("42", creator="ann")
    call.feedback.add("reward", {"value": 0.75}, creator="bob")
    inside.feedback.add("reward", {"value": 0.5}, creator="bob")
    inside.feedback.add("tone", {"value": "terse"}, creator="bob")
    client.flush()
    arguments = ["import", "weave", f"{ENTITY}/{project}", "--store", str(tmp_path / "store"), *NAMED]
    assert main(arguments) == 0
    store = open_store(tmp_path / "store")
    (row,) = [row for row in store.trajectories().rows() if row["step"] == 3]
    assert (row["sample_index"], row["reward"]) == (7, 0.75)
    trajectory = store.trajectory(row["trajectory_id"])
    numbers = {name: score.value for name, score in trajectory.newest_scores.items() if score.value is not None}
    assert numbers == {"reward": 0.75, "generate.reward": 0.5, "judge.correct": 1.0, "judge.style": 0.25}
    op = next(op for op in trajectory.walk() if op.name == "generate")
    labels = {(each.name, each.label, each.author, each.op_id) for each in trajectory.given_labels}
    assert labels == {
        ("thumbs_up", "yes", "ann", None), ("note", "42", "ann", None), ("tone", "terse", "bob", op.op_id),
    }  # fmt: skip
