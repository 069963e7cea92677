"""When two messages are the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rolltrace.messages import Message, ToolCall, fingerprint, read_messages, read_replies
from tests.messages.test_message_list import seen
from tests.replies import CALL, anthropic, chat, langchain, response


def digest(message: Any) -> int:
    (said,) = read_messages([message]) or []
    return fingerprint(said)


BASE = {"role": "assistant", "content": "yes", "tool_calls": [CALL]}
SPACED = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{ "a":1 }'}}
AS_DICT = {"function": {"name": "add", "arguments": {"a": 1}}}


@pytest.mark.parametrize(
    "again",
    [
        {**BASE, "refusal": None, "audio": None, "annotations": []},
        {**BASE, "content": [{"type": "text", "text": "yes"}]},
        {**BASE, "content": "yes\n"},
        {**BASE, "tool_calls": [SPACED]},
        {**BASE, "tool_calls": [AS_DICT]},
        {**BASE, "tool_calls": [{**CALL, "id": "another"}]},
        {**BASE, "reasoning_content": "hm"},
        {
            "role": "assistant",
            "content": '<think>hm</think>yes<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>',
        },
    ],
)
def test_a_reply_is_known_again_in_the_next_prompt(again: dict[str, Any]) -> None:
    assert digest(again) == digest(BASE)


@pytest.mark.parametrize(
    "other",
    [
        {**BASE, "content": "no"},
        {**BASE, "role": "user"},
        {**BASE, "tool_calls": []},
        {**BASE, "tool_calls": [{"function": {"name": "add", "arguments": {"a": 2}}}]},
        {**BASE, "content": [{"type": "text", "text": "yes"}, {"type": "image_url", "image_url": {"url": "u"}}]},
    ],
)
def test_what_says_something_else_is_another_message(other: dict[str, Any]) -> None:
    assert digest(other) != digest(BASE)


def test_nothing_and_empty_text_are_the_same() -> None:
    calls = {"role": "assistant", "tool_calls": [CALL]}
    assert len({digest({**calls, "content": content}) for content in (None, "", [])} | {digest(calls)}) == 1


def test_a_result_is_the_same_in_any_spelling_of_its_json() -> None:
    one, other = ({"role": "tool", "content": text} for text in ('{"b": 1, "a": [2]}', '{"a":[2],"b":1}'))
    assert digest(one) == digest(other)


@pytest.mark.parametrize("returned", [chat("yes", tool_calls=[CALL]), response(), anthropic(), langchain()])
def test_a_reply_of_any_sdk_is_known_again_in_the_form_of_any_other(returned: Any) -> None:
    (reply,) = read_replies(seen(returned))
    assert fingerprint(reply) == digest(BASE)
    assert digest(reply.to_chat()) == digest(BASE)


def test_text_that_no_file_can_hold_has_a_fingerprint() -> None:
    half = "half \ud83d"
    call = {"function": {"name": half, "arguments": {half: [half]}}}
    for message in ({"role": half, "content": half}, {**BASE, "content": [half, {"type": half}], "tool_calls": [call]}):
        assert digest(message) == digest(message)


def test_a_message_can_be_sent_and_read_back() -> None:
    said = Message("assistant", "yes", "hm", [ToolCall("add", "{}", "c")], images=["0" * 32], parts=[{"type": "x"}])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(said), type=Message) == said
