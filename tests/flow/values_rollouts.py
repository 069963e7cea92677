"""A rollout as people write it with LangChain, vLLM, OpenAI's and Anthropic's SDKs: run as `python values_rollouts.py`.

The store is that of the environment. The models are told what to answer.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from PIL import Image

import rolltrace
from rolltrace import rollout_trace_attr, rollout_trace_op
from tests.replies import anthropic, chat, chat_chunks, langchain, vllm

PIXEL = base64.b64encode(b"not a real png").decode()


@rollout_trace_op(kind="llm")
def invoke(messages: list[Any], reply: AIMessage) -> AIMessage:
    return reply


@rollout_trace_op(kind="llm")
def generate(prompt: str, sampling_params: dict[str, Any]) -> list[Any]:
    return [vllm("It is 3.", prompt)]


@rollout_trace_op(kind="llm")
def create(messages: list[Any], stream: bool = False) -> Any:
    return chat("It is 3.")


@rollout_trace_op(kind="llm")
def stream(messages: list[Any]) -> Iterator[Any]:
    yield from chat_chunks()


@rollout_trace_op(kind="llm")
def claude(system: str, messages: list[Any]) -> Any:
    return anthropic()


@rollout_trace_op(kind="tool")
def add(a: int, b: int = 2) -> int:
    return a + b


def rollouts() -> None:
    question = {"role": "user", "content": "1+2?"}
    with rollout_trace_attr(sample_index="langchain", step=1, rollout_n=0) as trajectory:
        messages: list[Any] = [SystemMessage("Be brief."), HumanMessage("1+2?")]
        messages.append(langchain(""))
        invoke(messages[:2], messages[2])
        messages.append(ToolMessage(str(add(1)), tool_call_id="c1", name="add"))
        invoke(messages, AIMessage("It is 3."))
        trajectory.reward(1.0)
    with rollout_trace_attr(sample_index="vllm", step=1, rollout_n=0) as trajectory:
        generate("1+2?", {"logprobs": 1})
        trajectory.reward(1.0)
    with rollout_trace_attr(sample_index="openai", step=1, rollout_n=0) as trajectory:
        create([question])
        trajectory.reward(1.0)
    with rollout_trace_attr(sample_index="streamed", step=1, rollout_n=0) as trajectory:
        list(stream([question]))
        trajectory.reward(0.0)
    with rollout_trace_attr(sample_index="anthropic", step=1, rollout_n=0) as trajectory:
        claude("Be brief.", [question])
        trajectory.reward(1.0)
    with rollout_trace_attr(sample_index="images", step=2, rollout_n=0):
        parts = [
            {"type": "text", "text": "what <is> this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            {"type": "image_url", "image_url": {"url": "https://host/cat.png?a=1&b=2"}},
            {"type": "image_url", "image_url": {"url": "javascript:alert(1)"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "PHN2Zz4="}},
            {"type": "image", "image": Image.new("RGB", (2, 3), (255, 0, 0))},
        ]
        create([{"role": "user", "content": parts}])
    with rollout_trace_attr(sample_index="odd", step=3, rollout_n=0) as trajectory:
        trajectory.reward("0.9")  # type: ignore[arg-type]
        trajectory.reward([1])  # type: ignore[arg-type]


if __name__ == "__main__":
    rolltrace.init("p", "e")
    rollouts()
    rolltrace.shutdown()
