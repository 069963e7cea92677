"""Whole trajectories, some at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from rolltrace.query import Store, open_store
from rolltrace.query.trajectory import read_whole, summaries

GONE = "f" * 32


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> str:
    return f"found {query}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for n in range(3):
        with rolltrace.rollout_trace_attr(7, step=1, rollout_n=n) as trajectory:
            search(f"page {n}")
            trajectory.note(f"note {n}")
    return open_store(tmp_path)


def test_they_come_in_the_order_in_which_they_are_asked_for_without_those_that_are_gone(store: Store) -> None:
    ids = [row["trajectory_id"] for row in store.trajectories(order="-rollout_n")]
    listed = summaries(store, [GONE, *ids], 1)
    found = list(read_whole(store, listed, 1))
    assert [each.trajectory.rollout_n for each in found] == [2, 1, 0]
    assert [each.trajectory.ops[0].inputs for each in found] == [{"query": f"page {n}"} for n in (2, 1, 0)]
    assert [each.trajectory.notes[0]["body"]["text"] for each in found] == [f"note {n}" for n in (2, 1, 0)]


def test_of_none_there_is_nothing_to_read(store: Store) -> None:
    assert summaries(store, [], 1) == summaries(store, [GONE], 1) == []
    assert list(read_whole(store, [], 1)) == []


def test_ops_have_inputs_and_outputs_as_text_when_asked_for(store: Store) -> None:
    (whole,) = read_whole(store, store.trajectories(rollout_n=0).rows(), 1)
    content = whole.trajectory.ops[0].content
    assert content is not None
    assert content.halves == {"inputs": '{"query":"page 0"}', "outputs": '"found page 0"'}
    assert whole.trajectory == store.trajectory(whole.trajectory.trajectory_id)
