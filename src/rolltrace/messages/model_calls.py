"""What a model call was given, wherever it stands among its arguments, and what a model or a tool answered.

Works on values out of a journal and on JSON out of the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rolltrace.messages.content import find_image
from rolltrace.messages.formats import name_tools, read_message, read_messages, read_role
from rolltrace.messages.message import Json, Message, as_text
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
MAX_WRAPPERS = 6
"""How deep a reply may stand in what a call returned."""
REPLY_TEXT_KEYS = (
    "content", "text", "generated_text", "response", "response_text", "response_str", "completion", "output_text",
    "output",
)  # fmt: skip
REPLY_WRAPPERS = ("choices", "outputs", "output", "sequences", "generations", "candidates", "response", "result")
REPLY_BESIDES = (
    "tool_calls", "invalid_tool_calls", "function_call", "reasoning_content", "reasoning", "thinking",
    "reasoning_details", "refusal", "audio",
)  # fmt: skip
"""What a model may answer beside text."""
_RESULT_KEYS = ("content", "text", "output", "result", "observation", "response")
"""Where a tool's answer stands in a dict that holds little else."""
_RESULT_BESIDES = frozenset({"is_error", "isError", "error", "image", "video", "images", "meta", "_meta", "status"})


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
    return None if text is None else [*read_system(inputs), *read_prompt_text(text).messages]


def read_given_messages(inputs: Any) -> list[Message] | None:
    """The messages among the arguments of a model call, if there are any."""
    messages = read_messages(inputs)
    if messages is not None or not isinstance(inputs, dict):
        return messages
    for name in places(inputs):
        messages = read_messages(inputs[name]) or read_inside(inputs[name], name)
        if messages:
            name_tools(messages)
            return [*read_system(inputs), *messages]
    return None


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
    messages = read_message(value) if name in MESSAGES_KEYS else None
    if messages is not None:
        return messages
    for key in MESSAGES_KEYS:
        messages = read_messages(value.get(key))
        if messages is not None:
            return [*read_system(value), *messages]
    return None


def read_system(inputs: Any) -> list[Message]:
    """The system's message that stands beside the others."""
    if not isinstance(inputs, dict):
        return []
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
    if isinstance(inputs, dict):
        several = inputs.get("prompts")
        one = several[0] if isinstance(several, list) and len(several) == 1 else several
        text = next((each for each in (*map(inputs.get, TEXT_KEYS), one) if isinstance(each, str)), None)
        if text is not None:
            return text
    result = None if outputs is None else join_stream(outputs)
    result = result[0] if isinstance(result, list) and len(result) == 1 else result
    if not isinstance(result, dict) or not isinstance(result.get("outputs"), list):
        return None
    return result["prompt"] if isinstance(result.get("prompt"), str) else None


def read_replies(outputs: Any) -> list[Message]:
    """All answers in the outputs of a model call: several if it was asked for several, none if there is none."""
    whole = join_stream(outputs)
    choices = whole.get("choices") if isinstance(whole, dict) else None
    if isinstance(choices, list) and choices:  # of OpenAI's chat: most replies, so they are not searched for
        messages = [choice.get("message") if isinstance(choice, dict) else None for choice in choices]
        if all(isinstance(message, dict) and "role" in message for message in messages):
            return [reply for message in messages for reply in (read_message(message) or ())[-1:]]
    return _replies(whole, 0)


def read_reply(outputs: Any) -> Message | None:
    """The one answer in the outputs of a model call; None if there is none, or several."""
    replies = read_replies(outputs)
    return replies[0] if len(replies) == 1 else None


