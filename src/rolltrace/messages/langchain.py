"""Messages of LangChain: objects as they are recorded, `messages_to_dict`, and chunks."""

from __future__ import annotations

from rolltrace.messages.chat import read_role
from rolltrace.messages.message import Json, Message

_ROLES = {
    "human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function",
    "developer": "developer", "HumanMessageChunk": "user", "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system", "ToolMessageChunk": "tool", "FunctionMessageChunk": "function",
}  # fmt: skip
"""The types of its messages, and whose they are."""
_CONSTRUCTORS = {
    "HumanMessage": "user", "AIMessage": "assistant", "SystemMessage": "system", "ToolMessage": "tool",
    "FunctionMessage": "function",
}  # fmt: skip


def read_langchain(value: Json) -> list[Message] | None:
    """A message of LangChain; None if it is none."""
    kind = value.get("type")
    if kind == "constructor":  # as its callbacks and `dumps` write them
        return _read_constructor(value)
    role = _ROLES.get(kind) if isinstance(kind, str) else None
    if role is None:
        return None
    data = value.get("data")
    fields = data if isinstance(data, dict) and "content" in data else value
    return _read(role, fields) if "content" in fields else None


def _read_constructor(value: Json) -> list[Message] | None:
    names, fields = value.get("id"), value.get("kwargs")
    last = names[-1] if isinstance(names, list) and names else None
    role = _CONSTRUCTORS.get(last.removesuffix("Chunk")) if isinstance(last, str) else None
    return _read(role, fields) if role is not None and isinstance(fields, dict) and "content" in fields else None


def _read(role: str, fields: Json) -> list[Message]:
    more = fields.get("additional_kwargs")
    if not isinstance(more, dict) or not more:
        return read_role(role, fields)
    own = {name: value for name, value in fields.items() if value is not None and value != []}
    if own.get("tool_calls") or own.get("invalid_tool_calls"):
        more = {name: value for name, value in more.items() if name != "tool_calls"}  # the same, unparsed
    return read_role(role, {**more, **own})
