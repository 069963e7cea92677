"""trace_env: which trajectory a step belongs to, and when one of its own ends."""

from __future__ import annotations

import gc

import pytest

from rolltrace import rollout_trace_attr, rollout_trace_op, trace_env
from rolltrace.capture import scope
from rolltrace.testing import Recording, recording

from .environments import REPLY, PlainEnv, steps


def test_a_step_belongs_to_the_trajectory_and_op_around_it(traced: Recording) -> None:
    env = trace_env(PlainEnv("normal"))

    @rollout_trace_op
    def turn() -> None:
        env.step(dict(REPLY))

    with rollout_trace_attr() as trajectory:
        env.reset()
        turn()
    (event,) = traced.events
    assert (event.trajectory_id, event.op_id) == (trajectory.id, traced.op.op_id)


def test_outside_of_any_an_episode_has_one_of_its_own(traced: Recording) -> None:
    env = trace_env(PlainEnv("normal"))
    for _ in range(2):
        env.reset()
        env.step(dict(REPLY))
        env.path = "parse_error"
        env.step(dict(REPLY))
        env.path = "normal"
    assert scope.current.get() is None
    first, second = traced.trajectories
    assert [event.trajectory_id for event in traced.events] == [first.id, first.id, second.id, second.id]
    assert (first.name, first.status, first.coordinates.step) == ("PlainEnv", "ok", None)


def test_an_episode_of_its_own_ends_with_the_exception(traced: Recording) -> None:
    env = trace_env(PlainEnv("broken"))
    env.reset()
    with pytest.raises(ValueError, match="broke"):
        env.step(dict(REPLY))
    assert [trajectory.status for trajectory in traced.trajectories] == ["error"]


def test_an_episode_of_its_own_ends_when_the_environment_is_forgotten(traced: Recording) -> None:
    env = trace_env(PlainEnv("normal"))
    env.reset()
    env.step(dict(REPLY))
    assert traced.trajectories == []
    del env
    gc.collect()
    assert [trajectory.status for trajectory in traced.trajectories] == ["ok"]


def test_after_a_shutdown_the_end_of_an_episode_goes_nowhere() -> None:
    env = trace_env(PlainEnv("normal"))
    with recording() as first:
        env.reset()
        env.step(dict(REPLY))
    with recording() as second:
        env.step(dict(REPLY))
    assert first.trajectories == []
    assert len(steps(second)) == 1
