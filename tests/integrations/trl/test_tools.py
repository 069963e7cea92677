"""Tools and environments: what ran, what it raised, what TRL answered itself, and what it threw away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rolltrace.query import Op, Trajectory

from .told import Ran

RanOf = Callable[[str], Ran]


def tools_of(trajectory: Trajectory) -> list[Op]:
    return [op for op in trajectory.walk() if op.kind == "tool"]


@pytest.fixture
def rows(ran: RanOf) -> list[Trajectory]:
    """The eight rollouts of the first step, as they stood in their batch."""
    return sorted(ran("tools").of_step(1), key=lambda each: each.start_ns)


def test_tool_calls_and_failures_are_as_many_as_trl_counts(ran: RanOf) -> None:
    run = ran("tools")
    for step in (1, 2, 3):
        rollouts = run.of_step(step)
        calls = [op for each in rollouts for op in tools_of(each)]
        failed = [op for op in calls if op.status == "error"]
        assert len(calls) / len(rollouts) == pytest.approx(run.metrics(step, "tools/call_frequency"))
        assert len(failed) / len(calls) == pytest.approx(run.metrics(step, "tools/failure_frequency"))


def test_a_tool_that_returns_has_arguments_and_result(rows: list[Trajectory]) -> None:
    (op,) = tools_of(rows[0])
    assert (op.name, op.inputs, op.outputs, op.status) == ("add", {"a": 17, "b": 25}, 42, "ok")
    assert rows[0].turns == 2


def test_an_exception_that_trl_swallows_is_recorded_with_its_traceback(rows: list[Trajectory]) -> None:
    (op,) = tools_of(rows[2])
    assert (op.name, op.status) == ("divide", "error")
    assert op.error == "ZeroDivisionError: division by zero"
    assert "return a / b" in (op.traceback or "")
    assert rows[2].tool_errors == 1


def test_a_tool_that_does_not_exist_is_recorded_as_a_call_that_never_ran(rows: list[Trajectory]) -> None:
    (op,) = tools_of(rows[1])
    assert (op.name, op.status) == ("nope", "error")
    assert "Tool nope not found" in (op.error or "")
    assert op.inputs["tool_calls"][0]["function"]["arguments"] == {"a": 1}


def test_results_that_trl_drops_are_noted(rows: list[Trajectory]) -> None:
    (op,) = tools_of(rows[3])
    assert op.outputs == 3
    assert rows[3].tags["dropped_tool_results"] == 1
    assert rows[3].turns == 1
    note = next(each for each in rows[3].notes if each.event == "note")
    assert note.body["fields"]["results"] == [{"role": "tool", "name": "add", "content": "3"}]
    assert [each.tags.get("dropped_tool_results") for each in rows].count(None) == 7


def test_what_trl_cuts_off_after_a_tool_call_is_counted(rows: list[Trajectory]) -> None:
    last = [op for op in rows[2].walk() if op.kind == "llm"][-1]
    assert last.finish_reason == "length"
    assert last.response_tokens + last.outputs["tokens_cut_off"] == len("never " * 100) + 1
    assert sum("tokens_cut_off" in op.outputs for each in rows for op in each.walk() if op.kind == "llm") == 1


def test_coroutines_are_traced_and_several_turns_follow_each_other(rows: list[Trajectory]) -> None:
    for each in rows[4:]:
        assert sorted(op.name for op in tools_of(each)) == ["add", "look_up", "look_up"]
        assert {op.outputs for op in tools_of(each) if op.name == "look_up"} == {"x is a word", "y is a word"}
        assert each.turns == 3
        first, second, third = each.tokens
        assert second.prompt_ids[: len(first.prompt_ids)] == first.prompt_ids
        assert third.prompt_ids[: len(second.prompt_ids)] == second.prompt_ids
        roles = [message["role"] for message in each.conversation]
        assert roles == ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]


def test_environments_are_reset_inside_their_rollout(ran: RanOf) -> None:
    for each in ran("environments").all:
        reset, turn, *_ = each.ops
        assert (reset.name, reset.kind) == ("Counter.reset", "env")
        assert reset.outputs == f" (you have a counter for {reset.inputs['row']['answer']})"
        assert turn.inputs["messages"][-1]["content"].endswith(reset.outputs)
        (op,) = tools_of(each)
        assert op.outputs == op.inputs["a"] + 1


def test_reward_functions_saw_the_columns_of_the_sample(ran: RanOf) -> None:
    for each in ran("tools").training:
        op = next(op for op in each.ops if op.kind == "reward")
        assert op.inputs["answer"] == 17 + int(each.sample_index or 0)
        assert op.outputs["log_extra"]["golden"] == op.inputs["answer"]
