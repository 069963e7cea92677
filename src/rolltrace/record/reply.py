"""What a model answered, as messages, in the shapes that servers, SDKs and frameworks give it.

The one place that knows: the checks, the conversation, the exports and the backends ask here. Works on values out of a
journal and on JSON out of the store.
"""

from __future__ import annotations

from typing import Any

from rolltrace.record.messages import Message, assistant, is_message, read_messages
from rolltrace.record.streams import put_together

TEXT_KEYS = (
    "content", "text", "generated_text", "response", "response_text", "response_str", "completion", "output_text",
    "output",
)  # fmt: skip
REPLY_WRAPPERS = ("choices", "outputs", "output", "sequences", "generations", "candidates", "response", "result")
_DEEPEST = 6


def reply_of(outputs: Any) -> Message | None:
    """The one answer in the outputs of a model call; None if there is none, or several."""
    replies = replies_of(outputs)
    return replies[0] if len(replies) == 1 else None


def replies_of(outputs: Any) -> list[Message]:
    """All answers in the outputs of a model call: several if it was asked for several."""
    return _replies(put_together(outputs), 0)


def _replies(value: Any, depth: int) -> list[Message]:
    if isinstance(value, str):
        return [{"role": "assistant", "content": value}]
    if depth > _DEEPEST:
        return []
    if isinstance(value, list):
        if value and all(map(is_message, value)):
            return _last_said(value)
        of_each = [_replies(each, depth + 1) for each in value]
        return [reply for replies in of_each for reply in replies] if all(of_each) else []  # one of many is no answer
    if not isinstance(value, dict):
        return []
    if is_message(value):
        return _last_said([value])
    if isinstance(value.get("message"), dict):
        return _replies(value["message"], depth + 1)
    if isinstance(value.get("content"), dict) and isinstance(value["content"].get("parts"), list):  # Gemini's
        return [assistant(value["content"]["parts"], value)]
    if isinstance(value.get("messages"), list):  # the state of a LangGraph
        return _replies(value["messages"], depth + 1)
    return _text_replies(value) or _wrapped(value, depth)


def _last_said(messages: list[Any]) -> list[Message]:
    """What the model said at last, of a whole conversation; one message is an answer whoever said it."""
    conversation = read_messages(messages) or []
    return conversation[-1:] if len(messages) == 1 or (conversation and conversation[-1]["role"] == "assistant") else []


def _text_replies(value: dict[str, Any]) -> list[Message]:
    """Text, or parts, under one of the usual names."""
    for name in TEXT_KEYS:
        content = value.get(name)
        if isinstance(content, str) or (name == "content" and _are_parts(content)):
            return [assistant(content, value)]
        if name == "text" and isinstance(content, list) and content and all(isinstance(each, str) for each in content):
            return [assistant(each, value) for each in content]
    calls = value.get("tool_calls")
    return [assistant(None, value)] if isinstance(calls, list) and calls else []


def _are_parts(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(part, dict) for part in content)


def _wrapped(value: dict[str, Any], depth: int) -> list[Message]:
    for name in REPLY_WRAPPERS:
        replies = _replies(value[name], depth + 1) if isinstance(value.get(name), dict | list) else []
        if replies:
            return replies
    return []
