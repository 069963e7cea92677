"""trace_env: a transition on every path, with what the policy saw, and results that are otherwise unchanged."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from rolltrace import _guard, rollout_trace_attr, trace_env
from rolltrace.errors import ConfigError
from rolltrace.testing import Recording, recording

from .environments import FIRST, REPLY, AwaitableEnv, ContextOverflow, FutureEnv, PlainEnv, TinkerEnv, steps

FORMS = [TinkerEnv, AwaitableEnv, FutureEnv, PlainEnv]


async def begin(env: Any) -> Any:
    result = (env.reset if hasattr(env, "reset") else env.initial_observation)()
    return await result if inspect.isawaitable(result) else result


async def act(env: Any, action: Any) -> Any:
    result = env.step(action)
    return await result if inspect.isawaitable(result) else result


@pytest.mark.parametrize("form", FORMS)
async def test_the_prompt_of_a_step_is_what_the_policy_saw(traced: Recording, form: Any) -> None:
    env = trace_env(form("normal"))
    with rollout_trace_attr():
        await begin(env)
        await act(env, dict(REPLY))
        await act(env, dict(REPLY))
    first, second = steps(traced)
    assert (first["prompt"], first["policy_response"], first["reward"], first["episode_done"]) == (
        FIRST,
        REPLY,
        1.0,
        False,
    )
    assert [message["content"] for message in second["prompt"]] == ["overwritten", "overwritten too", "go on"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", ["parse_error", "context_overflow"])
async def test_a_step_that_ends_with_a_stop_reason_keeps_its_prompt(traced: Recording, form: Any, path: str) -> None:
    env = trace_env(form(path))
    with rollout_trace_attr():
        await begin(env)
        await act(env, dict(REPLY))
    (step,) = steps(traced)
    assert (step["prompt"], step["policy_response"]) == (FIRST, REPLY)
    assert (step["reward"], step["episode_done"], step["stop_reason"]) == (-1.0, True, path)


@pytest.mark.parametrize("form", FORMS)
async def test_an_exception_is_recorded_with_the_prompt_and_passed_on(traced: Recording, form: Any) -> None:
    env = trace_env(form("broken"))
    with rollout_trace_attr():
        await begin(env)
        with pytest.raises(ValueError, match="the environment broke"):
            await act(env, dict(REPLY))
    (step,) = steps(traced)
    assert (step["prompt"], step["policy_response"], step["stop_reason"]) == (FIRST, REPLY, "ValueError")
    assert (step["error"]["type"], step["error"]["message"]) == ("ValueError", "the environment broke")
    assert "episode_done" not in step


@pytest.mark.parametrize("form", FORMS)
async def test_a_context_overflow_that_is_raised_says_so(traced: Recording, form: Any) -> None:
    env = trace_env(form("context overflow raised"))
    with rollout_trace_attr():
        await begin(env)
        with pytest.raises(ContextOverflow):
            await act(env, dict(REPLY))
    (step,) = steps(traced)
    assert (step["prompt"], step["stop_reason"]) == (FIRST, "context_overflow")


@pytest.mark.parametrize("form", [TinkerEnv, PlainEnv])
async def test_an_overflow_at_the_first_observation_is_a_transition(traced: Recording, form: Any) -> None:
    inner = form("first overflow")
    env = trace_env(inner)
    with rollout_trace_attr():
        await begin(env)
        inner.messages.clear()
    (step,) = steps(traced)
    assert (step["prompt"], step["stop_reason"], step["episode_done"]) == (FIRST, "max_tokens", True)
    assert "policy_response" not in step


async def test_an_overflow_in_the_place_of_the_first_observation_is_a_transition(traced: Recording) -> None:
    env = trace_env(TinkerEnv("first overflow without observation"))
    with rollout_trace_attr():
        assert await env.initial_observation() is env.result
    (step,) = steps(traced)
    assert step == {
        "reward": -0.1,
        "episode_done": True,
        "stop_reason": "max_tokens",
        "metrics": {"stop/max_tokens": 1.0},
        "logs": {"tokens": 9},
    }


async def test_a_first_observation_that_fails_is_a_transition(traced: Recording) -> None:
    class Env(TinkerEnv):
        async def initial_observation(self) -> Any:
            raise ContextOverflow("prompt of 40000 tokens")

    with rollout_trace_attr(), pytest.raises(ContextOverflow):
        await trace_env(Env()).initial_observation()
    (step,) = steps(traced)
    assert (step["stop_reason"], step["error"]["message"]) == ("context_overflow", "prompt of 40000 tokens")


@pytest.mark.parametrize("form", [TinkerEnv, AwaitableEnv, FutureEnv])
async def test_a_cancelled_step_keeps_its_prompt_and_stays_cancelled(traced: Recording, form: Any) -> None:
    env = trace_env(form("cancelled"))

    async def rollout() -> None:
        with rollout_trace_attr():
            await begin(env)
            await act(env, dict(REPLY))

    task = asyncio.create_task(rollout())
    while env.messages:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (step,) = steps(traced)
    assert (step["prompt"], step["policy_response"], step["stop_reason"]) == (FIRST, REPLY, "cancelled")


def test_an_interrupt_keeps_the_prompt_and_is_passed_on(traced: Recording) -> None:
    env = trace_env(PlainEnv("interrupt"))
    with rollout_trace_attr():
        env.reset()
        with pytest.raises(KeyboardInterrupt):
            env.step(dict(REPLY))
    (step,) = steps(traced)
    assert (step["prompt"], step["policy_response"], step["stop_reason"]) == (FIRST, REPLY, "KeyboardInterrupt")


def test_after_a_failed_step_the_policy_still_sees_the_same(traced: Recording) -> None:
    env = trace_env(PlainEnv("broken"))
    with rollout_trace_attr():
        env.reset()
        with pytest.raises(ValueError, match="broke"):
            env.step(dict(REPLY))
        env.path = "normal"
        env.messages.append({"role": "user", "content": "x"})
        env.step(dict(REPLY))
    assert [step["prompt"] for step in steps(traced)] == [FIRST, FIRST]


@pytest.mark.parametrize("form", FORMS)
async def test_results_are_the_very_objects_of_the_environment(traced: Recording, form: Any) -> None:
    env = trace_env(form("normal"))
    with rollout_trace_attr():
        assert await begin(env) is env.result
        assert await act(env, dict(REPLY)) is env.result


async def test_a_future_stays_that_future(traced: Recording) -> None:
    class Env(FutureEnv):
        def step(self, action: Any) -> Any:
            self.made = super().step(action)
            return self.made

    env = trace_env(Env("normal"))
    with rollout_trace_attr():
        await env.initial_observation()
        future = env.step(dict(REPLY))
        assert future is env.made
        await asyncio.wait([future])
    assert [step["prompt"] for step in steps(traced)] == [FIRST]


async def test_a_future_that_is_done_already_is_recorded_at_once(traced: Recording) -> None:
    class Env:
        def reset(self) -> Any:
            return self._done("seen")

        def step(self, action: str) -> Any:
            return self._done((f"after {action}", 1.0, False, False, {}))

        def _done(self, value: Any) -> Any:
            future = asyncio.get_running_loop().create_future()
            future.set_result(value)
            return future

    env = trace_env(Env())
    with rollout_trace_attr():
        env.reset()
        env.step("a")
        env.step("b")
    assert [(step["prompt"], step["policy_response"]) for step in steps(traced)] == [("seen", "a"), ("after a", "b")]


async def test_a_normal_first_observation_is_no_transition_and_its_info_comes_with_the_step(traced: Recording) -> None:
    env = trace_env(PlainEnv("normal"))
    with rollout_trace_attr():
        env.reset(seed=3)
        assert steps(traced) == []
        env.step(dict(REPLY))
        env.step(dict(REPLY))
    first, second = steps(traced)
    assert first["extra"] == {"reset": {"logs": {"seeded": 3}}, "reset_arguments": {"seed": 3}}
    assert "extra" not in second


async def test_stop_condition_and_further_arguments_are_kept(traced: Recording) -> None:
    env = trace_env(TinkerEnv("normal"))
    with rollout_trace_attr():
        await env.initial_observation()
        await env.step(dict(REPLY), extra={"stop_reason": "length"})
    (step,) = steps(traced)
    assert step["extra"] == {"stop_condition": ["<stop>"], "arguments": {"extra": {"stop_reason": "length"}}}


async def test_an_action_given_by_name_is_the_response(traced: Recording) -> None:
    env = trace_env(TinkerEnv("normal"))
    with rollout_trace_attr():
        await env.step(action=dict(REPLY))
    assert steps(traced)[0]["policy_response"] == REPLY


def test_the_state_is_that_before_the_step(traced: Recording) -> None:
    env = trace_env(PlainEnv("normal"), state=lambda env: {"messages": env.messages})
    with rollout_trace_attr():
        env.reset()
        env.step(dict(REPLY))
    assert steps(traced)[0]["env_state"] == {"messages": FIRST}


def test_a_state_that_cannot_be_had_costs_only_itself(lenient: None, traced: Recording) -> None:
    env = trace_env(PlainEnv("normal"), state=lambda env: env.no_such_thing)
    with rollout_trace_attr():
        env.reset()
        assert env.step(dict(REPLY))[1] == 1.0
    assert steps(traced)[0]["prompt"] == FIRST
    assert _guard.internal_errors == {"trace_env state: AttributeError": 1}


def test_a_fault_of_ours_never_reaches_the_rollout(lenient: None, traced: Recording) -> None:
    def fail(*_: Any) -> Any:
        raise OSError

    env = trace_env(PlainEnv("normal"))
    with rollout_trace_attr():
        traced.recorder.snapshot = fail  # type: ignore[method-assign]
        assert env.reset()[0] is env.messages
        assert env.step(dict(REPLY))[1] == 1.0
    assert _guard.internal_errors["trace_env: OSError"] == 2


def test_while_off_calls_are_only_passed_on() -> None:
    called: list[Any] = []
    env = trace_env(PlainEnv("normal"), state=called.append)
    env.reset()
    env.step(dict(REPLY))
    with recording() as traced, rollout_trace_attr(trace=False):
        env.reset()
        env.step(dict(REPLY))
    assert (called, traced.records) == ([], [])


async def test_it_is_traced_when_tracing_is_turned_on_later() -> None:
    env = trace_env(TinkerEnv("normal"))
    step = env.step
    await env.initial_observation()
    with recording() as traced, rollout_trace_attr():
        await step(dict(REPLY))
    assert steps(traced)[0]["reward"] == 1.0


@pytest.mark.parametrize(
    ("env", "problem"),
    [(object(), "which object has not"), (PlainEnv, r"write trace_env\(PlainEnv\(\.\.\.\)\)"), (None, "NoneType")],
)
def test_what_is_no_environment_is_refused(env: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        trace_env(env)


def test_a_state_that_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"state must be a function such as .*'board'"):
        trace_env(PlainEnv(), state="board")  # type: ignore[arg-type]
