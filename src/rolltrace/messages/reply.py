"""What a model or a tool answered, in the shapes that servers, SDKs and frameworks give it.

Works on values out of a journal and on JSON out of the store.
"""

from __future__ import annotations

from typing import Any

from rolltrace.messages.chat import read_role
from rolltrace.messages.content import find_image
from rolltrace.messages.message import Json, Message, as_text
from rolltrace.messages.message_list import read_message, read_messages
from rolltrace.messages.streams import join_stream

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
    if depth > MAX_WRAPPERS:
        return []
    if isinstance(value, list):
        conversation = read_messages(value) if not any(isinstance(each, list) for each in value) else None
        if conversation is not None:
            return _last_said(conversation, len(value))
        of_each = [_replies(each, depth + 1) for each in value]
        return [reply for replies in of_each for reply in replies] if all(of_each) else []  # one of many is no answer
    if not isinstance(value, dict):
        return []
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


def _last_said(conversation: list[Message], count: int) -> list[Message]:
    """What the model said at last, of a whole conversation; one message is an answer whoever said it."""
    return conversation[-1:] if count == 1 or conversation[-1].role == "assistant" else []


def _text_replies(value: Json) -> list[Message]:
    """Text, or parts, under one of the usual names."""
    for name in REPLY_TEXT_KEYS:
        content = value.get(name)
        if isinstance(content, str) or (name in ("content", "parts") and _are_parts(content)):
            return [_assistant(content, value)]
        if name == "text" and isinstance(content, list) and content and all(isinstance(each, str) for each in content):
            return [_assistant(each, value) for each in content]
    calls = value.get("tool_calls")
    return [_assistant(None, value)] if isinstance(calls, list) and calls else []


def _assistant(content: Any, holder: Json) -> Message:
    beside = {name: holder[name] for name in REPLY_BESIDES if name in holder}
    return read_role("assistant", {**beside, "content": content})[-1]


def _are_parts(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(part, dict) for part in content)


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
    if isinstance(value, list) and value and not isinstance(value[0], int | float) and _are_about(value[1:]):
        return _tool_message(value[0])  # what it found, then a reward, metrics, whether it is over
    if isinstance(value, dict):
        if isinstance(value.get("role"), str) or value.get("type") in ("tool", "ToolMessageChunk"):
            read = read_message(value)
            if read:
                return read[-1]
        if find_image(value) is not None and "$image" in value:
            return read_role("tool", {"content": [value]})[-1]
        own = [key for key in value if key not in _RESULT_BESIDES]
        if len(own) == 1 and own[0] in _RESULT_KEYS and isinstance(value[own[0]], str | list):
            return _result_in(value, own[0])
        value = as_text(value)
    elif isinstance(value, list) and value and all(isinstance(part, dict) and _is_part(part) for part in value):
        return read_role("tool", {"content": value})[-1]  # parts of MCP
    elif not isinstance(value, str) and find_image(value) is None:
        value = as_text(value)
    return read_role("tool", {"content": value})[-1]


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
