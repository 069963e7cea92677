"""A score by id alone finds the step of its trajectory, whenever it comes."""

from __future__ import annotations

from typing import Any

import pytest

from rolltrace.tables import Place, Table, compact_place
from rolltrace.tables.compact import moving_places
from rolltrace.tables.late_scores import place_late_scores
from tests.tables.conftest import Tables
from tests.tables.test_prune import ENDED, A, B

NOWHERE = Place("maths", "grpo 7b/x", None)


@pytest.fixture
def scored(tables: Tables) -> Tables:
    """A settled step, and scores that came later: one of its trajectory, one of a trajectory that is not there."""
    tables.add(trajectories=[{"trajectory_id": A, **ENDED}])
    compact_place(tables.store, tables.place)
    late = [{"trajectory_id": each, "name": "reward", "value": 0.5, "time_ns": 50} for each in (A, B)]
    tables.add(place=NOWHERE, scores=late, trajectories=[{}])
    return tables


@pytest.mark.parametrize("compacted", [False, True])
def test_it_counts_in_the_step_of_its_trajectory(scored: Tables, compacted: bool) -> None:
    assert place_late_scores(scored.store) == {scored.place}
    if compacted:
        compact_place(scored.store, scored.place)
        assert scored.place not in moving_places(scored.store)
    assert scored.read(columns="trajectory_id, step, reward") == [(A, 3, 0.5)]
    assert scored.read("scores", "trajectory_id, step") == [(A, 3), (B, None)]


def test_one_that_matches_nothing_waits_and_is_placed_later(scored: Tables) -> None:
    place_late_scores(scored.store)
    assert place_late_scores(scored.store) == set()
    scored.add(place=Place("maths", "other", 7), trajectories=[{"trajectory_id": B, **ENDED}])
    assert place_late_scores(scored.store) == {Place("maths", "other", 7)}
    assert scored.read("scores", "trajectory_id, experiment, step") == [(A, "grpo 7b/x", 3), (B, "other", 7)]


def test_a_kill_before_the_step_is_marked_is_made_up_for(scored: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Table.commit

    def killed(table: Table, *arguments: Any, **options: Any) -> None:
        if table.name == "trajectories":
            raise KeyboardInterrupt
        commit(table, *arguments, **options)

    monkeypatch.setattr(Table, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        place_late_scores(scored.store)
    monkeypatch.undo()
    assert scored.place in moving_places(scored.store)
    compact_place(scored.store, scored.place)
    assert scored.read(columns="trajectory_id, reward") == [(A, 0.5)]
