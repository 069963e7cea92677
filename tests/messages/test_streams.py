"""The pieces of a stream are one reply, in the form of the reply without a stream."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk

from rolltrace.messages import Message, ToolCall, join_stream, read_replies, stream_length
from tests.messages.test_message_list import seen
from tests.replies import (
    SGLANG_STREAMS,
    TGI,
    anthropic_events,
    chat,
    chat_chunks,
    response_events,
    sglang_events,
    vllm,
)

ADD = ToolCall("add", '{"a": 1}', "c1")
YES = Message("assistant", "yes")
CALLING = Message("assistant", "yes", calls=[ADD])
THINKING = Message("assistant", "yes", "hm", [ADD])
GEMINI = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "h", "thought": True}]}}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "m", "thought": True}, {"text": "y"}]}}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "es"}]}, "finishReason": "STOP"}],
     "usageMetadata": {"promptTokenCount": 1}},
]  # fmt: skip


def streamed(items: list[Any], **more: Any) -> dict[str, Any]:
    """What is recorded of a generator."""
    return {"items": items, "count": len(items), "end": "exhausted", **more}


@pytest.mark.parametrize(
    ("items", "reply"),
    [
        (["y", "es"], YES),
        ([None, "y", "es", None], YES),
        (chat_chunks(), CALLING),
        ([{"type": "chunk", "chunk": chunk} for chunk in chat_chunks()], CALLING),
        (anthropic_events(), THINKING),
        (response_events(ended=True), THINKING),
        (response_events(ended=False), THINKING),
        (GEMINI, Message("assistant", "yes", "hm")),
        ([vllm("y"), vllm("yes")], YES),  # each has all so far
        ([{"text": "y", "output_ids": [5]}, {"text": "es", "output_ids": [6]}], YES),  # each has what is new
        *((sglang_events(*new), YES) for new in SGLANG_STREAMS),
        ([{"text": "y", "meta_info": {}}, {"text": "es", "meta_info": {}}], YES),
        ([{"token": token, "generated_text": None} for token in TGI["details"]["tokens"]], YES),
        ([{"choices": [{"text": "y"}], "object": "text_completion"},
          {"choices": [{"text": "es"}], "object": "text_completion"}], YES),
    ],
)  # fmt: skip
def test_the_pieces_of_a_stream_are_one_reply(items: list[Any], reply: Message) -> None:
    assert read_replies(seen(streamed(items))) == [reply]


def test_chunks_that_a_function_collected_are_one_reply() -> None:
    assert read_replies(seen(chat_chunks())) == [CALLING]
    assert read_replies(seen(anthropic_events())) == [THINKING]


def test_chunks_of_langchain_are_one_reply() -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("well yes then")]))
    assert read_replies(seen(streamed(list(model.stream("sure?"))))) == [Message("assistant", "well yes then")]
    chunks = [
        AIMessageChunk(content="yes", tool_call_chunks=[{"name": "add", "args": "", "id": "c1", "index": 0}]),
        AIMessageChunk(content="", tool_call_chunks=[{"name": None, "args": '{"a": 1}', "id": None, "index": 0}]),
    ]
    assert read_replies(seen(streamed(chunks))) == [CALLING]
    assert read_replies(seen(streamed([(chunk, {"langgraph_node": "agent"}) for chunk in chunks]))) == [CALLING]


def test_what_a_generator_returns_counts_more_than_its_pieces() -> None:
    assert read_replies(seen(streamed(["y"], **{"return": chat()}))) == [YES]


def test_half_a_stream_is_no_reply() -> None:
    half = seen({"items": ["y"], "count": 2, "end": "exhausted"})
    assert read_replies(half) == []
    assert stream_length(half) == (1, 2)


def test_several_answers_of_a_stream_are_several_replies() -> None:
    several = [{**event, "index": index} for event in sglang_events() for index in (0, 1)]
    assert [reply.text for reply in read_replies(seen(streamed(several)))] == ["yes", "yes"]


@pytest.mark.parametrize("value", [None, 3, "text", {}, {"items": 3}, [1, 2], [{"a": 1}, {"b": 2}]])
def test_what_is_no_stream_stays_as_it_is(value: Any) -> None:
    assert join_stream(value) is value
