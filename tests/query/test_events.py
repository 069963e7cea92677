"""Scores, transitions, notes and findings: typed objects that read as rows too."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import rolltrace
from rolltrace.query import Finding, Note, Score, Transition, open_store
from rolltrace.record.tables import FLAGS, NOTES, SCORES, TRANSITIONS, WHERE, Table
from rolltrace.testing import rollouts


@pytest.mark.parametrize(
    ("kind", "table"), [(Score, SCORES), (Transition, TRANSITIONS), (Note, NOTES), (Finding, FLAGS)]
)
def test_each_has_the_columns_of_its_table(kind: type, table: Table) -> None:
    columns = {column.name for column in table.columns if column not in WHERE}
    assert columns <= set(kind.__dataclass_fields__)  # type: ignore[attr-defined]


def test_a_score_is_an_object_and_a_mapping() -> None:
    score = Score("reward", 0.5, {"format": 1.0}, time_ns=7)
    assert (score.value, score["value"], score.get("label"), "terms" in score) == (0.5, 0.5, None, True)
    assert score == dict(score) == Score("reward", 0.5, {"format": 1.0}, time_ns=7)
    with pytest.raises(KeyError):
        score["shown"]


def test_a_list_of_them_becomes_a_data_frame() -> None:
    frame = pd.DataFrame([Score("reward", 0.5), Score("reward", 1.0)])
    assert list(frame["value"]) == [0.5, 1.0]


def test_all_notes_are_in_one_place(tmp_path: Path) -> None:
    with rollouts(tmp_path), rolltrace.rollout_trace_attr(step=1) as handle:
        handle.note("halfway", author="agent")
        handle.tag(level="hard")
    store = open_store(tmp_path)
    store.score(handle.trajectory_id, "note", "guesses, then explains", reason="read by a human")
    trajectory = store.trajectory(handle.trajectory_id)
    assert [note.text for note in trajectory.human_notes] == ["halfway", "guesses, then explains"]
    assert [note.fields for note in trajectory.human_notes] == [{"author": "agent"}, {"reason": "read by a human"}]
    assert [note.event for note in trajectory.notes] == ["note", "tag"]


def test_a_trajectory_is_a_dict_that_json_can_hold(tmp_path: Path) -> None:
    with rollouts(tmp_path), rolltrace.rollout_trace_attr(step=1, sample_index="a") as handle:
        handle.reward(0.5)
        handle.transition({"prompt": "?"}, reward=0.5)
    plain = open_store(tmp_path).trajectory(handle.trajectory_id).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert (plain["reward"], plain["scores"][0]["value"], plain["transitions"][0]["reward"]) == (0.5, 0.5, 0.5)
    assert not {"ops", "tokens"} & plain.keys()