def _replies(value: Any, depth: int) -> list[Message]:
    if isinstance(value, str):
        return read_role("assistant", {"content": value})
    if depth > MAX_WRAPPERS or not isinstance(value, list | dict):
        return []
    if isinstance(value, list):
        conversation = read_messages(value) if not any(isinstance(each, list) for each in value) else None
        if conversation is not None:  # what the model said at last; one message is an answer whoever said it
            return conversation[-1:] if len(value) == 1 or conversation[-1].role == "assistant" else []
        of_each = [_replies(each, depth + 1) for each in value]
        return [reply for replies in of_each for reply in replies] if all(of_each) else []  # one of many is no answer
    if isinstance(value.get("parts"), list) and not isinstance(value.get("role"), str):  # Gemini leaves out the role
        return [_assistant(value["parts"], value)]
    read = read_message(value)
    if read is not None:
        return read[-1:]
    for name in ("message", "content"):  # a choice of OpenAI; a candidate of Gemini
        if isinstance(value.get(name), dict):
            return _replies(value[name], depth + 1)
    if isinstance(value.get("messages"), list):  # the state of a LangGraph
        return _replies(value["messages"], depth + 1)
    return _text_replies(value) or _wrapped(value, depth)


def _text_replies(value: Json) -> list[Message]:
    """Text, or parts, under one of the usual names."""
    for name in REPLY_TEXT_KEYS:
        content = value.get(name)
        are_parts = isinstance(content, list) and all(isinstance(part, dict) for part in content)
        if isinstance(content, str) or (name == "content" and are_parts):
            return [_assistant(content, value)]
        if name == "text" and isinstance(content, list) and content and all(isinstance(each, str) for each in content):
            return [_assistant(each, value) for each in content]
    calls = value.get("tool_calls")
    return [_assistant(None, value)] if isinstance(calls, list) and calls else []


def _assistant(content: Any, holder: Json) -> Message:
    beside = {name: holder[name] for name in REPLY_BESIDES if name in holder}
    return read_role("assistant", {**beside, "content": content})[-1]


def _wrapped(value: Json, depth: int) -> list[Message]:
    for name in REPLY_WRAPPERS:
        replies = _replies(value[name], depth + 1) if isinstance(value.get(name), dict | list) else []
        if replies:
            return replies
    return []


def read_tool_result(name: str, outputs: Any, error: str | None = None) -> Message:
    """What a tool call answered, as the message that a model would be shown of it.

    Args:
        name: Which tool.
        outputs: What the op returned.
        error: The exception that ended it, if one did.
    """
    if outputs is None and error is not None:
        return Message("tool", as_text(error), tool_name=name, is_error=True)
    message = _tool_message(outputs)
    message.role, message.author = "tool", "tool"
    message.tool_name, message.name = message.tool_name or name, None
    if error is not None:
        message.is_error = True
    return message


def _tool_message(value: Any) -> Message:
    content = value
    if isinstance(value, list) and value:
        if not isinstance(value[0], int | float) and _are_about(value[1:]):
            return _tool_message(value[0])  # what it found, then a reward, metrics, whether it is over
        if not all(isinstance(part, dict) and _is_part(part) for part in value):  # parts of MCP
            content = as_text(value)
    elif isinstance(value, dict):
        if isinstance(value.get("role"), str) or value.get("type") in ("tool", "ToolMessageChunk"):
            read = read_message(value)
            if read:
                return read[-1]
        own = [key for key in value if key not in _RESULT_BESIDES]
        if len(own) == 1 and own[0] in _RESULT_KEYS and isinstance(value[own[0]], str | list):
            return _result_in(value, own[0])
        content = [value] if "$image" in value and find_image(value) is not None else as_text(value)
    elif not isinstance(value, str) and find_image(value) is None:
        content = as_text(value)
    return read_role("tool", {"content": content})[-1]


def _result_in(value: Json, name: str) -> Message:
    body = value[name]
    content = [body] if isinstance(body, str) else body
    for key in ("image", "images"):
        images = value.get(key)
        content = [*content, *(images if isinstance(images, list) else [images] if images is not None else ())]
    failed = value.get("isError") is True or value.get("is_error") is True
    if not all(_is_part(part) for part in content):
        content = as_text(value)
    return read_role("tool", {"content": content, "is_error": failed})[-1]


def _is_part(part: Any) -> bool:
    is_typed = isinstance(part, dict) and isinstance(part.get("type"), str)
    return isinstance(part, str) or is_typed or find_image(part) is not None


def _are_about(values: list[Any]) -> bool:
    """Whether these say something about a result: a reward, whether it is over, dicts of metrics."""
    has_number = any(isinstance(value, int | float) for value in values)
    return has_number and all(value is None or isinstance(value, int | float | dict) for value in values)
