"""amend_transition: what is written of a last word on a step, and what of one that makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

import rolltrace
from rolltrace import rollout_trace_attr
from rolltrace.capture import amend_transition
from rolltrace.record import Coordinates, Event, decode_coordinates
from rolltrace.testing import Recording, recording

ELSEWHERE = "ab" * 16


def amended(traced: Recording) -> list[Any]:
    return [event.body for event in traced.events if event.event == "amend"]


def test_only_what_is_given_is_written_and_none_is_a_value(traced: Recording) -> None:
    with rollout_trace_attr(7, step=2) as handle:
        handle.transition(reward=1.0)
        handle.amend_transition(reward=None, metrics={"turns": 3}, own=[1])
        handle.amend_transition(turn=0, episode_done=True)
    assert amended(traced) == [
        {"turn": None, "fields": {"reward": None, "metrics": {"turns": 3}, "own": [1]}},
        {"turn": 0, "fields": {"episode_done": True}},
    ]


def test_what_is_given_is_kept_as_it_was(traced: Recording) -> None:
    metrics = {"turns": 3}
    with rollout_trace_attr(7) as handle:
        handle.amend_transition(metrics=metrics)
        metrics["turns"] = 99
    assert amended(traced) == [{"turn": None, "fields": {"metrics": {"turns": 3}}}]


def test_by_id_the_last_step_of_the_trajectory_is_meant(traced: Recording) -> None:
    amend_transition(ELSEWHERE, stop_reason="max_turns")
    (record,) = (each for each in traced.records if isinstance(each, Event))
    assert (record.trajectory_id.hex(), decode_coordinates(record.coordinates)) == (ELSEWHERE, Coordinates())
    assert amended(traced) == [{"turn": -1, "fields": {"stop_reason": "max_turns"}}]


def test_by_handle_it_keeps_the_coordinates(traced: Recording) -> None:
    with rollout_trace_attr(7, step=2, rollout_n=1) as handle:
        pass
    amend_transition(handle, turn=2, reward=0.5)
    record = traced.records[-1]
    assert isinstance(record, Event)
    assert decode_coordinates(record.coordinates) == Coordinates(step=2, sample_index=7, rollout_n=1)


@pytest.mark.parametrize("target", ["abc", 7, None, (1, 7, 0)])
def test_a_target_that_is_no_trajectory_warns_and_is_counted(monkeypatch: pytest.MonkeyPatch, target: Any) -> None:
    monkeypatch.delenv("ROLLTRACE_STRICT", raising=False)
    with recording() as traced, pytest.warns(UserWarning, match="not recorded") as warned:
        amend_transition(target, reward=1.0)
    assert warned[0].filename == __file__
    assert (traced.sink.losses, traced.records) == ({"refused_score": {"": 1}}, [])


def test_a_turn_that_is_no_number_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROLLTRACE_STRICT", raising=False)
    with recording(), rollout_trace_attr(7) as handle, pytest.warns(UserWarning, match="number of a step"):
        handle.amend_transition(turn="last", reward=1.0)  # type: ignore[arg-type]


def test_off_nothing_is_built() -> None:
    class Explodes:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was asked for")

    with rollout_trace_attr(7) as handle:
        handle.amend_transition(reward=Explodes(), metrics=Explodes())
    rolltrace.capture.amend_transition(ELSEWHERE, reward=Explodes())
