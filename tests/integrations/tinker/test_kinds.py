"""Every kind of environment and every way in which an episode ends: what is recorded is what was returned."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tinker_cookbook.renderers.base import ToolCall, UnparsedToolCall
from tinker_cookbook.rl.rollouts import do_single_rollout

import rolltrace
from rolltrace.query import Trajectory, open_store

from .compared import differences, plain
from .kinds import KINDS
from .stand_ins import RENDERER


class Played(NamedTuple):
    native: Any
    """The `Trajectory` that was returned; None if the rollout failed."""
    recorded: Trajectory


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    folder = tmp_path_factory.mktemp("store")
    natives = asyncio.run(_play_all(folder))
    with open_store(folder) as store:
        by_number = {row["sample_index"]: row["trajectory_id"] for row in store.trajectories(limit=None)}
        assert len(by_number) == len(KINDS)
        return {
            kind: Played(native, store.trajectory(by_number[number]))
            for number, (kind, native) in enumerate(natives.items())
        }


async def _play_all(folder: Path) -> dict[str, Any]:
    natives = {}
    rolltrace.init("tinker", "kinds", store=folder, drain="off", quiet=True)
    for number, (kind, each) in enumerate(KINDS.items()):
        env = each.env()
        env.example_id = number  # what is recorded as the sample of a rollout that is in no group
        try:
            natives[kind] = await do_single_rollout(each.policy(), env)
        except ConnectionError:
            natives[kind] = None
    rolltrace.shutdown()
    return natives


@pytest.mark.parametrize("kind", [name for name, each in KINDS.items() if not each.fails])
def test_each_transition_is_the_one_that_was_returned(kind: str, played: dict[str, Played]) -> None:
    native, recorded = played[kind]
    assert differences(recorded, native) == []
    assert recorded.status == "ok"


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_policy_saw_and_said_is_kept_as_it_was_then(kind: str, played: dict[str, Played]) -> None:
    native, recorded = played[kind]
    traces = [step["trace"] for step in recorded.transitions]
    assert [len(trace["prompt"]) for trace in traces] == KINDS[kind].prompts
    for trace, theirs in zip(traces, native.transitions if native else ()):
        if theirs.ob.length:
            assert RENDERER.build_generation_prompt(_as_given(trace["prompt"])).to_ints() == theirs.ob.to_ints()
        if theirs.ac.tokens:
            assert trace["policy_response"] == plain(RENDERER.parse_response(theirs.ac.tokens)[0])


def _as_given(messages: list[dict[str, Any]]) -> list[Any]:
    """Messages from a store as renderers take them: calls of tools are objects there."""
    kinds: dict[str, Any] = {"tool_calls": ToolCall, "unparsed_tool_calls": UnparsedToolCall}
    return [
        {
            name: [kinds[name].model_validate(call) for call in value] if name in kinds else value
            for name, value in message.items()
        }
        for message in messages
    ]


def test_an_exception_of_the_environment_is_recorded_with_the_step_that_it_ended(played: dict[str, Played]) -> None:
    recorded = played["the environment raises"].recorded
    last = recorded.transitions[-1]
    assert recorded.status == "error"
    assert (last["stop_reason"], last["fields"]["error"]["message"]) == ("ConnectionError", "the sandbox is gone")
    assert last["trace"]["policy_response"]["content"] == "hi"


def test_a_policy_that_fails_leaves_what_it_was_asked(played: dict[str, Played]) -> None:
    recorded = played["the policy raises"].recorded
    assert [op.status for op in recorded.walk() if op.kind == "llm"] == ["ok", "error"]
    assert recorded.transitions[-1]["trace"]["prompt"][-1] == {"role": "user", "content": "again"}
    assert "policy_response" not in recorded.transitions[-1]["trace"]


def test_the_parts_of_a_reward_are_raw_numbers(played: dict[str, Played]) -> None:
    assert _trace(played, "problem")["reward_data"] == {"correct": 1.0, "format": 1.0, "format_coef": 0.1}
    assert _trace(played, "problem, no end mark")["reward_data"] == {"correct": 0.0, "format": 0.0, "format_coef": 0.1}
    assert _trace(played, "rubric")["reward_data"] == {
        "rubric_scores": [0.5, 0.5],
        "rubric_score": 0.5,
        "format": 1.0,
        "format_coef": 0.1,
    }
    assert _trace(played, "message, parse error")["reward_data"] == {"failed_parse_reward": -1.0}
    assert _trace(played, "message, overflow")["reward_data"] == {"context_overflow_reward": -0.1}
    at_first = _trace(played, "message, overflow at the first observation")
    assert at_first["reward_data"] == {"context_overflow_reward": -0.1}


def test_the_state_of_an_environment_is_that_before_the_step(played: dict[str, Played]) -> None:
    assert _trace(played, "problem")["env_state"] == {"question": "2+2?", "reference_answer": "4"}
    turns = [step["trace"]["env_state"]["turn"] for step in played["guess number"].recorded.transitions]
    assert turns == [0, 1, 2, 3]
    assert _trace(played, "agent with a tool", 0)["env_state"] == {"turn": 0, "tool_calls_made": 0, "max_turns": 4}
    assert _trace(played, "agent with a tool", 1)["env_state"] == {"turn": 1, "tool_calls_made": 1, "max_turns": 4}


def test_grades_come_with_their_criterion_and_what_the_grader_said(played: dict[str, Played]) -> None:
    reply = "good: <score>0.5</score>"
    assert _trace(played, "rubric")["extra"]["grades"] == [
        {"criterion": "polite", "score": 0.5, "reply": reply},
        {"criterion": "short", "score": 0.5, "reply": reply},
    ]


def test_what_came_after_a_response_is_kept(played: dict[str, Played]) -> None:
    assert [step["trace"]["extra"]["answerer"] for step in played["twenty questions"].recorded.transitions] == [
        "yes",
        "yes",
    ]
    (result,) = _trace(played, "agent with a tool", 0)["extra"]["next_messages"]
    assert (result["role"], result["content"], result["name"]) == ("tool", "5", "add")
    assert _trace(played, "guess number", 0)["extra"]["next_messages"] == [{"role": "user", "content": "Too low"}]
    assert _trace(played, "message, overflow")["extra"]["next_messages"] == [{"role": "user", "content": "x" * 80}]


def test_other_models_and_tools_are_ops_of_their_own_kind(played: dict[str, Played]) -> None:
    rubric, agent = played["rubric"].recorded, played["agent with a tool"].recorded
    assert [(op.name, op.kind) for op in rubric.walk()] == [
        ("policy", "llm"),
        ("grader_llm", "aux_llm"),
        ("grader_llm", "aux_llm"),
    ]
    assert [(op.name, op.kind) for op in agent.walk()] == [("policy", "llm"), ("add", "tool"), ("policy", "llm")]
    assert [op.name for op in played["twenty questions"].recorded.walk()] == ["policy", "answerer"] * 2
    assert (rubric.turns, agent.turns) == (1, 2)


def test_a_mask_says_which_tokens_are_trained_on_where_that_is_known_in_time(played: dict[str, Played]) -> None:
    tokens = [op.tokens for op in played["problem"].recorded.walk()]
    assert [each and each.response_mask for each in tokens] == [[1, 1]]
    masked, kept = played["agent, bad tool call put right"].recorded.transitions
    assert masked["fields"]["metrics"]["parse_error_masked"] == 1.0
    assert "parse_error_masked" not in kept["fields"]["metrics"]
    tokens = [op.tokens for op in played["agent, bad tool call put right"].recorded.walk()]
    assert [each and each.response_mask for each in tokens] == [None, None]


def test_a_word_of_the_runner_replaces_what_the_environment_said_and_that_is_kept(played: dict[str, Played]) -> None:
    first, last = played["runner: too many turns"].recorded.transitions
    assert (last["episode_done"], last["stop_reason"]) == (True, "max_turns")
    assert last["earlier"][0]["episode_done"] is False
    assert first["earlier"] == []


def _trace(played: dict[str, Played], kind: str, at: int = -1) -> dict[str, Any]:
    trace: dict[str, Any] = played[kind].recorded.transitions[at]["trace"]
    return trace
