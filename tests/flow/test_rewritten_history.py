"""Harnesses that rewrite the history of their prompts: what the model produced is there all the same, in its order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.query import Trajectory, messages_of_trajectory

Chat = dict[str, Any]
TURNS = 8
SUMMARY = {"role": "user", "content": "So far you looked for the zebra three times."}


@rolltrace.rollout_trace_op(kind="llm")
def generate(messages: list[Chat], reply: Chat) -> Chat:
    return reply


@rolltrace.rollout_trace_op(kind="tool")
def search(query: int) -> str:
    return f"found {query}: " + "zebra " * 30


def strip_reasoning(history: list[Chat], turn: int) -> list[Chat]:
    return [{name: value for name, value in each.items() if name != "reasoning_content"} for each in history]


def compact(history: list[Chat], turn: int) -> list[Chat]:
    """From the fifth turn on: the task, and what came after the third."""
    return history if turn < 4 else [*history[:2], *history[8:]]


def elide_results(history: list[Chat], turn: int) -> list[Chat]:
    """All results but the last one are a note that there was one."""
    tools = [at for at, each in enumerate(history) if each["role"] == "tool"]
    return [{**each, "content": "[elided]"} if at in tools[:-1] else each for at, each in enumerate(history)]


def summarise(history: list[Chat], turn: int) -> list[Chat]:
    """From the fifth turn on: a summary in the place of the first three turns."""
    return history if turn < 4 else [*history[:2], SUMMARY, *history[8:]]


class Harness(NamedTuple):
    view: Callable[[list[Chat], int], list[Chat]]
    rewritten_at: list[int]
    """The turns at which that is marked."""
    mark: str


HARNESSES = [
    Harness(strip_reasoning, [1], "history rewritten here: reasoning of 1 left out"),
    Harness(compact, [4], "history rewritten here: 6 messages dropped, 0 changed"),
    Harness(elide_results, list(range(2, TURNS)), "history rewritten here: 0 messages dropped, 1 changed"),
    Harness(summarise, [4], "history rewritten here: 6 messages dropped, 0 changed, 1 added"),
]


class Played(NamedTuple):
    trajectory: Trajectory
    produced: list[Chat]
    """What model and tools said, after the task."""
    prompts: list[list[Chat]]


def play(store: Path, harness: Harness) -> Played:
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off")
    task = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Find the zebra."}]
    produced: list[Chat] = []
    prompts = []
    with rolltrace.rollout_trace_attr(1, step=1) as handle:
        for turn in range(TURNS):
            call = {
                "id": f"c{turn}",
                "type": "function",
                "function": {"name": "search", "arguments": f'{{"query":{turn}}}'},
            }
            reply = {
                "role": "assistant",
                "content": f"say {turn}",
                "reasoning_content": f"think {turn}",
                "tool_calls": [call],
            }
            prompts.append(harness.view([*task, *produced], turn))
            generate(prompts[-1], reply)
            result = {"role": "tool", "content": search(turn), "name": "search", "tool_call_id": f"c{turn}"}
            produced += [reply, result]
    rolltrace.shutdown()
    return Played(rolltrace.open(store).trajectory(handle.id), [*task, *produced], prompts)


@pytest.fixture(params=HARNESSES, ids=lambda harness: harness.view.__name__)
def harness(request: pytest.FixtureRequest) -> Harness:
    chosen: Harness = request.param
    return chosen


def test_everything_that_was_produced_is_in_the_conversation_in_its_order(tmp_path: Path, harness: Harness) -> None:
    played = play(tmp_path, harness)
    conversation = played.trajectory.conversation
    assert [each for each in conversation if each != SUMMARY] == played.produced
    assert conversation.count(SUMMARY) == (harness.view is summarise)


def test_each_call_can_be_seen_as_it_was_given(tmp_path: Path, harness: Harness) -> None:
    played = play(tmp_path, harness)
    for turn, prompt in enumerate(played.prompts):
        assert played.trajectory.seen_by(turn) == prompt


def test_a_rewritten_history_is_marked_where_that_happened(tmp_path: Path, harness: Harness) -> None:
    shown = messages_of_trajectory(play(tmp_path, harness).trajectory)
    marks = [each for each in shown if each.rewrite is not None]
    assert [each.turn for each in marks] == harness.rewritten_at
    assert {each.parts[0].text for each in marks} == {harness.mark}
    replies = [each for each in shown if each.role == "assistant"]
    assert [[part.text for part in each.parts] for each in replies] == [
        [f"think {turn}", f"say {turn}"] for turn in range(TURNS)
    ]
    assert all(
        call.result[0].text.startswith(f"found {turn}") for turn, each in enumerate(replies) for call in each.calls
    )


def test_the_command_line_marks_a_rewrite_and_shows_what_a_call_saw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trajectory_id = play(tmp_path, HARNESSES[1]).trajectory.trajectory_id
    assert main(["show", trajectory_id, str(tmp_path), "--conversation"]) == 0
    produced = capsys.readouterr().out
    assert f"-- {HARNESSES[1].mark} --" in produced
    assert all(f"say {turn}" in produced for turn in range(TURNS))
    assert main(["show", trajectory_id, str(tmp_path), "--conversation", "--seen-by", "5"]) == 0
    seen = capsys.readouterr().out
    assert "say 4" in seen
    assert "say 0" not in seen
    assert main(["show", trajectory_id, str(tmp_path), "--seen-by", "99"]) != 0
    assert "no model call 99" in capsys.readouterr().err
