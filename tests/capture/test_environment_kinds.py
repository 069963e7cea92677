"""trace_env: the usual kinds of environments, each as it is used."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import numpy as np

from rolltrace import RolloutTrace, rollout_trace_attr, trace_env
from rolltrace.capture import backfill
from rolltrace.testing import Recording

from .environments import MessageEnv, PlayerEnv, PreferenceEnv, ProblemEnv, PromptOnlyEnv, RubricEnv, Table, steps


async def test_problem(traced: Recording) -> None:
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


async def test_prompt_only_distillation(traced: Recording) -> None:
    env = trace_env(PromptOnlyEnv([1, 2, 3]))
    with rollout_trace_attr():
        await env.initial_observation()
        await env.step([4, 5])
    (step,) = steps(traced)
    assert (step["prompt"], step["policy_response"], step["episode_done"]) == ([1, 2, 3], [4, 5], True)


def test_rubric(traced: Recording) -> None:
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


async def test_preference(traced: Recording) -> None:
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


async def test_message(traced: Recording) -> None:
    env = trace_env(MessageEnv(2))
    with rollout_trace_attr():
        await env.initial_observation()
        await env.step({"role": "assistant", "content": "one"})
        await env.step({"role": "assistant", "content": "two"})
    contents = [[message["content"] for message in step["prompt"]] for step in steps(traced)]
    assert contents == [["start"], ["start", "one", "again"]]
    assert [step["episode_done"] for step in steps(traced)] == [False, True]


async def test_multiplayer(traced: Recording) -> None:
    table, handles = Table(), {}

    async def play(name: str) -> None:
        env = trace_env(PlayerEnv(table, name))
        with rollout_trace_attr() as handles[name]:
            await env.initial_observation()
            for move in range(2):
                await env.step(f"move {move}")

    await asyncio.gather(play("a"), play("b"))
    seen = {name: [event.body for event in traced.events if event.trajectory_id == handles[name].id] for name in "ab"}
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
