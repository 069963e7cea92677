"""A sample that gives way to another is not kept, whatever of it is written already."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from rolltrace.capture import scope
from rolltrace.query import open_store
from tests.draining import drain, rows

from .sampled import (
    GROUP,
    SAMPLES,
    STATES,
    bring_into,
    descending,
    kept,
    lost,
    rollout,
    rollout_outside,
    smallest,
    start,
    use_tool,
)


@pytest.mark.parametrize("state", STATES)
def test_samples_that_were_displaced_are_not_read_back(tmp_path: Path, state: str) -> None:
    start(tmp_path, 2)
    for n in range(GROUP):
        for sample in descending(SAMPLES):
            rollout(sample, n)
    bring_into(state, tmp_path)
    assert kept(tmp_path) == {(1, sample, n, False) for sample in smallest(2) for n in range(GROUP)}
    assert lost(tmp_path) == GROUP * len(SAMPLES) - 2 * GROUP


def test_compaction_removes_displaced_rows_for_good(tmp_path: Path) -> None:
    start(tmp_path, 1)
    for sample in descending(SAMPLES):
        rollout(sample)
    bring_into("drained", tmp_path)
    before = len(rows(tmp_path))
    bring_into("compacted", tmp_path)
    assert (before, len(rows(tmp_path))) == (len(SAMPLES), 1)
    (row,) = open_store(tmp_path).sql("SELECT count(*) AS rows, count(DISTINCT trajectory_id) AS ids FROM spans")
    assert (row["rows"], row["ids"]) == (1, 1)
    assert lost(tmp_path) == len(SAMPLES) - 1


def test_rows_that_were_in_the_store_already_go_when_their_sample_is_displaced(tmp_path: Path) -> None:
    start(tmp_path, 1)
    first, other = smallest(2)
    rollout(other)
    with rolltrace.rollout_trace_attr(other, step=1), rolltrace.rollout_trace_attr(name="helper"):
        use_tool("inside")
    assert scope.recorder is not None
    scope.recorder.sink.turn_over()
    drain(tmp_path)
    store = open_store(tmp_path)
    assert len(store.trajectories()) == 3
    assert len(store.trajectories(step=1)) == 2
    rollout(first)
    store.refresh()
    assert [row["sample_index"] for row in store.trajectories()] == [first]
    assert [row["sample_index"] for row in store.trajectories(step=1)] == [first]
    assert [row["sample_index"] for row in store.sql("SELECT sample_index FROM groups")] == [str(first)]
    assert lost(tmp_path) == 3


@pytest.mark.parametrize("state", STATES)
def test_a_trajectory_that_is_displaced_while_it_runs_is_not_kept(tmp_path: Path, state: str) -> None:
    start(tmp_path, 1)
    first, other = smallest(2)
    with rolltrace.rollout_trace_attr(other, step=1) as trajectory:
        use_tool("before")
        rollout_outside(first)
        use_tool("after")
        trajectory.reward(1.0)
    rollout(other, 1)
    bring_into(state, tmp_path)
    assert kept(tmp_path) == {(1, first, 0, False)}
    assert lost(tmp_path) == 2


def test_a_displaced_trajectory_that_never_ends_is_not_kept(tmp_path: Path) -> None:
    start(tmp_path, 1)
    first, other = smallest(2)
    left_open = rolltrace.rollout_trace_attr(other, step=1)
    left_open.__enter__()
    use_tool("before")
    rollout_outside(first)
    assert kept(tmp_path) == {(1, first, 0, False)}
    bring_into("drained", tmp_path)
    left_open.__exit__(None, None, None)
    assert kept(tmp_path) == {(1, first, 0, False)}


def test_ops_of_a_displaced_trajectory_in_another_process_are_not_kept(tmp_path: Path) -> None:
    start(tmp_path, 1)
    first, other = smallest(2)
    with rolltrace.rollout_trace_attr(other, step=1):
        context = rolltrace.current_context()
    rollout(first)
    rolltrace.shutdown()
    start(tmp_path, 1)  # a writer of its own, as in another process
    with rolltrace.use_context(context):
        use_tool("far away")
    rolltrace.shutdown()
    assert kept(tmp_path) == {(1, first, 0, False)}
    bring_into("compacted", tmp_path)
    assert kept(tmp_path) == {(1, first, 0, False)}


@pytest.mark.parametrize("state", STATES)
def test_what_is_begun_inside_without_a_sample_goes_with_its_trajectory(tmp_path: Path, state: str) -> None:
    start(tmp_path, 1)
    first, other = smallest(2)
    for sample in (other, first, other):
        with rolltrace.rollout_trace_attr(sample, step=1), rolltrace.rollout_trace_attr(name="helper", of=sample):
            use_tool("inside")
            with rolltrace.rollout_trace_attr(name="helper of the helper"):
                use_tool("further inside")
    bring_into(state, tmp_path)
    found = open_store(tmp_path).trajectories(order="start_ns").rows()
    assert [(row["name"], row["sample_index"]) for row in found] == [
        ("rollout_trace", first),
        ("helper", None),
        ("helper of the helper", None),
    ]
    assert kept(tmp_path) == {(1, first, None, False), (None, None, None, False)}


def test_nothing_begins_inside_a_trajectory_that_was_displaced(tmp_path: Path) -> None:
    start(tmp_path, 1)
    first, other = smallest(2)
    with rolltrace.rollout_trace_attr(other, step=1):
        rollout_outside(first)
        with rolltrace.rollout_trace_attr(name="helper") as helper:
            assert not helper.traced
    assert kept(tmp_path) == {(1, first, 0, False)}
    assert lost(tmp_path) == 2
