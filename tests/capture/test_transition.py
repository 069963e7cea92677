"""RolloutTrace and transitions: what was there when it was said, and numbers that stay numbers."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import rolltrace
from rolltrace import RolloutTrace, _guard, rollout_trace_attr
from rolltrace.testing import Recording, recording


class Unreadable:
    """Whoever looks inside fails."""

    def __iter__(self) -> Any:
        raise AssertionError("looked at")

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"looked at {name}")


def said(traced: Recording) -> list[Any]:
    return [event.body for event in traced.events if event.event == "transition"]


def test_a_trace_is_kept_as_it_was_when_it_was_made(traced: Recording) -> None:
    messages = [{"role": "user", "content": "Wo?"}]
    with rollout_trace_attr() as trajectory:
        trace = RolloutTrace(prompt=messages, extra={"turn": 1})
        messages[0]["content"] = "changed"
        messages.append({"role": "assistant", "content": "late"})
        trajectory.transition(trace, reward=1.0)
    assert said(traced) == [
        {"trace": {"prompt": [{"role": "user", "content": "Wo?"}], "extra": {"turn": 1}}, "reward": 1.0}
    ]
    assert trace.prompt == [{"role": "user", "content": "Wo?"}]
    assert (trace.policy_response, trace.reward_data, trace.env_state, trace.extra) == (None, None, None, {"turn": 1})


def test_the_bytes_of_a_trace_are_in_the_event_as_they_are(traced: Recording) -> None:
    encoded = []
    take = traced.recorder.snapshot
    traced.recorder.snapshot = lambda value: encoded.append(value) or take(value)  # type: ignore[method-assign, func-returns-value]
    with rollout_trace_attr() as trajectory:
        trajectory.transition(RolloutTrace("p", "r"), reward=0.5)
    assert [value for value in encoded if value] == ["p", "r", 0.5]


def test_every_field_can_be_given(traced: Recording) -> None:
    with rollout_trace_attr() as trajectory:
        trajectory.transition(
            RolloutTrace("p", "r", {"format": 0.5}, ["board"], {"seed": 3}),
            reward=0.25,
            episode_done=True,
            metrics={"turns": 2},
            logs={"judge": "fine"},
            stop_reason="length",
            turn=4,
        )
    assert said(traced) == [
        {
            "trace": {
                "prompt": "p",
                "policy_response": "r",
                "reward_data": {"format": 0.5},
                "env_state": ["board"],
                "extra": {"seed": 3},
            },
            "reward": 0.25,
            "episode_done": True,
            "metrics": {"turns": 2},
            "logs": {"judge": "fine"},
            "stop_reason": "length",
            "turn": 4,
        }
    ]


def test_an_unknown_field_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="question"):
        RolloutTrace(question="p")  # type: ignore[call-arg]


def test_a_field_cannot_be_changed_afterwards(traced: Recording) -> None:
    with pytest.raises(AttributeError):
        RolloutTrace(prompt="p").prompt = "q"


def test_the_trace_may_be_named(traced: Recording) -> None:
    with rollout_trace_attr() as trajectory:
        trajectory.transition(trace={"prompt": "p"})
    assert said(traced) == [{"trace": {"prompt": "p"}}]


def test_while_off_a_trace_looks_at_nothing() -> None:
    values = [Unreadable() for _ in range(5)]
    trace = RolloutTrace(*values)
    with rollout_trace_attr() as trajectory:
        trajectory.transition(trace)
    assert trace.prompt is values[0]


def test_inside_trace_false_a_trace_looks_at_nothing(traced: Recording) -> None:
    called: list[int] = []
    with rollout_trace_attr(trace=False) as trajectory:
        trajectory.transition(RolloutTrace(Unreadable()))
        trajectory.transition(lambda: called.append(1))
    assert (called, traced.records) == ([], [])


def test_a_trace_of_before_init_is_kept_as_it_is_when_it_is_recorded() -> None:
    messages = ["first"]
    trace = RolloutTrace(prompt=messages)
    with recording() as traced, rollout_trace_attr() as trajectory:
        messages.append("second")
        trajectory.transition(trace)
        messages.append("third")
    assert said(traced)[0]["trace"] == {"prompt": ["first", "second"]}
    assert trace.prompt == ["first", "second"]


def test_a_trace_can_be_pickled(traced: Recording) -> None:
    trace = pickle.loads(pickle.dumps(RolloutTrace(prompt=[1, 2], extra="x")))
    assert (trace.prompt, trace.extra, trace.env_state) == ([1, 2], "x", None)


@pytest.mark.parametrize(
    ("reward", "recorded"),
    [
        (1, 1),
        (0.1, 0.1),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.array(0.25), 0.25),
        (np.array([2.0]), 2.0),
        (Decimal("0.75"), 0.75),
        (Fraction(1, 4), 0.25),
        (math.inf, math.inf),
        (True, True),
    ],
)
def test_a_reward_is_a_number_whatever_library_it_comes_from(traced: Recording, reward: Any, recorded: Any) -> None:
    with rollout_trace_attr() as trajectory:
        trajectory.transition({"reward_data": {"term": reward}}, reward=reward, episode_done=np.bool_(True))
    (body,) = said(traced)
    assert (body["reward"], type(body["reward"])) == (recorded, type(recorded))
    assert body["episode_done"] is True


def test_nan_stays_a_number(traced: Recording) -> None:
    with rollout_trace_attr() as trajectory:
        trajectory.transition({"reward_data": {"judge": math.nan}}, reward=np.float64("nan"))
    (body,) = said(traced)
    assert math.isnan(body["reward"])
    assert math.isnan(body["trace"]["reward_data"]["judge"])


def test_a_step_whose_trace_cannot_be_made_keeps_its_numbers(lenient: None, traced: Recording) -> None:
    def fail() -> RolloutTrace:
        raise KeyError("no such field")

    with rollout_trace_attr() as trajectory:
        trajectory.transition(fail, reward=0.5)
    assert said(traced) == [{"trace": None, "reward": 0.5}]
    assert _guard.internal_errors == {"transition: KeyError": 1}


def test_limits_cut_the_values_and_never_the_step(traced: Recording) -> None:
    with recording(max_items=1) as limited, rollout_trace_attr() as trajectory:
        trajectory.transition(RolloutTrace("p", "r", {"a": 1}), reward=1.0, episode_done=False, stop_reason="x")
    assert said(limited)[0] == {
        "trace": {"prompt": "p", "policy_response": "r", "reward_data": {"a": 1}},
        "reward": 1.0,
        "episode_done": False,
        "stop_reason": "x",
    }


def test_a_callable_is_called_when_tracing_is_on(traced: Recording) -> None:
    with rolltrace.rollout_trace_attr() as trajectory:
        trajectory.transition(lambda: RolloutTrace(prompt="made"))
    assert said(traced) == [{"trace": {"prompt": "made"}}]
