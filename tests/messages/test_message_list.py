"""Messages of every shape become the same type."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, messages_to_dict

from rolltrace.messages import Message, ToolCall, fingerprint, read_messages
from rolltrace.record import Snapshotter, decode_value, to_json
from tests.replies import ANTHROPIC, CALL, RESPONSE, chat, langchain

SYSTEM, USER = Message("system", "be kind"), Message("user", "1+2?")
ASKED = {"role": "user", "content": "1+2?"}
ADD = ToolCall("add", '{"a": 1}', "c1")
CALLING = Message("assistant", "yes", calls=[ADD])
THINKING = Message("assistant", "yes", "hm", [ADD])
RESULT = Message("tool", "3", tool_name="add", call_id="c1")
LANGCHAIN = [SystemMessage("be kind"), HumanMessage("1+2?"), langchain(), ToolMessage("3", tool_call_id="c1")]


def seen(value: Any) -> Any:
    """The value as it comes out of a journal."""
    return decode_value(Snapshotter().take(value))


def read(messages: Any) -> Any:
    return read_messages(seen(messages))


OPENAI = [
    ASKED,
    chat("yes", tool_calls=[CALL]).choices[0].message,
    {"role": "tool", "content": "3", "tool_call_id": "c1"},
]
ANTHROPIC_MESSAGES = [
    {"role": "user", "content": [{"type": "text", "text": "1+2?", "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": ANTHROPIC["content"]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "3"}]},
        {"type": "text", "text": "1+2?"},
    ]},
]  # fmt: skip
RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "1+2?"}]},
    *RESPONSE["output"],
    {"type": "function_call_output", "call_id": "c1", "output": "3"},
]
GEMINI = [
    {"role": "user", "parts": [{"text": "1+2?"}]},
    {"role": "model", "parts": [
        {"text": "hm", "thought": True}, {"text": "yes"},
        {"functionCall": {"name": "add", "args": {"a": 1}, "id": "c1"}},
    ]},
    {"role": "user", "parts": [{"functionResponse": {"name": "add", "id": "c1", "response": {"result": "3"}}}]},
]  # fmt: skip
GENAI = [
    {"role": "user", "parts": [{"type": "text", "content": "1+2?"}]},
    {"role": "assistant", "parts": [
        {"type": "reasoning", "content": "hm"}, {"type": "text", "content": "yes"},
        {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1}},
    ]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "3"}]},
]  # fmt: skip
TINKER = [
    ASKED,
    {"role": "assistant", "content": "yes", "thinking": "hm",
     "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": {"a": 1}}}]},
    {"role": "tool", "name": "add", "content": "3", "tool_call_id": "c1"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(OPENAI, [USER, CALLING, RESULT], id="openai"),
        pytest.param(ANTHROPIC_MESSAGES, [USER, THINKING, RESULT, USER], id="anthropic"),
        pytest.param(RESPONSES, [USER, THINKING, RESULT], id="responses"),
        pytest.param(GEMINI, [USER, THINKING, RESULT], id="gemini"),
        pytest.param(GENAI, [USER, THINKING, RESULT], id="genai conventions"),
        pytest.param(LANGCHAIN, [SYSTEM, USER, CALLING, RESULT], id="langchain"),
        pytest.param(messages_to_dict(LANGCHAIN), [SYSTEM, USER, CALLING, RESULT], id="messages_to_dict"),
        pytest.param([dumpd(each) for each in LANGCHAIN], [SYSTEM, USER, CALLING, RESULT], id="langchain dumpd"),
        pytest.param(TINKER, [USER, THINKING, RESULT], id="tinker"),
        pytest.param([("system", "be kind"), ("human", "1+2?")], [SYSTEM, USER], id="pairs"),
        pytest.param([{"from": "human", "value": "1+2?"}, {"from": "gpt", "value": "3"}],
                     [USER, Message("assistant", "3")], id="sharegpt"),
        pytest.param([{"role": "user", "text": "1+2?"}], [USER], id="text"),
    ],
)  # fmt: skip
def test_every_shape_is_read_into_the_same_messages(messages: Any, expected: list[Message]) -> None:
    said = read(messages)
    assert [fingerprint(each) for each in said] == [fingerprint(each) for each in expected]
    assert [(each.reasoning, each.call_id, each.tool_name, each.author) for each in said] == [
        (each.reasoning, each.call_id, each.tool_name, each.author) for each in expected
    ]
    assert [call.id for each in said for call in each.calls] == [call.id for each in expected for call in each.calls]


def test_json_out_of_the_store_is_read_like_values_out_of_a_journal() -> None:
    assert read_messages(to_json(seen(OPENAI))) == read(OPENAI)


def test_what_servers_add_to_a_message_is_not_content() -> None:
    noise = {"refusal": None, "audio": None, "_request_id": "r", "parsed": {"x": 1}, "annotations": [],
             "provider_specific_fields": {"y": 2}, "reasoning": "hm", "reasoning_content": "hm"}  # fmt: skip
    (said,) = read([{"role": "assistant", "content": "yes", **noise}])
    assert said == Message("assistant", "yes", "hm")


def test_parts_that_are_no_text_stay_in_their_order() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://host/cat.png"}}
    (said,) = read([{"role": "user", "content": [{"type": "input_text", "text": "what?"}, image, "now"]}])
    assert said.text == "what?now"
    assert said.parts == [{"type": "text", "text": "what?"}, image, {"type": "text", "text": "now"}]
    assert said.to_chat()["content"] == said.parts


def test_a_refusal_is_what_the_model_said() -> None:
    (said,) = read([{"role": "assistant", "content": None, "refusal": "No."}])
    assert said.text == "No."


def test_reasoning_and_calls_between_tags_are_taken_out_of_the_text() -> None:
    text = '<think>\nhm\n</think>\n\nI look.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    (said,) = read([{"role": "assistant", "content": text}])
    assert (said.text, said.reasoning, said.calls) == ("I look.", "hm", [ToolCall("add", '{"a": 1}')])


def test_reasoning_whose_opening_tag_stood_in_the_prompt_is_reasoning() -> None:
    (said,) = read([{"role": "assistant", "content": "hm\n</think>\n\nyes"}])
    assert (said.reasoning, said.text) == ("hm", "yes")


def test_a_call_that_is_no_json_stays_in_the_text() -> None:
    text = "<tool_call>\nnot json\n</tool_call>"
    (said,) = read([{"role": "assistant", "content": text}])
    assert (said.text, said.calls) == (text, [])


def test_calls_of_qwen_coder_are_read() -> None:
    text = "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"
    (said,) = read([{"role": "assistant", "content": text}])
    assert (said.text, said.calls) == ("", [ToolCall("add", '{"a": "1"}')])


def test_a_users_message_of_nothing_but_results_is_by_a_tool() -> None:
    (said,) = read([{"role": "user", "content": "<tool_response>\n3\n</tool_response>"}])
    assert (said.role, said.author) == ("user", "tool")


def test_a_result_that_failed_says_so() -> None:
    failed = {"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}
    assert [each.is_error for each in read([{"role": "user", "content": [failed]}])] == [True]
    assert [each.is_error for each in read([ToolMessage("no", tool_call_id="c", status="error")])] == [True]


def test_calls_that_langchain_could_not_parse_are_still_what_the_model_said() -> None:
    broken = {"name": "add", "args": "{a:", "id": "c1", "error": None, "type": "invalid_tool_call"}
    (said,) = read([AIMessage(content="", invalid_tool_calls=[broken])])
    assert said.calls == [ToolCall("add", "{a:", "c1")]


def test_reasoning_that_a_server_keeps_to_itself_is_no_message() -> None:
    assert read([ASKED, {"type": "reasoning", "id": "a", "summary": []}]) == [USER]


def test_two_answers_after_each_other_stay_two() -> None:
    calling = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert [each.text for each in read([calling, {"role": "assistant", "content": "yes"}])] == ["", "yes"]


@pytest.mark.parametrize(
    "values",
    [None, [], "text", [1], ["a", "b"], [{"content": "no role"}], [{"type": "function", "function": {}}], [[]]],
)
def test_what_is_no_list_of_messages(values: Any) -> None:
    assert read(values) is None
