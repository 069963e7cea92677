"""A model that was asked and said nothing."""

from __future__ import annotations

from typing import Any

import pytest

import rolltrace

from .conftest import Find, generate, names, tool


@pytest.mark.parametrize(
    ("output", "detail"),
    [
        ({"token_ids": [], "finish_reason": "stop"}, {"finish_reason": "stop"}),
        ({"token_ids": [], "text": ""}, {}),
        ("", {}),
        (" \n", {}),
        ({"text": ""}, {}),
        ({"role": "assistant", "content": ""}, {}),
        ({"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}]},
         {"finish_reason": "stop"}),
        ({"content": [{"type": "text", "text": ""}]}, {}),
        ({"content": []}, {}),
        ({"role": "assistant", "content": None}, {}),
    ],
)  # fmt: skip
def test_no_tokens_or_no_text_is_flagged(find: Find, output: Any, detail: dict[str, str]) -> None:
    (found,) = find(lambda: generate([1], output=output))
    assert (found["flag"], found["detail"]) == ("empty_response", detail)


@pytest.mark.parametrize(
    "output",
    [
        {"token_ids": [5]},
        {"token_ids": [5], "text": ""},  # a token that is no text, such as the end of the turn
        "hello",
        {"content": None, "tool_calls": [{"name": "search"}]},
        {"content": "", "tool_calls": [{"name": "search"}]},
        {"content": "", "reasoning_content": "Let me think."},
        {"content": [{"type": "tool_use", "name": "search"}]},
        {"token_ids": [], "stop_reason": "aborted"},
        {"choices": [{"text": ""}, {"text": "b"}]},
    ],
)
def test_anything_said_is_fine(find: Find, output: Any) -> None:
    assert find(lambda: generate([1], output=output)) == []


def test_a_call_that_failed_is_not_empty(find: Find) -> None:
    @rolltrace.rollout_trace_op(kind="llm")
    def failing(prompt_ids: list[int]) -> str:
        raise TimeoutError

    def rollout() -> None:
        with pytest.raises(TimeoutError):
            failing([1])

    assert find(rollout) == []


def test_a_tool_may_say_nothing(find: Find) -> None:
    assert find(lambda: tool("")) == []


def test_an_agent_loop_without_a_kind_is_looked_at_by_its_tokens(find: Find) -> None:
    @rolltrace.rollout_trace_op
    def run() -> dict[str, list[int]]:
        return {"prompt_ids": [1], "response_ids": []}

    assert names(find(run)) == ["empty_response"]
