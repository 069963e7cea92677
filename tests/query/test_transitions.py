"""Transitions as they are read: values in the place of pointers, late judgements in the place of nothing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace import RolloutTrace
from rolltrace.capture import backfill
from rolltrace.query import IncompleteWarning, open_store
from rolltrace.query.events import amendments_of, read_transitions
from rolltrace.query.trajectory import as_value
from tests.draining import drain

from .conftest import generate, prune, start

MESSAGES = [{"role": "user", "content": "Where is the station? " * 5}]


def rollout(store: Path, say: Any, *, step: int | None = 1) -> str:
    """A trajectory of one model call, and whatever else is said about it; its id."""
    start(store)
    with rolltrace.rollout_trace_attr(7, step=step) as handle:
        generate(MESSAGES, [1, 2])
        say(handle)
    rolltrace.shutdown()
    return handle.id


def later(store: Path, name: str, trace: Any, **more: Any) -> None:
    """Another process, which knows the trajectory by its id."""
    start(store)
    backfill([name], {name: trace}, **more)
    rolltrace.shutdown()


@pytest.fixture(params=["undrained", "drained", "drained in between"])
def state(request: pytest.FixtureRequest) -> str:
    return str(request.param)


OF_ONE = "SELECT * FROM transitions WHERE trajectory_id = ? ORDER BY time_ns"


def read(store: Path, name: str) -> list[dict[str, Any]]:
    return open_store(store).trajectory(name).transitions


def test_a_judgement_by_id_fills_the_last_step(tmp_path: Path, state: str) -> None:
    def say(handle: Any) -> None:
        handle.transition(RolloutTrace(prompt="first"), reward=0.0)
        handle.transition(RolloutTrace(prompt=MESSAGES, policy_response="r"), episode_done=True)

    names = {step: rollout(tmp_path, say, step=step) for step in (1, None)}
    if state == "drained in between":
        drain(tmp_path)
    for name in names.values():
        later(tmp_path, name, RolloutTrace(reward_data={"wins": 2}), rewards={name: 0.5})
    if state != "undrained":
        drain(tmp_path)
    store = open_store(tmp_path)
    for step, name in names.items():
        first, second = store.trajectory(name).transitions
        assert (first["trace"], first["reward"]) == ({"prompt": "first"}, 0.0)
        assert second["trace"] == {"prompt": MESSAGES, "policy_response": "r", "reward_data": {"wins": 2}}
        assert (second["reward"], second["episode_done"], second["backfill"]) == (0.5, True, False)
        assert second["fields"] == {"episode_done": True, "reward": 0.5}
        rows = store.sql(OF_ONE, [name]).rows()
        assert [(row["step"], row["reward"], row["backfill"]) for row in rows] == [
            (step, 0.0, False),
            (step, None, False),
            (step, 0.5, True),
        ]


def test_what_is_there_already_is_not_changed(tmp_path: Path) -> None:
    def say(handle: Any) -> None:
        handle.transition(RolloutTrace(prompt="p", reward_data={"a": 1.0}), reward=0.0, judge=math.nan)

    name = rollout(tmp_path, say)
    later(tmp_path, name, RolloutTrace(prompt="p", reward_data={"a": 2.0}), rewards={name: 0.7})
    later(tmp_path, name, RolloutTrace(reward_data={"a": 3.0}, extra="x"))
    (step,) = read(tmp_path, name)
    assert (step["reward"], step["trace"]) == (0.0, {"prompt": "p", "reward_data": {"a": 1.0}, "extra": "x"})
    assert step["fields"]["backfill"] == [
        {"reward": 0.7, "trace": {"reward_data": {"a": 2.0}}},
        {"trace": {"reward_data": {"a": 3.0}}},
    ]


def test_without_a_step_before_it_stands_alone(tmp_path: Path) -> None:
    name = rollout(tmp_path, lambda handle: None)
    later(tmp_path, name, RolloutTrace(reward_data={"wins": 2}))
    (alone,) = read(tmp_path, name)
    assert (alone["backfill"], alone["trace"], alone["fields"]) == (True, {"reward_data": {"wins": 2}}, {})


def test_a_judgement_of_the_handle_lies_beside_the_trajectory(tmp_path: Path) -> None:
    def say(handle: Any) -> None:
        handle.transition(RolloutTrace(prompt="p"))
        backfill([handle], [(handle, RolloutTrace(extra="judged"))])
        handle.transition(RolloutTrace(prompt="q"))

    name = rollout(tmp_path, say)
    drain(tmp_path)
    store = open_store(tmp_path)
    assert [step["trace"] for step in store.trajectory(name).transitions] == [
        {"prompt": "p", "extra": "judged"},
        {"prompt": "q"},
    ]
    assert {row["step"] for row in store.sql("SELECT step FROM transitions").rows()} == {1}


def test_a_judgement_may_point_to_an_op(tmp_path: Path, state: str) -> None:
    name = rollout(tmp_path, lambda handle: handle.transition({}, reward=1.0))
    if state == "drained in between":
        drain(tmp_path)
    later(tmp_path, name, RolloutTrace(prompt=MESSAGES))
    if state != "undrained":
        drain(tmp_path)
    assert [step["trace"] for step in read(tmp_path, name)] == [{"prompt": MESSAGES}]


def test_a_pointer_to_what_was_pruned_stays_visible(tmp_path: Path) -> None:
    name = rollout(tmp_path, lambda handle: handle.transition(RolloutTrace(prompt=MESSAGES)))
    drain(tmp_path)
    store = open_store(tmp_path)
    found = store.trajectory(name)
    assert found.transitions[0]["trace"] == {"prompt": MESSAGES}
    for file in (tmp_path / "ops").rglob("*.parquet"):
        file.unlink()
    with pytest.warns(IncompleteWarning):
        (step,) = open_store(tmp_path).trajectory(name).transitions
    assert step["trace"]["prompt"]["$op"] == {"op_id": found.ops[0].op_id, "path": ["inputs", "messages"]}


def test_a_pruned_trajectory_can_still_be_read(tmp_path: Path) -> None:
    name = rollout(tmp_path, lambda handle: handle.transition(RolloutTrace(prompt=MESSAGES), reward=0.5))
    later(tmp_path, name, RolloutTrace(extra="x" * 100))
    drain(tmp_path)
    prune(tmp_path, {name})
    (step,) = read(tmp_path, name)
    assert (step["trace"].keys(), step["reward"]) == ({"$pruned"}, 0.5)


def test_an_export_has_values_and_late_judgements(tmp_path: Path) -> None:
    from io import StringIO

    from rolltrace.exchange.export_jsonl import write
    from rolltrace.exchange.selection import select

    name = rollout(tmp_path, lambda handle: handle.transition(RolloutTrace(prompt=MESSAGES)))
    later(tmp_path, name, RolloutTrace(reward_data={"wins": 2}))
    drain(tmp_path)
    out = StringIO()
    assert write(select(open_store(tmp_path)), out).written == 1
    assert '"wins": 2' in out.getvalue() or '"wins":2' in out.getvalue()
    assert "$op" not in out.getvalue()


def amended(store: Path, name: str, **given: Any) -> None:
    """Another process has a last word."""
    start(store)
    rolltrace.capture.amend_transition(name, **given)
    rolltrace.shutdown()


def test_the_last_word_on_a_step_counts_and_what_was_there_is_its_history(tmp_path: Path, state: str) -> None:
    def say(handle: Any) -> None:
        handle.transition(RolloutTrace(prompt="first"), reward=0.25)
        handle.transition(RolloutTrace(prompt="second"), reward=0.5, episode_done=False, metrics={"a": 1, "b": 1})
        handle.amend_transition(episode_done=True, metrics={"b": 2, "c": 3}, stop_reason="max_turns")

    ids = [rollout(tmp_path, say, step=step) for step in (1, None)]
    if state == "drained in between":
        drain(tmp_path)
    for trajectory_id in ids:
        amended(tmp_path, trajectory_id, reward=math.nan, logs={"why": "clamped"})
        amended(tmp_path, trajectory_id, turn=0, reward=None, own="x")
    if state != "undrained":
        drain(tmp_path)
    store = open_store(tmp_path)
    for trajectory_id in ids:
        first, second = store.trajectory(trajectory_id).transitions
        assert (first["reward"], first["fields"]) == (None, {"own": "x"})
        assert [{**each, "time_ns": 0} for each in first["earlier"]] == [{"time_ns": 0, "reward": 0.25, "own": None}]
        assert math.isnan(second["reward"])
        assert (second["episode_done"], second["stop_reason"]) == (True, "max_turns")
        assert second["fields"]["metrics"] == {"a": 1, "b": 2, "c": 3}
        assert second["fields"]["logs"] == {"why": "clamped"}
        assert second["trace"] == {"prompt": "second"}
        ended, clamped = second["earlier"]
        assert {name: ended[name] for name in ended if name != "time_ns"} == {
            "episode_done": False,
            "metrics": {"a": 1, "b": 1},
            "stop_reason": None,
        }
        assert {name: clamped[name] for name in clamped if name != "time_ns"} == {"reward": 0.5, "logs": None}
        assert second["time_ns"] < ended["time_ns"] < clamped["time_ns"]
        rows = store.sql(OF_ONE, [trajectory_id]).rows()
        for row, step_read in zip(rows, (first, second), strict=True):
            assert [str(row[name]) for name in ("reward", "episode_done", "stop_reason")] == [
                str(step_read[name]) for name in ("reward", "episode_done", "stop_reason")
            ]
            assert as_value(row["fields"]).keys() == step_read["fields"].keys()
        assert as_value(rows[1]["fields"])["metrics"] == {"a": 1, "b": 2, "c": 3}


def test_what_says_the_same_again_leaves_no_history(tmp_path: Path) -> None:
    def say(handle: Any) -> None:
        handle.transition(reward=0.5, metrics={"a": 1})
        handle.amend_transition(reward=0.5, metrics={"a": 1}, stop_reason=None)

    (step,) = read(tmp_path, rollout(tmp_path, say))
    assert (step["reward"], step["earlier"]) == (0.5, [])


def test_a_metric_given_as_none_is_taken_away(tmp_path: Path) -> None:
    def say(handle: Any) -> None:
        handle.transition(reward=0.5, metrics={"a": 1, "stop/completed": 1.0})
        handle.amend_transition(metrics={"stop/completed": None})

    name = rollout(tmp_path, say)
    store = open_store(tmp_path)
    (step,) = store.trajectory(name).transitions
    assert step["fields"]["metrics"] == {"a": 1}
    assert step["earlier"][0]["metrics"] == {"a": 1, "stop/completed": 1.0}
    (row,) = store.sql("SELECT fields FROM transitions").rows()
    assert as_value(row["fields"])["metrics"] == {"a": 1}


def test_an_amendment_of_a_step_that_is_not_there_stands_alone(tmp_path: Path) -> None:
    name = rollout(tmp_path, lambda handle: handle.transition(reward=0.5))
    amended(tmp_path, name, turn=5, reward=1.0)
    first, alone = read(tmp_path, name)
    assert (first["reward"], first["amends"]) == (0.5, False)
    assert (alone["reward"], alone["amends"]) == (1.0, True)


def test_a_pruned_step_keeps_its_last_word(tmp_path: Path) -> None:
    def say(handle: Any) -> None:
        handle.transition(RolloutTrace(prompt="p"), reward=0.5)
        handle.amend_transition(reward=1.0, episode_done=True, metrics={"a": 1})

    name = rollout(tmp_path, say)
    drain(tmp_path)
    prune(tmp_path, {name})
    (step,) = read(tmp_path, name)
    assert (step["reward"], step["episode_done"]) == (1.0, True)
    assert "$pruned" in step["trace"]


def test_a_step_and_its_amendments_are_made_of_what_was_read(tmp_path: Path) -> None:
    def say(handle: Any) -> None:
        handle.transition(RolloutTrace(prompt="p"), reward=0.5, metrics={"a": 1, "gone": 1})
        handle.amend_transition(reward=None, metrics={"a": 2, "gone": None})
        handle.amend_transition(reward=2.0, stop_reason="x")

    (step,) = read(tmp_path, rollout(tmp_path, say))
    rows = [{"trace": None, "turn": None, "op_id": None, **row} for row in amendments_of(step)]
    assert [row["amends"] for row in rows] == [False, True, True]
    assert read_transitions([{**row, "earlier": []} for row in rows], {}) == [
        {name: value for name, value in step.items() if name != "turn"}
    ]
