"""Group records: shown with their group, and counted nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import rolltrace
from rolltrace.errors import NotFoundError
from rolltrace.query import Scope, Store, group_record_list, open_store, outline_of
from rolltrace.query.finished import survey
from tests.draining import drain

from .conftest import generate, start

STATES = ("undrained", "drained", "settled")


@rolltrace.rollout_trace_op(kind="aux_llm")
def judge(messages: list[dict[str, str]]) -> dict[str, object]:
    return {"text": "The first.", "token_ids": [1, 2, 3], "policy_version": 99}


def write_groups(store: Path, state: str) -> None:
    """Two samples of two rollouts, and a record of each of their groups; one with a fate."""
    start(store)
    for sample in (7, 8):
        for n in range(2):
            with rolltrace.rollout_trace_attr(sample, step=1, rollout_n=n) as handle:
                generate([{"role": "user", "content": "?"}], [1, 2])
                judge([{"role": "user", "content": "grade this"}])
            handle.reward(float(n))
        with rolltrace.rollout_trace_group(sample, 1, name="preferences") as group:
            judge([{"role": "user", "content": f"which of {sample}?"}])
            group.note("one winner", sample=sample)
    rolltrace.score((1, 7, 1), "fate", "trained", trained_step=3)
    rolltrace.score((1, 7, 0), "fate", "filtered", reason="stale")
    rolltrace.shutdown()
    if state != "undrained":
        drain(store, compacted=state == "settled")


@pytest.fixture(params=STATES)
def groups(request: pytest.FixtureRequest, tmp_path: Path, copied: Callable[..., Path]) -> Path:
    return copied(tmp_path / "store", write_groups, request.param)


@pytest.fixture(params=STATES, scope="module")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The same, for tests that only ask."""
    path = tmp_path_factory.mktemp("groups") / "store"
    write_groups(path, request.param)
    return open_store(path)


def test_they_are_no_rollouts(store: Store) -> None:
    assert len(store.trajectories()) == 4
    assert [row["size"] for row in store.groups()] == [2, 2]
    (step,) = store.steps().rows()
    assert (step["trajectories"], step["samples"]) == (4, 2)
    assert store.experiments().rows()[0]["trajectories"] == 4
    assert len(survey(store)) == 4
    assert [row["rollout_n"] for row in store.group(1, 7)] == [0, 1]
    assert len(store.unmatched_scores()) == 0


def test_they_are_shown_with_their_group(store: Store) -> None:
    (record,) = store.group_records(1, 8)
    assert (record.name, record.sample_index, record.step, record.rollout_n) == ("preferences", 8, 1, None)
    assert [op.inputs for op in record.ops] == [{"messages": [{"role": "user", "content": "which of 8?"}]}]
    assert [note["body"]["text"] for note in record.notes] == ["one winner"]
    assert store.trajectory(record.trajectory_id[:12]).trajectory_id == record.trajectory_id
    rows = store.sql("SELECT sample_index, name, status FROM group_records ORDER BY sample_index").rows()
    assert [tuple(row.values()) for row in rows] == [("7", "preferences", "ok"), ("8", "preferences", "ok")]
    assert store.group_records(1, 9) == []
    with pytest.raises(NotFoundError):
        store.trajectory("0123456789ab")


def test_a_group_has_the_records_of_its_newest_run(tmp_path: Path) -> None:
    for run in ("first", "second"):
        start(tmp_path, run=run)
        with rolltrace.rollout_trace_attr(7, step=1, rollout_n=0):
            pass
        with rolltrace.rollout_trace_group(7, 1):
            pass
        rolltrace.shutdown()
    store = open_store(tmp_path)
    assert [each.run for each in store.group_records(1, 7)] == ["second"]
    assert [each.run for each in store.group_records(1, 7, run="first")] == ["first"]
    assert len(store.group_records(1, 7, all_runs=True)) == 2
    assert [each.run for each in group_record_list(store, Scope(step=1))] == ["second"]
    assert [each.run for each in group_record_list(store, Scope(step=1, run="first"))] == ["first"]
    assert len(group_record_list(store, Scope(all_runs=True))) == 2


def test_they_are_listed_with_their_number_of_ops(store: Store) -> None:
    listed = group_record_list(store, Scope(step=1))
    assert [(each.name, each.sample_index, each.ops, each.errors) for each in listed] == [
        ("preferences", "7", 1, 0),
        ("preferences", "8", 1, 0),
    ]


def test_the_outline_of_a_rollout_has_them_and_they_have_one_too(store: Store) -> None:
    (row,) = store.trajectories(sample_index=7, rollout_n=0).rows()
    (record,) = outline_of(store, row["trajectory_id"]).group_records
    outline = outline_of(store, record.trajectory_id[:12])
    assert (outline.is_group, outline.row.name, outline.row.sample_index) == (True, "preferences", "7")
    assert [op.name for op in outline.outline] == ["judge"]
    assert [cell.rollout_n for cell in outline.siblings] == [0, 1]
    assert outline.group_records == [record]


def test_calls_of_other_models_are_no_turns_of_the_policy(store: Store) -> None:
    (row,) = store.trajectories(sample_index=7, rollout_n=0).rows()
    assert (row["turns"], row["response_tokens"], row["policy_version_max"]) == (1, 4, 2)
    assert row["flags"] == []
    trajectory = store.trajectory(row["trajectory_id"])
    assert [message["content"] for message in trajectory.conversation] == ["?", "回答 🎉"]
    assert len(trajectory.token_sequence()) == 6
    (graded,) = (op for op in trajectory.walk() if op.kind == "aux_llm")
    assert (graded.response_tokens, graded.outputs["text"]) == (3, "The first.")
    assert len(store.trajectories(where="kind = 'aux_llm'")) == 4


def test_a_fate_says_which_step_trained(groups: Path) -> None:
    store = open_store(groups)
    (row,) = store.trajectories(where="trained_step = 3").rows()
    assert (row["sample_index"], row["rollout_n"], row["fate"]) == (7, 1, "trained")
    assert store.trajectory(row["trajectory_id"]).trained_step == 3
    store.score((1, 7, 0), "fate", "trained", trained_step=4)
    rows = store.trajectories(sample_index=7, order="rollout_n").rows()
    assert [row["trained_step"] for row in rows] == [4, 3]
    assert [score["trained_step"] for score in store.trajectory(rows[0]["trajectory_id"]).scores][-2:] == [None, 4]
