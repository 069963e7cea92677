"""Chat messages out of the attributes and events of spans, in OpenAI's chat format.

Four ways in which they are written: the GenAI conventions' JSON with parts (`gen_ai.input.messages`), their older
events (`gen_ai.user.message`, `gen_ai.choice`), OpenInference's flattened lists (`llm.input_messages.0.message.role`)
and Traceloop's (`gen_ai.prompt.0.content`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from rolltrace.collect.otlp import SpanEvent
from rolltrace.messages import read_message

Message = dict[str, Any]
_INDEX = re.compile(r"(\d{1,6})(?:\.(.*))?")
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_MOST_MESSAGES = 100_000


def parsed(value: Any) -> Any:
    """What JSON in a text stands for; the value itself if it is none."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def from_parts(value: Any) -> list[Message]:
    """Messages of the GenAI conventions, as JSON text or as values: roles and parts."""
    return _read({"role": "user", **each} for each in _objects(parsed(value)))


def system_of(value: Any) -> list[Message]:
    """`gen_ai.system_instructions`: text, or parts without a role."""
    value = parsed(value)
    content = value if isinstance(value, str) else _objects(value)
    return _read([{"role": "system", "content": content}]) if content else []


def _read(values: Iterable[Message]) -> list[Message]:
    return [message.to_chat() for value in values for message in read_message(value) or ()]


def from_events(events: list[SpanEvent]) -> tuple[list[Message], list[Message]]:
    """What was said before and what was answered, from the older events of the GenAI conventions."""
    prompt, answers = [], []
    for event in events:
        fields = {name: parsed(value) for name, value in event.attributes.items()}
        if event.name in _EVENT_ROLES:
            prompt.append({"role": _EVENT_ROLES[event.name], **_without_names(fields)})
        elif event.name == "gen_ai.choice":
            message = fields.get("message")
            inner = message if isinstance(message, dict) else fields
            answers.append({"role": "assistant", **_without_names(inner)})
    return prompt, answers


def _without_names(fields: dict[str, Any]) -> dict[str, Any]:
    field_names = ("role", "content", "tool_calls", "id", "name", "tool_call_id")
    message = {name: value for name, value in fields.items() if name in field_names and value is not None}
    if "id" in message:
        message.setdefault("tool_call_id", message.pop("id"))
    return message


def flattened(attributes: dict[str, Any], prefix: str) -> list[Any]:
    """A list that was spread over attributes `PREFIX.0.NAME`, with what is in it put together again."""
    items: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        match = _INDEX.fullmatch(name[len(prefix) :]) if name.startswith(prefix) else None
        if match is not None and len(items) < _MOST_MESSAGES:
            item = items.setdefault(int(match[1]), {})
            item[match[2] or ""] = value
    return [items[at] for at in sorted(items)]


def from_openinference(attributes: dict[str, Any], prefix: str) -> list[Message]:
    """`llm.input_messages.` or `llm.output_messages.`"""
    messages = []
    for fields in flattened(attributes, prefix):
        own = {name.removeprefix("message."): value for name, value in fields.items()}
        message: Message = {"role": own.get("role") or "user", "content": own.get("content")}
        contents = flattened(own, "contents.")
        if contents and message["content"] is None:
            message["content"] = [_content(each) for each in contents]
        calls = flattened(own, "tool_calls.")
        if calls:
            message["tool_calls"] = [
                {
                    "id": call.get("tool_call.id"),
                    "type": "function",
                    "function": {
                        "name": call.get("tool_call.function.name"),
                        "arguments": call.get("tool_call.function.arguments"),
                    },
                }
                for call in calls
            ]
        for name in ("tool_call_id", "name"):
            if own.get(name) is not None:
                message[name] = own[name]
        messages.append(message)
    return messages


def _content(fields: dict[str, Any]) -> dict[str, Any]:
    own = {name.removeprefix("message_content."): value for name, value in fields.items()}
    if own.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": own.get("image.image.url")}}
    return {"type": "text", "text": own.get("text", "")} if own.get("type", "text") == "text" else own


def from_traceloop(attributes: dict[str, Any], prefix: str) -> list[Message]:
    """`gen_ai.prompt.` or `gen_ai.completion.`, as older releases write them."""
    messages = []
    for fields in flattened(attributes, prefix):
        role = fields.get("role") or ("assistant" if "completion" in prefix else "user")
        message: Message = {"role": role, "content": parsed(fields.get("content"))}
        calls = flattened(fields, "tool_calls.")
        if calls:
            message["tool_calls"] = [
                {
                    "id": call.get("id"),
                    "type": "function",
                    "function": {"name": call.get("name"), "arguments": call.get("arguments")},
                }
                for call in calls
            ]
        if fields.get("tool_call_id") is not None:
            message["tool_call_id"] = fields["tool_call_id"]
        messages.append(message)
    return messages


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
