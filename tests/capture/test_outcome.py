"""What environments say, in the shapes that they have for it."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rolltrace.capture.outcome import of_first, of_step

from .environments import FirstOverflow, StepResult


def test_five_are_gymnasiums() -> None:
    outcome = of_step(("seen", 0.5, True, False, {"lives": 3}))
    assert (outcome.observation, outcome.rest) == ("seen", None)
    assert outcome.fields == {
        "reward": 0.5,
        "terminated": True,
        "truncated": False,
        "episode_done": True,
        "logs": {"lives": 3},
    }
    assert outcome.over


def test_truncated_is_a_reason_to_stop() -> None:
    outcome = of_step(("seen", 0.5, False, True, {}))
    assert (outcome.fields["episode_done"], outcome.fields["stop_reason"]) == (True, "truncated")


def test_four_are_those_of_gym() -> None:
    outcome = of_step(("seen", 1, False, {}))
    assert (outcome.observation, outcome.fields, outcome.over) == ("seen", {"reward": 1, "episode_done": False}, False)


def test_what_an_info_knows_is_found() -> None:
    info = {"stop_reason": "parse_error", "metrics": {"a": 1.0}, "reward_terms": {"format": 0.0}, "text": "x"}
    outcome = of_step(("seen", 0.0, True, info))
    assert outcome.reward_data == {"format": 0.0}
    assert outcome.fields["stop_reason"] == "parse_error"
    assert outcome.fields["metrics"] == {"a": 1.0}
    assert outcome.fields["logs"] == {"text": "x"}
    assert "stop_reason" in info  # theirs is left alone


def test_a_step_result_of_tinker() -> None:
    outcome = of_step(StepResult(0.5, False, [1, 2], ["<stop>"], {"a": 1.0}, {"b": "x"}))
    assert (outcome.observation, outcome.beside, outcome.rest) == ([1, 2], {"stop_condition": ["<stop>"]}, None)
    assert outcome.fields == {"reward": 0.5, "episode_done": False, "metrics": {"a": 1.0}, "logs": {"b": "x"}}


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({"stop/max_turns": 1.0}, "max_turns"),
        ({"stop/max_turns": 0.0}, None),
        ({"context_overflow": 1.0}, "context_overflow"),
        ({"turns": 3.0}, None),
        ({"stop/x": np.array([1.0, 2.0])}, None),
    ],
)
def test_a_reason_to_stop_may_stand_in_the_metrics(metrics: dict[str, Any], reason: str | None) -> None:
    assert of_step(StepResult(0.0, True, [], metrics=metrics)).fields.get("stop_reason") == reason


def test_an_error_that_does_not_end_the_episode_is_no_reason() -> None:
    assert "stop_reason" not in of_step(StepResult(0.0, False, [], metrics={"parse_error": 1.0})).fields


def test_a_reward_for_each_term_is_reward_data() -> None:
    outcome = of_step({"reward": {"format": 1.0, "answer": 0.5}, "done": True})
    assert (outcome.reward_data, outcome.fields) == ({"format": 1.0, "answer": 0.5}, {"episode_done": True})


@dataclass
class Computed:
    observation: str
    score: float

    @property
    def reward(self) -> float:
        return 2 * self.score

    @property
    def metrics(self) -> dict[str, float]:
        raise RuntimeError("not yet")


@pytest.mark.parametrize(
    "result",
    [
        {"observation": "seen", "reward": 1.0, "score": 0.5},
        SimpleNamespace(observation="seen", reward=1.0, score=0.5, _private=1),
        namedtuple("Named", "observation reward score")("seen", 1.0, 0.5),
        Computed("seen", 0.5),
    ],
    ids=["dict", "object", "named tuple", "property"],
)
def test_dicts_and_objects_are_read_by_name(result: Any) -> None:
    outcome = of_step(result)
    assert (outcome.observation, outcome.fields, outcome.rest) == ("seen", {"reward": 1.0}, {"score": 0.5})


@pytest.mark.parametrize("result", ["text", 7, None, [1, 2], ("a", "b", "c"), object(), np.zeros(3), {"unknown": 1}])
def test_anything_else_is_kept_whole(result: Any) -> None:
    outcome = of_step(result)
    assert outcome.rest is result
    assert (outcome.observation, outcome.fields) == (None, {})


def test_numbers_of_many_environments_at_once_are_neither_true_nor_false() -> None:
    done = np.array([True, False])
    outcome = of_step((np.zeros((2, 4)), np.zeros(2), done, done, {}))
    assert not outcome.over
    assert "episode_done" not in outcome.fields


@pytest.mark.parametrize(
    "observation", ["text", [{"role": "user"}], {"observation": 1, "goal": 2}, (1, 2, 3), ("a", "b")]
)
def test_a_reset_that_gives_only_an_observation(observation: Any) -> None:
    outcome = of_first(observation, has_info=True)
    assert outcome.observation is observation
    assert not outcome.over


def test_a_reset_with_an_info() -> None:
    outcome = of_first(("seen", {"seed": 3}), has_info=True)
    assert (outcome.observation, outcome.beside["reset"], outcome.over) == ("seen", {"logs": {"seed": 3}}, False)


def test_a_first_observation_with_a_stop_condition() -> None:
    outcome = of_first(("seen", ["<stop>"]), has_info=False)
    assert (outcome.observation, outcome.beside, outcome.over) == ("seen", {"stop_condition": ["<stop>"]}, False)


def test_a_reset_that_gives_a_result_is_not_over() -> None:
    outcome = of_first(SimpleNamespace(observation="seen", reward=None, done=False), has_info=True)
    assert (outcome.observation, outcome.over) == ("seen", False)


@pytest.mark.parametrize(
    "result",
    [
        FirstOverflow(-0.1, {"stop/max_tokens": 1.0}, {}),
        {"reward": -0.1, "stop_reason": "max_tokens"},
        ("seen", {"stop_reason": "max_tokens"}),
    ],
)
def test_an_overflow_at_the_first_observation_is_the_end(result: Any) -> None:
    outcome = of_first(result, has_info=True)
    assert outcome.over
    assert (outcome.fields["stop_reason"], outcome.fields["episode_done"]) == ("max_tokens", True)
