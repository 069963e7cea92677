"""trace_env: a transition on every path, with what the policy saw, and an environment that is otherwise unchanged."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import math
import pickle
from typing import Any

import numpy as np
import pytest

from rolltrace import RolloutTrace, _guard, backfill, rollout_trace_attr, rollout_trace_op, trace_env
from rolltrace.capture import scope
from rolltrace.errors import ConfigError
from rolltrace.testing import Recording, recording

from .environments import (
    AwaitableEnv,
    ContextOverflow,
    FutureEnv,
    MessageEnv,
    PlainEnv,
    PlayerEnv,
    PreferenceEnv,
    ProblemEnv,
    PromptOnlyEnv,
    RubricEnv,
    Table,
    TinkerEnv,
)

FIRST = [{"role": "user", "content": "first"}]
REPLY = {"role": "assistant", "content": "reply"}
FORMS = [TinkerEnv, AwaitableEnv, FutureEnv, PlainEnv]


def steps(traced: Recording) -> list[dict[str, Any]]:
    """What was recorded, trace and other fields together."""
    bodies = [event.body for event in traced.events if event.event == "transition"]
    return [{**body.pop("trace"), **body} for body in bodies]


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
    assert _guard.faults == {"trace_env state: AttributeError": 1}


def test_a_fault_of_ours_never_reaches_the_rollout(lenient: None, traced: Recording) -> None:
    def fail(*_: Any) -> Any:
        raise OSError

    env = trace_env(PlainEnv("normal"))
    with rollout_trace_attr():
        traced.recorder.snapshot = fail  # type: ignore[method-assign]
        assert env.reset()[0] is env.messages
        assert env.step(dict(REPLY))[1] == 1.0
    assert _guard.faults["trace_env: OSError"] == 2


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


class TestWhichTrajectory:
    def test_a_step_belongs_to_the_trajectory_and_op_around_it(self, traced: Recording) -> None:
        env = trace_env(PlainEnv("normal"))

        @rollout_trace_op
        def turn() -> None:
            env.step(dict(REPLY))

        with rollout_trace_attr() as trajectory:
            env.reset()
            turn()
        (event,) = traced.events
        assert (event.trajectory_id, event.op_id) == (trajectory.id, traced.op.op_id)

    def test_outside_of_any_an_episode_has_one_of_its_own(self, traced: Recording) -> None:
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

    def test_an_episode_of_its_own_ends_with_the_exception(self, traced: Recording) -> None:
        env = trace_env(PlainEnv("broken"))
        env.reset()
        with pytest.raises(ValueError, match="broke"):
            env.step(dict(REPLY))
        assert [trajectory.status for trajectory in traced.trajectories] == ["error"]

    def test_an_episode_of_its_own_ends_when_the_environment_is_forgotten(self, traced: Recording) -> None:
        env = trace_env(PlainEnv("normal"))
        env.reset()
        env.step(dict(REPLY))
        assert traced.trajectories == []
        del env
        gc.collect()
        assert [trajectory.status for trajectory in traced.trajectories] == ["ok"]

    def test_after_a_shutdown_the_end_of_an_episode_goes_nowhere(self) -> None:
        env = trace_env(PlainEnv("normal"))
        with recording() as first:
            env.reset()
            env.step(dict(REPLY))
        with recording() as second:
            env.step(dict(REPLY))
        assert first.trajectories == []
        assert len(steps(second)) == 1


class TestTheSameEnvironment:
    def test_attributes_are_the_environments(self) -> None:
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

    def test_it_is_an_instance_of_the_environments_class(self) -> None:
        env = trace_env(PlainEnv())
        assert isinstance(env, PlainEnv)
        assert env.__class__ is PlainEnv
        assert not isinstance(env, TinkerEnv)

    def test_its_methods_look_like_the_environments(self) -> None:
        plain, tinker = trace_env(PlainEnv()), trace_env(TinkerEnv())
        assert inspect.signature(tinker.step) == inspect.signature(TinkerEnv().step)
        assert inspect.iscoroutinefunction(tinker.step)
        assert not inspect.iscoroutinefunction(plain.step)
        assert plain.step.__name__ == "step"

    def test_a_replaced_method_is_used_and_traced(self, traced: Recording) -> None:
        env = trace_env(PlainEnv())
        env.step(dict(REPLY))
        env.step = lambda action: ("seen", 7.0, True, False, {})  # type: ignore[method-assign]
        with rollout_trace_attr():
            assert env.step("x") == ("seen", 7.0, True, False, {})
        assert steps(traced)[-1]["reward"] == 7.0

    def test_wrapping_twice_records_once(self, traced: Recording) -> None:
        env = trace_env(trace_env(PlainEnv()), state=lambda env: env.path)
        with rollout_trace_attr():
            env.step(dict(REPLY))
        assert [step["env_state"] for step in steps(traced)] == ["normal"]

    async def test_with_and_async_with_give_the_traced_one(self, traced: Recording) -> None:
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

    def test_it_can_be_used_with_with_only_if_the_environment_can(self) -> None:
        env = trace_env(PlainEnv())
        assert not hasattr(env, "__enter__")
        assert not callable(env)

    @pytest.mark.parametrize("copied", [lambda env: pickle.loads(pickle.dumps(env)), copy.copy, copy.deepcopy])
    def test_a_copy_is_traced_too_and_saw_the_same(self, traced: Recording, copied: Any) -> None:
        env = trace_env(PlainEnv())
        with rollout_trace_attr():
            env.reset()
            twin = copied(env)
            twin.step(dict(REPLY))
        assert isinstance(twin, PlainEnv)
        assert steps(traced)[0]["prompt"] == FIRST

    def test_an_environment_that_cannot_be_pickled_still_cannot(self) -> None:
        inner = PlainEnv()
        inner.lock = (value for value in ())  # type: ignore[attr-defined]
        with pytest.raises(TypeError, match="generator"):
            pickle.dumps(trace_env(inner))


@pytest.mark.parametrize(
    ("env", "problem"),
    [(object(), "which object has not"), (PlainEnv, r"write trace_env\(PlainEnv\(\.\.\.\)\)"), (None, "NoneType")],
)
def test_what_is_no_environment_is_refused(env: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        trace_env(env)


def test_a_state_that_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"state must be a function of the environment.*'board'"):
        trace_env(PlainEnv(), state="board")  # type: ignore[arg-type]


class TestKindsOfEnvironments:
    async def test_problem(self, traced: Recording) -> None:
        env = trace_env(ProblemEnv("2+2?", "4"))
        with rollout_trace_attr():
            await env.initial_observation()
            await env.step("The answer is 4.")
        (step,) = steps(traced)
        assert step["prompt"] == [{"role": "user", "content": "2+2?"}]
        assert (step["reward"], step["metrics"], step["logs"]) == (
            1.0,
            {"format": 1.0, "correct": 1.0},
            {"reference": "4"},
        )

    async def test_prompt_only_distillation(self, traced: Recording) -> None:
        env = trace_env(PromptOnlyEnv([1, 2, 3]))
        with rollout_trace_attr():
            await env.initial_observation()
            await env.step([4, 5])
        (step,) = steps(traced)
        assert (step["prompt"], step["policy_response"], step["episode_done"]) == ([1, 2, 3], [4, 5], True)

    def test_rubric(self, traced: Recording) -> None:
        env = trace_env(RubricEnv({"please": 0.25, "thanks": 0.5}))
        with rollout_trace_attr():
            env.reset()
            env.step("please, and thanks")
        (step,) = steps(traced)
        assert (step["prompt"], step["reward"], step["reward_data"]) == (
            "Be polite.",
            0.75,
            {"please": 0.25, "thanks": 0.5},
        )
        assert step["extra"] == {"result": {"grader": "g1"}}

    async def test_preference(self, traced: Recording) -> None:
        handles = []
        for answer in ([4], [5, 6]):
            env = trace_env(PreferenceEnv([1]))
            with rollout_trace_attr() as handle:
                await env.initial_observation()
                await env.step(answer)
            handles.append(handle)
        backfill(handles, {handle.id: RolloutTrace(reward_data={"wins": n}) for n, handle in enumerate(handles)})
        recorded = [(event.trajectory_id, event.body["trace"]) for event in traced.events]
        assert [(name, trace.get("policy_response"), trace.get("reward_data")) for name, trace in recorded] == [
            (handles[0].id, [4], None),
            (handles[1].id, [5, 6], None),
            (handles[0].id, None, {"wins": 0}),
            (handles[1].id, None, {"wins": 1}),
        ]

    async def test_message(self, traced: Recording) -> None:
        env = trace_env(MessageEnv(2))
        with rollout_trace_attr():
            await env.initial_observation()
            await env.step({"role": "assistant", "content": "one"})
            await env.step({"role": "assistant", "content": "two"})
        contents = [[message["content"] for message in step["prompt"]] for step in steps(traced)]
        assert contents == [["start"], ["start", "one", "again"]]
        assert [step["episode_done"] for step in steps(traced)] == [False, True]

    async def test_multiplayer(self, traced: Recording) -> None:
        table, handles = Table(), {}

        async def play(name: str) -> None:
            env = trace_env(PlayerEnv(table, name))
            with rollout_trace_attr() as handles[name]:
                await env.initial_observation()
                for move in range(2):
                    await env.step(f"move {move}")

        await asyncio.gather(play("a"), play("b"))
        seen = {
            name: [event.body for event in traced.events if event.trajectory_id == handles[name].id] for name in "ab"
        }
        assert [body["trace"]["policy_response"] for body in seen["a"]] == ["move 0", "move 1"]
        assert [body["trace"]["prompt"] for body in seen["b"]] == [
            ["a: move 0"],
            ["a: move 0", "b: move 0", "a: move 1"],
        ]
        assert [body["reward"] for body in seen["b"]] == [0.0, 0.0]


def test_numbers_of_a_gymnasium_environment_stay_numbers(traced: Recording) -> None:
    class CartPole:
        """As gymnasium's: arrays as observations, NumPy's own numbers and booleans."""

        def reset(self, seed: int | None = None) -> Any:
            self.state = np.zeros(4, dtype=np.float32)
            return self.state, {}

        def step(self, action: Any) -> Any:
            self.state += 1  # in place
            return self.state, np.float64("nan"), np.bool_(False), np.bool_(True), {"TimeLimit.truncated": True}

    env = trace_env(CartPole())
    with rollout_trace_attr():
        env.reset()
        env.step(np.int64(1))
    (step,) = steps(traced)
    assert step["prompt"].tolist() == [0.0] * 4
    assert math.isnan(step["reward"])
    assert (step["policy_response"], step["episode_done"], step["stop_reason"]) == (1, True, "truncated")
    assert (step["terminated"], step["truncated"], step["logs"]) == (False, True, {"TimeLimit.truncated": True})
