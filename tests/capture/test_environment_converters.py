"""trace_env with functions that say what to record: asked before the environment changes anything."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from rolltrace import _guard, rollout_trace_attr, trace_env
from rolltrace.errors import ConfigError
from rolltrace.testing import Recording, recording

from .environments import steps


class TokenEnv:
    """Shows tokens, and changes the messages they were made of in place."""

    def __init__(self, overflows: bool = False) -> None:
        self.messages = [{"role": "user", "content": "2 + 2?"}]
        self.overflows = overflows
        self.terms: dict[str, float] = {}

    def reset(self) -> Any:
        return ([1, 2, 3], {"episode_done": True, "stop_reason": "overflow"}) if self.overflows else ([1, 2, 3], {})

    def step(self, action: list[int]) -> Any:
        self.messages.append({"role": "assistant", "content": "4"})
        self.messages[0]["content"] = "overwritten"
        self.terms = {"correct": 1.0}
        if action == [0]:
            raise ValueError("no such token")
        return [4, 5], 1.0, True, False, {"seen": 1}


def text(env: TokenEnv, action: list[int]) -> dict[str, Any]:
    return {"role": "assistant", "content": f"{len(env.messages)} before {action}"}


def prompt(env: TokenEnv) -> Any:
    return env.messages


def terms(env: TokenEnv, result: Any) -> Any:
    return {**env.terms, "reward": result[1]}


def test_each_is_asked_at_its_time(traced: Recording) -> None:
    env = trace_env(
        TokenEnv(), prompt=prompt, response=text, reward_data=terms, extra=lambda env, result: {"next": result[0]}
    )
    with rollout_trace_attr():
        env.reset()
        env.step([7])
    (step,) = steps(traced)
    assert step["prompt"] == [{"role": "user", "content": "2 + 2?"}]
    assert step["policy_response"] == {"role": "assistant", "content": "1 before [7]"}
    assert step["reward_data"] == {"correct": 1.0, "reward": 1.0}
    assert step["extra"] == {"next": [4, 5]}
    assert (step["reward"], step["episode_done"]) == (1.0, True)


def test_a_step_that_raises_has_what_was_known_before(traced: Recording) -> None:
    env = trace_env(TokenEnv(), prompt=prompt, response=text, reward_data=terms, extra=terms)
    with rollout_trace_attr():
        env.reset()
        with pytest.raises(ValueError, match="no such token"):
            env.step([0])
    (step,) = steps(traced)
    assert step["prompt"] == [{"role": "user", "content": "2 + 2?"}]
    assert step["policy_response"] == {"role": "assistant", "content": "1 before [0]"}
    assert "reward_data" not in step


@pytest.mark.parametrize("name", ["prompt", "response", "reward_data", "extra"])
def test_one_that_fails_costs_its_field_only(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("ROLLTRACE_STRICT", raising=False)

    def fails(*_: Any) -> Any:
        raise KeyError("gone")

    with recording() as traced, rollout_trace_attr():
        functions: Any = {name: fails}
        env = trace_env(TokenEnv(), **functions)
        env.reset()
        assert env.step([7])[1] == 1.0
    (step,) = steps(traced)
    assert (step["prompt"], step["policy_response"], step["reward"]) == ([1, 2, 3], [7], 1.0)
    assert _guard.internal_errors == {f"trace_env {name}: KeyError": 1}


def test_one_that_gives_nothing_leaves_what_the_environment_says(traced: Recording) -> None:
    env = trace_env(TokenEnv(), prompt=lambda env: None, response=lambda env, action: None)
    with rollout_trace_attr():
        env.reset()
        env.step([7])
    (step,) = steps(traced)
    assert (step["prompt"], step["policy_response"]) == ([1, 2, 3], [7])


def test_copies_and_further_wrapping_keep_them(traced: Recording) -> None:
    env = trace_env(trace_env(TokenEnv(), prompt=prompt), response=text)
    for each in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        with rollout_trace_attr():
            each.reset()
            each.step([7])
    assert [step["policy_response"]["content"] for step in steps(traced)] == ["1 before [7]"] * 2
    assert all(step["prompt"] == [{"role": "user", "content": "2 + 2?"}] for step in steps(traced))


def test_off_they_are_not_called() -> None:
    def called(*_: Any) -> Any:
        raise AssertionError("called while tracing is off")

    env = trace_env(TokenEnv(), state=called, prompt=called, response=called, reward_data=called, extra=called)
    env.reset()
    assert env.step([7])[1] == 1.0


@pytest.mark.parametrize("name", ["prompt", "response", "reward_data", "extra"])
def test_what_is_no_function_is_refused(name: str) -> None:
    given: Any = {name: "messages"}
    with pytest.raises(ConfigError, match=rf"{name} must be a function such as `lambda env.*not 'messages'"):
        trace_env(TokenEnv(), **given)
