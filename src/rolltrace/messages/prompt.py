"""What a model call was given, wherever it stands among its arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rolltrace.messages.message import Json, Message
from rolltrace.messages.message_list import is_message, name_tools, read_message, read_messages
from rolltrace.messages.streams import join_stream
from rolltrace.messages.template import read_prompt_text

MESSAGES_KEYS = (
    "messages", "raw_prompt", "input", "contents", "prompt", "inputs", "prompts", "state", "chat_history", "history",
)  # fmt: skip
"""Where messages are looked for first; then any argument that is nothing but messages is taken."""
TEXT_KEYS = ("prompt", "prompt_text", "prompt_str", "input_text", "input", "inputs", "query", "text", "question",
             "contents")  # fmt: skip
SYSTEM_KEYS = ("system", "instructions", "system_instruction", "systemInstruction")
"""What Anthropic's messages, OpenAI's responses and Gemini's contents have the system's message in."""
CONFIG_KEYS = ("config", "generation_config")


def read_prompt(inputs: Any, outputs: Any = None) -> list[Message] | None:
    """The messages that a model call was given, the system's included; None if it was given none.

    Args:
        inputs: Its arguments, decoded.
        outputs: What it returned; vLLM repeats the prompt there.
    """
    messages = read_given_messages(inputs)
    if messages is not None:
        return messages
    text = prompt_text(inputs, outputs)
    if text is None:
        return None
    read = read_prompt_text(text).messages
    return [*read_system(inputs), *read] if isinstance(inputs, dict) else read


def read_given_messages(inputs: Any) -> list[Message] | None:
    """The messages among the arguments of a model call, if there are any."""
    messages = read_messages(inputs)
    if messages is not None or not isinstance(inputs, dict):
        return messages
    for name in places(inputs):
        messages = read_messages(inputs[name]) or read_inside(inputs[name], name)
        if messages:
            return _complete([*read_system(inputs), *messages])
    return None


def _complete(messages: list[Message]) -> list[Message]:
    name_tools(messages)
    return messages


def places(inputs: Json) -> Iterator[str]:
    """The names of the arguments in which messages may stand, the likeliest first."""
    yield from (name for name in MESSAGES_KEYS if name in inputs)
    yield from (name for name in inputs if isinstance(name, str) and name not in MESSAGES_KEYS)


def read_inside(value: Any, name: str) -> list[Message] | None:
    """The messages in an argument that is a dict: a whole request, the state of a LangGraph, one message of Gemini.

    One message under any other name may be anything, the reply that a test gives to its model for example.
    """
    if not isinstance(value, dict):
        return None
    if name in MESSAGES_KEYS and is_message(value):
        return read_message(value)
    for key in MESSAGES_KEYS:
        messages = read_messages(value.get(key))
        if messages is not None:
            return _complete([*read_system(value), *messages])
    return None


def read_system(inputs: Json) -> list[Message]:
    """The system's message that stands beside the others."""
    configs = [inputs[name] for name in CONFIG_KEYS if isinstance(inputs.get(name), dict)]
    for holder in (inputs, *configs):
        for name in SYSTEM_KEYS:
            value = holder.get(name)
            if isinstance(value, dict) and isinstance(value.get("parts"), list):
                value = value["parts"]
            if isinstance(value, str | list | dict) and value:
                return read_messages([{"role": "system", "content": value}]) or []
    return []


def prompt_text(inputs: Any, outputs: Any = None) -> str | None:
    """The text that a model call was given in the place of messages."""
    if isinstance(inputs, str):
        return inputs
    text = _text(inputs, TEXT_KEYS)
    if text is None and isinstance(inputs, dict):
        several = inputs.get("prompts")
        text = several if isinstance(several, str) else _only_text(several)
    if text is not None or outputs is None:
        return text
    result = join_stream(outputs)
    result = result[0] if isinstance(result, list) and len(result) == 1 else result
    repeats = isinstance(result, dict) and isinstance(result.get("outputs"), list)
    return _text(result, ("prompt",)) if repeats else None


def _only_text(values: Any) -> str | None:
    return values[0] if isinstance(values, list) and len(values) == 1 and isinstance(values[0], str) else None


def _text(value: Any, keys: Sequence[str]) -> str | None:
    if isinstance(value, dict):
        return next((value[key] for key in keys if isinstance(value.get(key), str)), None)
    return None
