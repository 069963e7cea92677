"""A list of messages, each in the shape that it has.

Shapes are told apart by what a value is: a pair, a dict with a role (`chat`), with LangChain's types (`langchain`), or
an item of OpenAI's responses (`responses`). Gemini's contents have a role and parts and are read as `chat`.
"""

from __future__ import annotations

from typing import Any

from rolltrace.messages.chat import read_pair, read_role
from rolltrace.messages.langchain import read_langchain
from rolltrace.messages.message import Message
from rolltrace.messages.responses import is_item, join_items, read_item


def read_message(value: Any) -> list[Message] | None:
    """The messages of one item of a conversation, usually one; None if it is no such item."""
    if isinstance(value, list):
        return read_pair(value)
    if not isinstance(value, dict):
        return None
    role = value.get("role")
    if isinstance(role, str):
        return read_role(role, value)
    sender, said = value.get("from"), value.get("value")
    if isinstance(sender, str) and isinstance(said, str):  # datasets in the form of ShareGPT
        return read_role(sender, {"content": said})
    if not isinstance(value.get("type"), str):  # Gemini's contents may leave out that the user says them
        return read_role("user", value) if isinstance(value.get("parts"), list) else None
    return read_item(value) if is_item(value) else read_langchain(value)


def read_messages(values: Any) -> list[Message] | None:
    """All of these as messages; None if any of them is none, or if there is nothing."""
    if not isinstance(values, list) or not values:
        return None
    conversation: list[Message] = []
    was_item = False
    for value in values:
        messages = read_message(value)
        if messages is None:
            return None
        item = is_item(value)
        for message in messages:
            if (item or was_item) and conversation and conversation[-1].role == message.role == "assistant":
                conversation[-1] = join_items(conversation[-1], message)
            else:
                conversation.append(message)
        was_item = item
    name_tools(conversation)
    return conversation or None


def name_tools(conversation: list[Message]) -> None:
    """Say of each tool result which tool it is of, where only the call says so."""
    names: dict[str, str] = {}
    for message in conversation:
        for call in message.calls:
            if call.id is not None:
                names[call.id] = call.name
        if message.tool_name is None and message.call_id is not None:
            message.tool_name = names.get(message.call_id)


def is_message(value: Any) -> bool:
    """Whether this is one message, or an item of a conversation."""
    return not isinstance(value, list) and read_message(value) is not None
