"""`rolltrace prune`: by filter, by age, down to a size; groups whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main

from .conftest import pruned


def test_a_filter_prunes_whole_groups(store: Path) -> None:
    assert main(["prune", str(store), "--where", "reward = 1 and step = 2", "--yes"]) == 0
    assert pruned(store) == {(2, 1)}
    assert len(rolltrace.open(store).trajectories()) == 12


def test_nothing_young_is_pruned_by_age(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", str(store), "--older-than", "1h"]) == 0
    assert "pruned 0 trajectories" in capsys.readouterr().out
    assert main(["prune", str(store), "--older-than", "0m", "--yes"]) == 0
    assert len(pruned(store)) == 6


def test_the_oldest_steps_go_first_when_a_size_is_given(store: Path) -> None:
    size = sum(file.stat().st_size for file in store.rglob("*.parquet"))
    assert main(["prune", str(store), "--max-size", str(size - 100), "--yes"]) == 0
    assert pruned(store) == {(1, 0), (1, 1)}


def test_a_dry_run_only_says(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", str(store), "--where", "step = 1", "--dry-run", "--json"]) == 0
    foreseen = json.loads(capsys.readouterr().out)
    assert (foreseen["would_prune"], foreseen["groups"]) == (4, 2)
    assert pruned(store) == set()


def test_what_was_removed_is_in_the_losses(store: Path) -> None:
    main(["prune", str(store), "--where", "step = 1", "--whole", "--yes"])
    (loss,) = rolltrace.open(store).losses().rows()
    assert (loss["reason"], loss["step"], loss["count"]) == ("pruned_whole", 1, 4)


def test_a_wrong_age_is_one_clear_line(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", str(store), "--older-than", "soon"]) == 1
    assert capsys.readouterr().err == "rolltrace: --older-than must be an age such as 12h, 30d or 8w, not 'soon'\n"
