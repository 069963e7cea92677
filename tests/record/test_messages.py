"""Messages of every form as messages with roles, without what is about the call."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)

from rolltrace.record import Snapshotter, decode_value
from rolltrace.record.messages import read_messages
from tests.replies import ANTHROPIC, CALL, RESPONSE, chat, langchain

SYSTEM, USER = {"role": "system", "content": "be kind"}, {"role": "user", "content": "1+2?"}
CALLING = {"role": "assistant", "content": "yes", "tool_calls": [CALL]}
THINKING = {**CALLING, "reasoning_content": "hm"}
RESULT = {"role": "tool", "content": "3", "tool_call_id": "c1"}
LANGCHAIN = [SystemMessage("be kind"), HumanMessage("1+2?"), langchain(), ToolMessage("3", tool_call_id="c1")]


def read(messages: Any) -> Any:
    return read_messages(decode_value(Snapshotter().take(messages)))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (LANGCHAIN, [SYSTEM, USER, CALLING, RESULT]),
        (messages_to_dict(LANGCHAIN), [SYSTEM, USER, CALLING, RESULT]),
        ([("system", "be kind"), ("human", "1+2?")], [SYSTEM, USER]),
        ([USER, chat("yes", tool_calls=[CALL]).choices[0].message, RESULT], [USER, CALLING, RESULT]),
        (
            [
                {"role": "user", "content": [{"type": "text", "text": "1+2?"}]},
                {"role": "assistant", "content": ANTHROPIC["content"]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "3"}]},
                    {"type": "text", "text": "1+2?"},
                ]},
            ],
            [USER, THINKING, RESULT, USER],
        ),
        (
            [
                {"role": "user", "content": [{"type": "input_text", "text": "1+2?"}]},
                *RESPONSE["output"],
                {"type": "function_call_output", "call_id": "c1", "output": "3"},
            ],
            [USER, THINKING, RESULT],
        ),
    ],
)  # fmt: skip
def test_messages_have_roles_and_nothing_about_the_call(messages: Any, expected: Any) -> None:
    assert read(messages) == expected


def test_parts_that_are_no_text_stay_where_they_are() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://host/cat.png"}}
    message = {"role": "user", "content": [{"type": "input_text", "text": "what?"}, image]}
    assert read([message]) == [{"role": "user", "content": [{"type": "text", "text": "what?"}, image]}]


def test_what_somebody_added_to_a_message_stays() -> None:
    assert read([{**USER, "weight": 0, "name": "ann", "refusal": None, "audio": None, "usage": {"a": 1}}]) == [
        {**USER, "weight": 0, "name": "ann"}
    ]


@pytest.mark.parametrize("message", [{"role": "user", "text": "1+2?"}, {"role": "user", "parts": [{"text": "1+2?"}]}])
def test_what_was_said_under_another_name_is_content(message: dict[str, Any]) -> None:
    assert read([message]) == [USER]


def test_reasoning_that_a_server_keeps_to_itself_is_no_message() -> None:
    assert read([USER, {"type": "reasoning", "id": "a", "summary": []}]) == [USER]


def test_two_answers_after_each_other_stay_two() -> None:
    calling = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert read([calling, {"role": "assistant", "content": "yes"}]) == [
        calling,
        {"role": "assistant", "content": "yes"},
    ]


@pytest.mark.parametrize(
    "values",
    [None, [], "text", [1], ["a", "b"], [{"content": "no role"}], [{"type": "function", "function": {}}], [[]]],
)
def test_what_is_no_list_of_messages(values: Any) -> None:
    assert read(values) is None
