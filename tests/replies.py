"""What model servers and SDKs give back, for tests: real classes of the SDKs, and classes of the shape of vLLM's.

The SDKs make their objects of a server's JSON with `construct_type`, which takes what their types do not foresee.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from anthropic._models import construct_type as anthropic_type
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from langchain_core.messages import AIMessage
from openai._models import construct_type as openai_type
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

# vLLM: a plain class around dataclasses.


@dataclasses.dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclasses.dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None = None
    logprobs: Any = None
    finish_reason: str | None = "stop"
    stop_reason: int | str | None = None


@dataclasses.dataclass
class FlatLogprobs:
    start_indices: list[int]
    end_indices: list[int]
    token_ids: list[int]
    logprobs: list[float]
    ranks: list[int | None]
    decoded_tokens: list[str | None]


class RequestOutput:
    def __init__(self, prompt: str | None, prompt_token_ids: list[int], outputs: list[CompletionOutput]) -> None:
        self.request_id = "0"
        self.prompt = prompt
        self.prompt_token_ids = prompt_token_ids
        self.prompt_logprobs = None
        self.outputs = outputs
        self.finished = True
        self.metrics = None
        self.num_cached_tokens = 1


def vllm(text: str = "yes", prompt: str | None = "sure?") -> RequestOutput:
    """A result of vLLM, with the logprobs of two candidates for the first token."""
    logprobs = [{5: Logprob(-0.5, 2, "y"), 9: Logprob(-0.25, 1, "n")}, {6: Logprob(-1.0, 1, "es")}]
    return RequestOutput(prompt, [1, 2], [CompletionOutput(0, text, [5, 6], -1.5, logprobs)])


SGLANG: dict[str, Any] = {
    "text": "yes",
    "output_ids": [5, 6],
    "meta_info": {
        "id": "a",
        "finish_reason": {"type": "stop", "matched": 6},
        "prompt_tokens": 2,
        "completion_tokens": 2,
        "cached_tokens": 1,
        "input_token_logprobs": [[None, 1, None], [-2.0, 2, None]],
        "output_token_logprobs": [[-0.5, 5, None], [-1.0, 6, None]],
    },
}


def sglang_events(*new: str) -> list[dict[str, Any]]:
    """The same as a stream; of the parts named (text, output_ids, logprobs) each event has what is new, else all so
    far. The three ways of its releases: nothing, the ids alone, or with `--incremental-streaming-output` all."""
    events = []
    for count in (1, 2):
        begin = {part: count - 1 if part in new else 0 for part in ("text", "output_ids", "logprobs")}
        info: dict[str, Any] = {**SGLANG["meta_info"], "completion_tokens": count}
        info["finish_reason"] = SGLANG["meta_info"]["finish_reason"] if count == 2 else None
        info["output_token_logprobs"] = info["output_token_logprobs"][begin["logprobs"] : count]
        ids = SGLANG["output_ids"][begin["output_ids"] : count]
        text = "".join(["y", "es"][begin["text"] : count])
        events.append({"text": text, "output_ids": ids, "meta_info": info})
    return events


SGLANG_STREAMS = [(), ("output_ids",), ("text", "output_ids", "logprobs")]
TGI: dict[str, Any] = {
    "generated_text": "yes",
    "details": {
        "finish_reason": "stop",
        "generated_tokens": 2,
        "prefill": [{"id": 1, "text": "sure", "logprob": None}, {"id": 2, "text": "?", "logprob": -2.0}],
        "tokens": [
            {"id": 5, "text": "y", "logprob": -0.5, "special": False},
            {"id": 6, "text": "es", "logprob": -1.0, "special": False},
        ],
    },
}

# OpenAI

CHAT_USAGE = {
    "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 2},
}  # fmt: skip
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def chat(content: str | None = "yes", **message: Any) -> ChatCompletion:
    said = {"role": "assistant", "content": content, "refusal": None, "audio": None, "annotations": [], **message}
    logprobs = [
        {"token": "y", "bytes": [121], "logprob": -0.5, "top_logprobs": []},
        {"token": "es", "bytes": [101, 115], "logprob": -1.0, "top_logprobs": []},
    ]
    choice = {"index": 0, "finish_reason": "stop", "logprobs": {"content": logprobs, "refusal": None}, "message": said}
    about = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    made = openai_type(type_=ChatCompletion, value={**about, "choices": [choice], "usage": CHAT_USAGE})
    assert isinstance(made, ChatCompletion)
    return made


def completion() -> Completion:
    logprobs = {"tokens": ["y", "es"], "token_logprobs": [-0.5, -1.0], "text_offset": [0, 1], "top_logprobs": None}
    choice = {"index": 0, "finish_reason": "stop", "text": "yes", "logprobs": logprobs}
    about = {"id": "1", "object": "text_completion", "created": 1, "model": "m"}
    made = openai_type(type_=Completion, value={**about, "choices": [choice], "usage": CHAT_USAGE})
    assert isinstance(made, Completion)
    return made


def chat_chunks() -> list[Any]:
    """Text, then a call of a tool in three pieces, then the usage."""
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": "ye"},
        {"content": "s"},
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]},
        {},
    ]
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta}] for delta in deltas]
    choices[-1][0]["finish_reason"] = "tool_calls"
    about = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    usage = [None] * len(choices) + [CHAT_USAGE]
    return [
        openai_type(type_=ChatCompletionChunk, value={**about, "choices": each, "usage": used})
        for each, used in zip([*choices, []], usage, strict=True)
    ]


RESPONSE: dict[str, Any] = {
    "id": "r", "object": "response", "created_at": 1, "status": "completed", "model": "m", "parallel_tool_calls": True,
    "tool_choice": "auto", "tools": [],
    "output": [
        {"type": "reasoning", "id": "a", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "id": "b", "status": "completed", "role": "assistant",
         "content": [{"type": "output_text", "text": "yes", "annotations": []}]},
        {"type": "function_call", "id": "c", "call_id": "c1", "name": "add", "arguments": '{"a": 1}'},
    ],
    "usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5,
              "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15},
}  # fmt: skip


def response() -> Response:
    made = openai_type(type_=Response, value=RESPONSE)
    assert isinstance(made, Response)
    return made


def response_events(*, ended: bool) -> list[Any]:
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**RESPONSE, "output": [], "usage": None}},
        {"type": "response.output_item.done", "output_index": 0, "item": RESPONSE["output"][0]},
        {"type": "response.output_text.delta", "output_index": 1, "item_id": "b", "content_index": 0, "delta": "ye",
         "logprobs": []},
        {"type": "response.output_text.delta", "output_index": 1, "item_id": "b", "content_index": 0, "delta": "s",
         "logprobs": []},
        {"type": "response.output_item.added", "output_index": 2, "item": {**RESPONSE["output"][2], "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "item_id": "c", "delta": '{"a": 1}'},
    ]  # fmt: skip
    if ended:
        events.append({"type": "response.completed", "response": RESPONSE})
    numbered = [{**event, "sequence_number": at} for at, event in enumerate(events)]
    return [openai_type(type_=ResponseStreamEvent, value=event) for event in numbered]


# Anthropic

ANTHROPIC: dict[str, Any] = {
    "id": "m", "type": "message", "role": "assistant", "model": "c", "stop_reason": "tool_use", "stop_sequence": None,
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "yes"},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
    ],
    "usage": {"input_tokens": 5, "output_tokens": 5, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 1},
}  # fmt: skip


def anthropic() -> AnthropicMessage:
    made = anthropic_type(type_=AnthropicMessage, value=ANTHROPIC)
    assert isinstance(made, AnthropicMessage)
    return made


def anthropic_events() -> list[Any]:
    def delta(index: int, **said: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": said}

    def start(index: int, **block: Any) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": block}

    begun = {**ANTHROPIC, "content": [], "stop_reason": None, "usage": {**ANTHROPIC["usage"], "output_tokens": 1}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        start(0, type="thinking", thinking="", signature=""),
        delta(0, type="thinking_delta", thinking="hm"),
        {"type": "content_block_stop", "index": 0},
        start(1, type="text", text=""),
        delta(1, type="text_delta", text="ye"),
        delta(1, type="text_delta", text="s"),
        {"type": "content_block_stop", "index": 1},
        start(2, type="tool_use", id="c1", name="add", input={}),
        delta(2, type="input_json_delta", partial_json='{"a":'),
        delta(2, type="input_json_delta", partial_json=" 1}"),
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
         "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return [anthropic_type(type_=RawMessageStreamEvent, value=event) for event in events]


# LangChain


def langchain(content: str = "yes") -> AIMessage:
    return AIMessage(
        content=content,
        tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}],
        response_metadata={"finish_reason": "tool_calls", "model_name": "m"},
        usage_metadata={
            "input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
            "input_token_details": {"cache_read": 4}, "output_token_details": {"reasoning": 2},
        },
    )  # fmt: skip
