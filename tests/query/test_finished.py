"""Finished trajectories: what there is of each, and all of it in batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.errors import FilterError
from rolltrace.query import Store, open_store
from rolltrace.query.finished import read_finished, sizes, survey
from tests.nightly import NIGHTLY

from .conftest import STATES


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> str:
    return query


def rows(store: Path | Store, **conditions: Any) -> list[dict[str, Any]]:
    opened = store if isinstance(store, Store) else open_store(store)
    found: list[dict[str, Any]] = survey(opened, **conditions).to_pylist()
    return found


def test_every_state_of_a_store_gives_the_same_survey(reader: Store) -> None:
    found = rows(reader)
    assert len(found) == 17
    assert {row["records"] for row in found if row["step"] == 10} == {5 + 2}, "five ops, a note and a transition"
    assert all(row["scored_ns"] > row["last_ns"] for row in found if row["step"] == 10), "the reward came last"
    assert {row["scored_ns"] for row in found if row["step"] is None} == {0}
    assert {row["open"] for row in found} == {0}


@pytest.mark.parametrize("state", STATES if NIGHTLY else ("undrained", "drained", "some parts"))
def test_what_is_read_in_batches_is_what_is_read_alone(reader_of: Callable[[str], Store], state: str) -> None:
    reader = reader_of(state)
    # Samples 2 and 10 were written alike in every step.
    one_of_each_kind = "step is null or sample_index not in (2, 10) or step = -1 and sample_index = 2"
    listed = reader.trajectories(where=None if NIGHTLY else one_of_each_kind)
    for step in (-1, 0, None):
        ids = sorted(row["trajectory_id"] for row in listed if row["step"] == step)
        found = list(read_finished(reader, ids, step))
        assert found == [reader.trajectory(each) for each in ids]
        assert set(sizes(reader, ids)) == {each.trajectory_id for each in found if each.ops}


def test_a_trajectory_that_is_not_there_is_left_out(reader: Store) -> None:
    assert list(read_finished(reader, ["f" * 32], None)) == []


@pytest.mark.parametrize("state", STATES if NIGHTLY else ("undrained", "drained"))
def test_only_what_is_asked_for_is_surveyed(reader_of: Callable[[str], Store], state: str) -> None:
    reader = reader_of(state)
    assert len(rows(reader, places=[("p", "e")], project="p", experiment=None)) == 17
    assert rows(reader, places=[("p", "other")]) == rows(reader, places=[]) == []
    assert {row["step"] for row in rows(reader, since_step=0)} == {0, 10}
    assert rows(reader, since_ns=time.time_ns()) == []
    assert rows(reader, project="other") == []


def test_a_filter_marks_and_does_not_leave_out(reader: Store) -> None:
    found = rows(reader, where="reward > 10")
    assert len(found) == 17
    assert sum(row["wanted"] for row in found) == 3
    with pytest.raises(FilterError):
        rows(reader, where="rewart > 10")


def test_what_runs_is_not_finished_and_its_open_ops_are_counted(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    with rolltrace.rollout_trace_attr(step=1):
        search("inside")
        assert rows(tmp_path) == []
        context = rolltrace.current_context()
    with rolltrace.use_context(context):
        generator = rolltrace.rollout_trace_op(lambda: (yield 1))()
        next(generator)
        (found,) = rows(tmp_path)
    assert (found["open"], found["records"]) == (1, 1)
    generator.close()
