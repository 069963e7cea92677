"""Partial rows become one row per key, in a reader and in compaction alike."""

from __future__ import annotations

import pytest

from rolltrace.tables.columns import TABLE_SCHEMAS, TRAJECTORIES
from rolltrace.tables.compact import compact_place
from tests.tables.conftest import Tables

A, B = "a" * 32, "b" * 32
RUNNING = {"status": "running", "status_rank": 2, "start_ns": 10, "name": "loop"}
ENDED = {"status": "ok", "status_rank": 4, "start_ns": 10, "end_ns": 40, "name": "loop"}


@pytest.fixture(params=["moving", "compacted"])
def compacted(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "compacted")


def settle(tables: Tables, compacted: bool) -> None:
    if compacted:
        assert compact_place(tables.store, tables.place).conflicts == 0


def test_partial_rows_of_a_trajectory_become_one(tables: Tables, compacted: bool) -> None:
    tables.add(trajectories=[{"trajectory_id": A, **RUNNING, "task": "add", "task_ns": 10}])
    tables.add(trajectories=[{"trajectory_id": A, "turns": 1, "flags": ["b"], "prompt_tokens": 5, "last_call_ns": 11}])
    tables.add(
        trajectories=[
            {"trajectory_id": A, **ENDED, "turns": 2, "flags": ["a", "b"], "prompt_tokens": 9, "last_call_ns": 30}
        ]
    )
    settle(tables, compacted)
    columns = "trajectory_id, status, start_ns, end_ns, turns, flags, prompt_tokens, task"
    assert tables.read(columns=columns) == [(A, "ok", 10, 40, 3, ["a", "b"], 9, "add")]


def test_an_end_counts_more_than_an_interruption_that_was_noted_later(tables: Tables, compacted: bool) -> None:
    tables.add(trajectories=[{"trajectory_id": A, **ENDED}])
    tables.add(trajectories=[{"trajectory_id": A, **RUNNING, "status": "interrupted", "status_rank": 3}])
    settle(tables, compacted)
    assert tables.read(columns="status, end_ns") == [("ok", 40)]


def test_a_score_by_coordinates_belongs_to_the_newest_trajectory_that_began_before_it(
    tables: Tables, compacted: bool
) -> None:
    tables.add(trajectories=[{"trajectory_id": A, **ENDED, "run": "first", "run_ns": 5}])
    tables.add(scores=[{"name": "reward", "value": 1.0, "time_ns": 50, "run": "server"}], trajectories=[{}])
    tables.add(
        trajectories=[{"trajectory_id": B, **ENDED, "start_ns": 60, "end_ns": 90, "run": "second", "run_ns": 55}]
    )
    settle(tables, compacted)
    assert tables.read(columns="trajectory_id, reward, superseded") == [(A, 1.0, True), (B, None, False)]


def test_the_newest_score_counts_even_if_it_says_none(tables: Tables, compacted: bool) -> None:
    tables.add(trajectories=[{"trajectory_id": A, **ENDED}])
    tables.add(
        scores=[
            {"trajectory_id": A, "name": "reward", "value": 1.0, "time_ns": 50, "terms": '{"correct": 1, "why": "x"}'},
            {"trajectory_id": A, "name": "fate", "label": "trained", "trained_step": 4, "time_ns": 55},
        ],
        trajectories=[{}],
    )
    settle(tables, compacted)
    assert tables.read(columns="reward, terms, fate, trained_step") == [(1.0, {"correct": 1.0}, "trained", 4)]
    tables.add(scores=[{"trajectory_id": A, "name": "reward", "value": None, "time_ns": 60}], trajectories=[{}])
    settle(tables, compacted)
    assert tables.read(columns="reward, terms, fate") == [(None, None, "trained")]


def test_a_score_that_arrives_after_compaction_is_seen(tables: Tables) -> None:
    tables.add(trajectories=[{"trajectory_id": A, **ENDED}])
    compact_place(tables.store, tables.place)
    tables.add(scores=[{"trajectory_id": A, "name": "reward", "value": 0.5, "time_ns": 99}], trajectories=[{}])
    assert tables.read(columns="reward") == [(0.5,)]


def test_a_label_that_was_taken_back_is_gone_and_those_of_others_stay(tables: Tables, compacted: bool) -> None:
    tables.add(trajectories=[{"trajectory_id": A, **ENDED}])
    said = {"trajectory_id": A, "name": "hack", "author": "ann", "label": "yes", "time_ns": 50}
    tables.add(scores=[said, {**said, "author": "bob"}, {**said, "name": "good"}], trajectories=[{}])
    tables.add(
        scores=[{**said, "label": None, "time_ns": 60}, {**said, "name": "good", "label": None, "time_ns": 60}],
        trajectories=[{}],
    )
    settle(tables, compacted)
    assert tables.read(columns="labels") == [(["hack"],)]


def test_what_a_trainer_adds_to_tokens_later_joins_them(tables: Tables, compacted: bool) -> None:
    tables.add(tokens=[{"trajectory_id": A, "op_id": 1, "ids": [1, 2, 3], "prompt_tokens": 2}])
    tables.add(tokens=[{"trajectory_id": A, "op_id": 1, "text": "abc", "streams": [("entropy", [0.5])]}])
    tables.add(tokens=[{"trajectory_id": A, "op_id": 1, "streams": [("weight", [2.0])]}])
    settle(tables, compacted)
    ((ids, text, streams),) = tables.read("tokens", "ids, text, streams")
    assert (ids, text) == ([1, 2, 3], "abc")
    assert streams == {"entropy": [0.5], "weight": [2.0]}


def test_every_column_of_a_table_with_a_key_says_how_it_reduces() -> None:
    for schema in TABLE_SCHEMAS:
        names = {column.name for column in schema.columns}
        assert len(names) == len(schema.columns)
        assert set(schema.sorted_by) <= names
        for column in schema.columns:
            assert (column.reducer == "newest") == bool(column.order), (schema.name, column.name)
    assert TRAJECTORIES.key == ("trajectory_id",)
