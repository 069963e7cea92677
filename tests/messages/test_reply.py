"""What a model answered, read from what engines, SDKs and frameworks really give back."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from rolltrace.messages import Message, ToolCall, read_replies, read_tool_result
from tests.messages.test_message_list import seen
from tests.replies import (
    CALL,
    SGLANG,
    TGI,
    CompletionOutput,
    RequestOutput,
    anthropic,
    chat,
    completion,
    langchain,
    response,
    vllm,
)

ADD = ToolCall("add", '{"a": 1}', "c1")
YES = Message("assistant", "yes")
CALLING = Message("assistant", "yes", calls=[ADD])
THINKING = Message("assistant", "yes", "hm", [ADD])
GEMINI = {"candidates": [{"content": {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "yes"}]}}]}


@pytest.mark.parametrize(
    ("returned", "reply"),
    [
        ("yes", YES),
        (["yes"], YES),
        (vllm(), YES),
        ([vllm()], YES),
        (SGLANG, YES),
        (TGI, YES),
        ([TGI], YES),
        (chat(), YES),
        (chat().choices[0], YES),
        (chat().choices[0].message, YES),
        (chat(None, tool_calls=[CALL]), Message("assistant", calls=[ADD])),
        (chat("", reasoning_content="hm", tool_calls=[CALL]), Message("assistant", "", "hm", [ADD])),
        (completion(), YES),
        (response(), THINKING),
        (response().output, THINKING),
        (anthropic(), THINKING),
        (GEMINI, Message("assistant", "yes", "hm")),
        (langchain(), CALLING),
        ({"messages": [langchain()]}, CALLING),
        ({"messages": [HumanMessage("sure?"), langchain()]}, CALLING),
        (AIMessage(content=[{"type": "text", "text": "y"}, {"type": "text", "text": "es"}]), YES),
        ({"content": None, "tool_calls": [CALL]}, Message("assistant", calls=[ADD])),
        ({"content": [{"type": "text", "text": "yes"}]}, YES),
        ({"text": "yes", "token_ids": [1]}, YES),
        ({"choices": [{"text": "yes"}]}, YES),
        ("<think>hm</think>yes", Message("assistant", "yes", "hm")),
    ],
)
def test_a_reply_is_one_message_whatever_it_came_in(returned: Any, reply: Message) -> None:
    assert read_replies(seen(returned)) == [reply]


def test_blocks_alone_say_nothing_about_who_speaks() -> None:
    assert read_replies(seen(anthropic().content)) == []


def test_several_answers_are_several_replies() -> None:
    output = RequestOutput("sure?", [1], [CompletionOutput(0, "yes", [5]), CompletionOutput(1, "no", [6])])
    assert [reply.text for reply in read_replies(seen(output))] == ["yes", "no"]
    assert [reply.text for reply in read_replies(seen([vllm("a"), vllm("b")]))] == ["a", "b"]
    assert [reply.text for reply in read_replies(seen([SGLANG, SGLANG]))] == ["yes", "yes"]


@pytest.mark.parametrize(
    "returned",
    [None, 3, [], {}, {"embedding": [0.5]}, {"token_ids": [1]}, {"choices": []}, object(), ["a", {"x": 1}],
     [{"type": "content.done", "content": "x"}, {"type": "other"}]],
)  # fmt: skip
def test_what_cannot_be_read_is_no_reply(returned: Any) -> None:
    assert read_replies(seen(returned)) == []


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("found", "found"),
        ({"hits": 2}, '{"hits": 2}'),
        (3, "3"),
        (None, ""),
        (({"text": "found", "image": None}, 0.5, {"calls": 1}), "found"),
        (("found", 1.0, False, {}), "found"),
        ([{"title": "a"}, {"title": "b"}], '[{"title": "a"}, {"title": "b"}]'),
        ({"content": [{"type": "text", "text": "found"}], "isError": False}, "found"),
        ({"output": "found"}, "found"),
        ({"output": "found", "exit_code": 1}, '{"output": "found", "exit_code": 1}'),
        (ToolMessage("found", tool_call_id="c1"), "found"),
        ([1, 2], "[1, 2]"),
    ],
)
def test_a_result_is_the_text_that_a_model_would_be_shown(returned: Any, text: str) -> None:
    message = read_tool_result("search", seen(returned))
    assert (message.role, message.author, message.tool_name, message.text) == ("tool", "tool", "search", text)


def test_a_tool_that_raised_says_why() -> None:
    message = read_tool_result("search", None, "ValueError: no")
    assert (message.text, message.is_error) == ("ValueError: no", True)
