"""What a model answered and what it took, read from what engines, SDKs and frameworks really give back."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage

from rolltrace.record import Snapshotter, decode_value
from rolltrace.record.reply import replies_of, reply_of
from rolltrace.record.usage import Usage, usage_of
from tests.replies import (
    CALL,
    CHAT_USAGE,
    SGLANG,
    SGLANG_STREAMS,
    TGI,
    CompletionOutput,
    RequestOutput,
    anthropic,
    anthropic_events,
    chat,
    chat_chunks,
    completion,
    langchain,
    response,
    response_events,
    sglang_events,
    vllm,
)

YES = {"role": "assistant", "content": "yes"}
CALLING = {**YES, "tool_calls": [CALL]}
THINKING = {**YES, "reasoning_content": "hm", "tool_calls": [CALL]}


def seen(value: Any) -> Any:
    """The value as it comes out of a journal."""
    return decode_value(Snapshotter().take(value))


def streamed(items: list[Any], **more: Any) -> dict[str, Any]:
    """What is recorded of a generator."""
    return {"items": items, "count": len(items), "end": "exhausted", **more}


@pytest.mark.parametrize(
    ("returned", "reply"),
    [
        (vllm(), YES),
        ([vllm()], YES),
        (SGLANG, YES),
        (TGI, YES),
        ([TGI], YES),
        (chat(), YES),
        (chat().choices[0], YES),
        (chat().choices[0].message, YES),
        (chat(None, tool_calls=[CALL]), {**CALLING, "content": None}),
        (chat("", reasoning_content="hm", tool_calls=[CALL]), {**THINKING, "content": ""}),
        (completion(), YES),
        (response(), THINKING),
        (response().output, THINKING),
        (anthropic(), THINKING),
        (anthropic().content, None),  # blocks alone say nothing about who speaks
        (langchain(), CALLING),
        ({"messages": [langchain()]}, CALLING),
        ({"messages": [HumanMessage("sure?"), langchain()]}, CALLING),
        (AIMessage(content=[{"type": "text", "text": "y"}, {"type": "text", "text": "es"}]), YES),
        ({"content": None, "tool_calls": [CALL]}, {**CALLING, "content": None}),
        ({"content": [{"type": "text", "text": "yes"}]}, YES),
    ],
)
def test_a_reply_is_a_clean_message_whatever_it_came_in(returned: Any, reply: Any) -> None:
    assert reply_of(seen(returned)) == reply


@pytest.mark.parametrize(
    ("items", "reply"),
    [
        (["y", "es"], YES),
        ([None, "y", "es", None], YES),
        (chat_chunks(), CALLING),
        (anthropic_events(), THINKING),
        (response_events(ended=True), THINKING),
        (response_events(ended=False), THINKING),
        ([vllm("y"), vllm("yes")], YES),  # each has all so far
        ([{"text": "y", "output_ids": [5]}, {"text": "es", "output_ids": [6]}], YES),  # each has what is new
        *((sglang_events(*new), YES) for new in SGLANG_STREAMS),
        ([{"text": "y", "meta_info": {}}, {"text": "es", "meta_info": {}}], YES),
        ([{"token": token, "generated_text": None} for token in TGI["details"]["tokens"]], YES),
        ([{"choices": [{"text": "y"}], "object": "text_completion"},
          {"choices": [{"text": "es"}], "object": "text_completion"}], YES),
    ],
)  # fmt: skip
def test_the_pieces_of_a_stream_are_one_reply(items: list[Any], reply: Any) -> None:
    assert reply_of(seen(streamed(items))) == reply


def test_chunks_that_a_function_collected_are_one_reply() -> None:
    assert reply_of(seen(chat_chunks())) == CALLING
    assert reply_of(seen(anthropic_events())) == THINKING


def test_chunks_of_langchain_are_one_reply() -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("well yes then")]))
    assert reply_of(seen(streamed(list(model.stream("sure?"))))) == {"role": "assistant", "content": "well yes then"}
    chunks = [
        AIMessageChunk(content="yes", tool_call_chunks=[{"name": "add", "args": "", "id": "c1", "index": 0}]),
        AIMessageChunk(content="", tool_call_chunks=[{"name": None, "args": '{"a": 1}', "id": None, "index": 0}]),
    ]
    assert reply_of(seen(streamed(chunks))) == CALLING
    assert reply_of(seen(streamed([(chunk, {"langgraph_node": "agent"}) for chunk in chunks]))) == CALLING


def test_what_a_generator_returns_counts_more_than_its_pieces() -> None:
    assert reply_of(seen(streamed(["y"], **{"return": chat()}))) == YES


def test_half_a_stream_is_no_reply() -> None:
    assert replies_of(seen({"items": ["y"], "count": 2, "end": "exhausted"})) == []


def test_several_answers_are_several_replies() -> None:
    output = RequestOutput("sure?", [1], [CompletionOutput(0, "yes", [5]), CompletionOutput(1, "no", [6])])
    assert [reply["content"] for reply in replies_of(seen(output))] == ["yes", "no"]
    assert [reply["content"] for reply in replies_of(seen([vllm("a"), vllm("b")]))] == ["a", "b"]
    assert [reply["content"] for reply in replies_of(seen([SGLANG, SGLANG]))] == ["yes", "yes"]
    several = [{**event, "index": index} for event in sglang_events() for index in (0, 1)]
    assert [reply["content"] for reply in replies_of(seen(streamed(several)))] == ["yes", "yes"]
    assert reply_of(seen(output)) is None


@pytest.mark.parametrize(
    "returned",
    [None, 3, {}, {"embedding": [0.5]}, [{"type": "content.done", "content": "x"}, {"type": "other"}], object()],
)
def test_what_cannot_be_read_is_no_reply(returned: Any) -> None:
    assert replies_of(seen(returned)) == []


def test_calls_that_langchain_could_not_parse_are_still_what_the_model_said() -> None:
    broken = {"name": "add", "args": "{a:", "id": "c1", "error": None, "type": "invalid_tool_call"}
    said = reply_of(seen(AIMessage(content="", invalid_tool_calls=[broken])))
    assert said is not None
    assert said["tool_calls"][0]["function"] == {"name": "add", "arguments": "{a:"}


ALL = Usage(10, 5, 4, 2)


@pytest.mark.parametrize(
    ("returned", "usage"),
    [
        (chat(), ALL),
        (chat_chunks(), ALL),
        (completion(), ALL),
        (response(), ALL),
        (response_events(ended=True), ALL),
        (anthropic(), Usage(10, 5, 4, None)),
        (anthropic_events(), Usage(10, 5, 4, None)),
        (langchain(), ALL),
        ({"messages": [HumanMessage("sure?"), langchain()]}, ALL),
        (AIMessage("yes", response_metadata={"token_usage": CHAT_USAGE}), ALL),
        (SGLANG, Usage(2, 2, 1, None)),
        (TGI, Usage(None, 2, None, None)),
        ([vllm()], Usage(None, None, 1, None)),
        ("yes", Usage()),
        ({"usage": {"prompt_tokens": "many", "completion_tokens": -1}}, Usage()),
    ],
)
def test_usage_is_read_in_the_words_of_each_server(returned: Any, usage: Usage) -> None:
    assert usage_of(seen(returned)) == usage
