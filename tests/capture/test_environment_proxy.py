"""trace_env: what is traced is the same environment to whoever uses it."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from rolltrace import rollout_trace_attr, trace_env
from rolltrace.testing import Recording

from .environments import FIRST, REPLY, PlainEnv, TinkerEnv, steps


def test_attributes_are_the_environments() -> None:
    inner = PlainEnv()
    env = trace_env(inner)
    env.path = "parse_error"
    env.fresh = 1  # type: ignore[attr-defined]
    assert (inner.path, inner.fresh, env.messages) == ("parse_error", 1, inner.messages)  # type: ignore[attr-defined]
    del env.fresh  # type: ignore[attr-defined]
    assert not hasattr(inner, "fresh")
    assert not hasattr(env, "initial_observation")
    assert vars(env) is vars(inner)
    assert dir(env) == dir(inner)
    assert repr(inner) in repr(env)


def test_it_is_an_instance_of_the_environments_class() -> None:
    env = trace_env(PlainEnv())
    assert isinstance(env, PlainEnv)
    assert env.__class__ is PlainEnv
    assert not isinstance(env, TinkerEnv)


def test_its_methods_look_like_the_environments() -> None:
    plain, tinker = trace_env(PlainEnv()), trace_env(TinkerEnv())
    assert inspect.signature(tinker.step) == inspect.signature(TinkerEnv().step)
    assert inspect.iscoroutinefunction(tinker.step)
    assert not inspect.iscoroutinefunction(plain.step)
    assert plain.step.__name__ == "step"


def test_a_replaced_method_is_used_and_traced(traced: Recording) -> None:
    env = trace_env(PlainEnv())
    env.step(dict(REPLY))
    env.step = lambda action: ("seen", 7.0, True, False, {})  # type: ignore[method-assign]
    with rollout_trace_attr():
        assert env.step("x") == ("seen", 7.0, True, False, {})
    assert steps(traced)[-1]["reward"] == 7.0


def test_wrapping_twice_records_once(traced: Recording) -> None:
    env = trace_env(trace_env(PlainEnv()), state=lambda env: env.path)
    with rollout_trace_attr():
        env.step(dict(REPLY))
    assert [step["env_state"] for step in steps(traced)] == ["normal"]


async def test_with_and_async_with_give_the_traced_one(traced: Recording) -> None:
    class Managed(PlainEnv):
        entered = 0

        def __enter__(self) -> Managed:
            self.entered += 1
            return self

        def __exit__(self, *_: Any) -> None:
            self.entered += 10

        async def __aenter__(self) -> Managed:
            return self.__enter__()

        async def __aexit__(self, *_: Any) -> None:
            self.__exit__()

    inner = Managed()
    with rollout_trace_attr():
        with trace_env(inner) as env:
            env.step(dict(REPLY))
        async with trace_env(inner) as env:
            env.step(dict(REPLY))
    assert (inner.entered, len(steps(traced))) == (22, 2)


def test_it_can_be_used_with_with_only_if_the_environment_can() -> None:
    env = trace_env(PlainEnv())
    assert not hasattr(env, "__enter__")
    assert not callable(env)


@pytest.mark.parametrize("copied", [lambda env: pickle.loads(pickle.dumps(env)), copy.copy, copy.deepcopy])
def test_a_copy_is_traced_too_and_saw_the_same(traced: Recording, copied: Any) -> None:
    env = trace_env(PlainEnv())
    with rollout_trace_attr():
        env.reset()
        twin = copied(env)
        twin.step(dict(REPLY))
    assert isinstance(twin, PlainEnv)
    assert steps(traced)[0]["prompt"] == FIRST


def test_an_environment_that_cannot_be_pickled_still_cannot() -> None:
    inner = PlainEnv()
    inner.lock = (value for value in ())  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="generator"):
        pickle.dumps(trace_env(inner))
