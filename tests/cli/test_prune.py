"""`rolltrace prune`: by filter, by age, down to a size; groups whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.drain import Drainer


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Steps 1 and 2, two samples of two rollouts each; rollout 1 has reward 1."""
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)

    @rolltrace.rollout_trace_op
    def op(text: str) -> str:
        return text

    for step in (1, 2):
        for sample in range(2):
            for n in range(2):
                with rolltrace.rollout_trace_attr(step=step, sample_index=sample, rollout_n=n) as trajectory:
                    op(f"{step} {sample} {n}" * 500)
                    trajectory.reward(float(n and sample))
    rolltrace.shutdown()
    drainer = Drainer(tmp_path)
    with drainer.working():
        drainer.drain()
    return tmp_path


def pruned(store: Path) -> set[tuple[int, int]]:
    """The (step, sample) of which payloads are gone."""
    rows = rolltrace.open(store).sql("select step, sample_index, inputs from spans").rows()
    return {(row["step"], int(row["sample_index"])) for row in rows if row["inputs"] is None}


def test_a_filter_prunes_whole_groups(store: Path) -> None:
    assert main(["prune", str(store), "--where", "reward = 1 and step = 2"]) == 0
    assert pruned(store) == {(2, 1)}
    assert len(rolltrace.open(store).trajectories()) == 8


def test_nothing_young_is_pruned_by_age(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", str(store), "--older-than", "1h"]) == 0
    assert "pruned 0 trajectories" in capsys.readouterr().out
    assert main(["prune", str(store), "--older-than", "0m"]) == 0
    assert len(pruned(store)) == 4


def test_the_oldest_steps_go_first_when_a_size_is_given(store: Path) -> None:
    size = sum(file.stat().st_size for file in store.rglob("*.parquet"))
    assert main(["prune", str(store), "--max-size", str(size - 100)]) == 0
    assert pruned(store) == {(1, 0), (1, 1)}


def test_a_dry_run_only_says(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", str(store), "--where", "step = 1", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"would_prune": 4}
    assert pruned(store) == set()


def test_what_was_removed_is_in_the_losses(store: Path) -> None:
    main(["prune", str(store), "--where", "step = 1", "--whole"])
    (loss,) = rolltrace.open(store).losses().rows()
    assert (loss["reason"], loss["step"], loss["count"]) == ("pruned_whole", 1, 4)


def test_a_wrong_age_is_one_clear_line(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", str(store), "--older-than", "soon"]) == 1
    assert capsys.readouterr().err == "rolltrace: --older-than must be an age such as 12h, 30d or 8w, not 'soon'\n"
