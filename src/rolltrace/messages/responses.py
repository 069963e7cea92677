"""Items of OpenAI's responses that are no messages: calls of functions, their results, reasoning.

Several items make one answer of the model; `read_messages` joins them.
"""

from __future__ import annotations

from typing import Any

from rolltrace.messages.content import make_call, make_result
from rolltrace.messages.message import Json, Message, as_text

_CALLS = ("function_call", "custom_tool_call")
_RESULTS = ("function_call_output", "custom_tool_call_output")
_OWN_TOOLS = (
    "web_search_call", "file_search_call", "computer_call", "code_interpreter_call", "image_generation_call",
    "local_shell_call", "mcp_call",
)  # fmt: skip
"""Calls of tools that the server itself runs."""
_OWN_RESULTS = ("computer_call_output", "local_shell_call_output")
ITEM_TYPES = frozenset({*_CALLS, *_RESULTS, *_OWN_TOOLS, *_OWN_RESULTS, "reasoning"})
_ITEM_NOISE = frozenset({"type", "id", "status", "call_id", "name", "arguments", "output", "result"})


def is_item(value: Any) -> bool:
    """Whether a value is an item of a response that is no message."""
    kind = value.get("type") if isinstance(value, dict) and value.get("role") is None else None
    return isinstance(kind, str) and kind in ITEM_TYPES


def read_item(item: Json) -> list[Message] | None:
    """The messages of an item; none of reasoning that the server keeps to itself. None if it is no item."""
    kind = item.get("type")
    if kind in _CALLS:
        if not isinstance(item.get("name"), str):
            return None
        arguments = item.get("arguments", item.get("input"))
        return [Message("assistant", calls=[make_call(item.get("call_id"), item["name"], arguments)])]
    if kind in _RESULTS or kind in _OWN_RESULTS:
        return [make_result(item.get("call_id"), item.get("output"))]
    if kind in _OWN_TOOLS:
        return [_own_tool(str(kind), item)]
    if kind == "reasoning" and ("summary" in item or "content" in item):
        parts = [*_dicts(item.get("summary")), *_dicts(item.get("content"))]
        text = "\n\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
        return [Message("assistant", reasoning=as_text(text))] if text else []
    return None


def _own_tool(kind: str, item: Json) -> Message:
    arguments = item.get("arguments", item.get("action"))
    if arguments is None:
        arguments = {name: value for name, value in item.items() if name not in _ITEM_NOISE and value is not None}
    call_id = item.get("call_id") or item.get("id")
    name = item.get("name") if kind == "mcp_call" else kind.removesuffix("_call")
    return Message("assistant", calls=[make_call(call_id, name, arguments)])


def join_items(before: Message, message: Message) -> Message:
    """One message of two items that make one answer: reasoning, text and calls follow each other."""
    reasoning = "\n\n".join(filter(None, [before.reasoning, message.reasoning]))
    parts = None
    if before.parts is not None or message.parts is not None:
        parts = [*_parts(before), *_parts(message)]
    return Message(
        "assistant",
        before.text + message.text,
        reasoning or None,
        [*before.calls, *message.calls],
        images=[*before.images, *message.images],
        parts=parts,
        name=before.name or message.name,
    )


def _parts(message: Message) -> list[Json]:
    if message.parts is not None:
        return message.parts
    return [{"type": "text", "text": message.text}] if message.text else []


def _dicts(value: Any) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
