"""Chat messages out of the attributes and events of spans, in OpenAI's chat format.

Four ways in which they are written: the GenAI conventions' JSON with parts (`gen_ai.input.messages`), their older
events (`gen_ai.user.message`, `gen_ai.choice`), OpenInference's flattened lists (`llm.input_messages.0.message.role`)
and Traceloop's (`gen_ai.prompt.0.content`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rolltrace.collect.otlp import SpanEvent
from rolltrace.messages import read_message

Message = dict[str, Any]
_WRAPPERS = frozenset({"message", "message_content", "tool_call", "image"})
_MAX_LEVELS, _MAX_DIGITS = 12, 6
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


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
            prompt.append({"role": _EVENT_ROLES[event.name], **_message_fields(fields)})
        elif event.name == "gen_ai.choice":
            message = fields.get("message")
            answers.append({"role": "assistant", **_message_fields(message if isinstance(message, dict) else fields)})
    return prompt, answers


def _message_fields(fields: dict[str, Any]) -> dict[str, Any]:
    field_names = ("role", "content", "tool_calls", "id", "name", "tool_call_id")
    message = {name: value for name, value in fields.items() if name in field_names and value is not None}
    if "id" in message:
        message.setdefault("tool_call_id", message.pop("id"))
    return message


def from_attributes(attributes: dict[str, Any], prefix: str, role: str) -> list[Message]:
    """Messages that were spread over attributes, as OpenInference and older releases of Traceloop write them.

    Args:
        attributes: Those of a span, such as `PREFIX.0.message.role`, or `PREFIX.0.role`.
        prefix: `llm.input_messages`, `llm.output_messages`, `gen_ai.prompt` or `gen_ai.completion`.
        role: Who speaks where nobody is named.
    """
    tree: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(f"{prefix}."):
            _plant(tree, name[len(prefix) + 1 :].split("."), value)
    messages = []
    for fields in _objects(_gather(tree)):
        own: Message = {"role": role, **{name: value for name, value in fields.items() if value is not None}}
        if isinstance(own.get("contents"), list):
            own.setdefault("content", [_content(part) for part in _objects(own["contents"])])
        if prefix.startswith("gen_ai."):  # Traceloop has the parts of a message as JSON
            own["content"] = parsed(own.get("content"))
        messages.append(own)
    return _read(messages)


def _plant(tree: dict[str, Any], path: list[str], value: Any) -> None:
    """Put a value where its path leads; without the words that OpenInference has around each message, part and call."""
    path = [part for part in path if part not in _WRAPPERS]
    if not 0 < len(path) <= _MAX_LEVELS:
        return
    for part in path[:-1]:
        inner = tree.setdefault(part, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    tree[path[-1]] = value


def _gather(tree: Any) -> Any:
    """What was planted, with lists in the place of objects whose names are numbers."""
    if not isinstance(tree, dict):
        return tree
    if all(part.isdecimal() and len(part) <= _MAX_DIGITS for part in tree):
        return [_gather(tree[part]) for part in sorted(tree, key=int)]
    return {name: _gather(value) for name, value in tree.items()}


def _content(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "image":
        return {"type": "image_url", "image_url": {"url": part.get("url")}}
    return {"type": "text", "text": part.get("text", "")} if part.get("type", "text") == "text" else part


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
