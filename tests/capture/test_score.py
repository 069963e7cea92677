"""`rolltrace.score`: what it records, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

import rolltrace
from rolltrace import _guard
from rolltrace.errors import ConfigError
from rolltrace.record import Coordinates, Event, decode_coordinates
from rolltrace.testing import FakeClock, MemorySink, Recording, recording


def events(traced: Recording) -> list[Event]:
    return [each for each in traced.records if isinstance(each, Event)]


def test_a_score_by_id_has_no_coordinates(traced: Recording) -> None:
    rolltrace.score("ab" * 16, "advantage", 0.5, terms={"a": 1}, reason="why")
    (said,) = traced.events
    assert (said.event, said.trajectory_id) == ("score", "ab" * 16)
    assert said.body == {"name": "advantage", "value": 0.5, "terms": {"a": 1}, "reason": "why"}
    assert decode_coordinates(events(traced)[0].coordinates) == Coordinates()


def test_a_score_by_coordinates_has_no_id(traced: Recording) -> None:
    rolltrace.score((3, "uuid", 1, True), "fate", "trained")
    assert traced.events[0].trajectory_id == ""
    assert decode_coordinates(events(traced)[0].coordinates) == Coordinates(3, "uuid", 1, True)


def test_a_score_by_handle_has_both_also_after_it_was_left(traced: Recording) -> None:
    with rolltrace.rollout_trace_attr(7, step=3, rollout_n=1) as trajectory:
        pass
    rolltrace.score(trajectory, "format", 1)
    assert traced.events[0].trajectory_id == trajectory.id
    assert decode_coordinates(events(traced)[0].coordinates) == Coordinates(3, 7, 1)


def test_while_tracing_is_off_nothing_is_even_looked_at() -> None:
    rolltrace.score("no target", "", object())


def test_the_handle_of_an_untraced_trajectory_gets_none(traced: Recording) -> None:
    with rolltrace.rollout_trace_attr(7, trace=False) as trajectory:
        rolltrace.score(trajectory, "reward", 1.0)
        rolltrace.score("ab" * 16, "reward", 1.0)  # it is about another one
    assert [said.trajectory_id for said in traced.events] == ["ab" * 16]


@pytest.mark.parametrize(
    "arguments",
    [
        (None, "reward", 1.0),
        ("abc", "reward", 1.0),
        ((1, 2), "reward", 1.0),
        ((1, 2, 3), "", 1.0),
        ((1, 2, 3), "r", []),
    ],
)
def test_a_call_that_makes_no_sense_warns_at_its_line_and_is_counted(lenient: None, arguments: tuple[Any, ...]) -> None:
    sink = MemorySink()
    with (
        recording(sink=sink) as traced,
        pytest.warns(UserWarning, match=r"not recorded; counted: rolltrace stats") as warned,
    ):
        rolltrace.score(*arguments)
    assert {each.filename for each in warned} == {__file__}
    assert _guard.internal_errors == {}
    assert sink.losses == {"refused_score": {"": 1}}
    assert traced.events == []


@pytest.mark.parametrize("value", ["0.9", [1], {"reward": 1}])
def test_a_reward_that_is_no_number_warns_at_its_line_and_is_counted_by_step(lenient: None, value: Any) -> None:
    sink = MemorySink()
    with recording(sink=sink) as traced, rolltrace.rollout_trace_attr(1, step=7) as trajectory:
        with pytest.warns(UserWarning, match="the score 'reward' must be a number") as warned:
            trajectory.reward(value)
        trajectory.reward(0.5)
    assert [each.filename for each in warned] == [__file__]
    assert sink.losses == {"refused_score": {"7": 1}}
    assert [event.body["value"] for event in traced.events] == [0.5]


def test_with_strict_it_raises(traced: Recording) -> None:
    with pytest.raises(ConfigError, match="a score is about a trajectory id"):
        rolltrace.score("abc", "reward", 1.0)
    with pytest.raises(ConfigError, match="must be a number or None"), rolltrace.rollout_trace_attr(1) as handle:
        handle.reward([1.0])  # type: ignore[arg-type]


def test_of_two_scores_the_second_is_later_even_if_the_clock_goes_back() -> None:
    clock = FakeClock(step_ns=0)
    with recording(clock=clock) as traced, rolltrace.rollout_trace_attr(1) as trajectory:
        trajectory.reward(1.0)
        trajectory.reward(2.0)
        clock.advance(-3600)
        rolltrace.score(trajectory, "reward", 3.0)
    times = [event.time_ns for event in events(traced)]
    assert times == sorted(set(times))
    assert len(times) == 3
