"""Chat messages out of the attributes and events of spans, in OpenAI's chat format.

Four ways in which they are written: the GenAI conventions' JSON with parts (`gen_ai.input.messages`), their older
events (`gen_ai.user.message`, `gen_ai.choice`), OpenInference's flattened lists (`llm.input_messages.0.message.role`)
and Traceloop's (`gen_ai.prompt.0.content`).
"""

from __future__ import annotations

import json
import re
from typing import Any

from rolltrace.collect.otlp import SpanEvent

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
    messages: list[Message] = []
    for each in _objects(parsed(value)):
        parts = each.get("parts")
        if isinstance(parts, list):
            messages += _message(str(each.get("role") or "user"), [part for part in parts if isinstance(part, dict)])
        else:
            messages.append({"role": "user", **each})
    return messages


def system_of(value: Any) -> list[Message]:
    """`gen_ai.system_instructions`: parts without a role."""
    value = parsed(value)
    if isinstance(value, str) and value:
        return [{"role": "system", "content": value}]
    parts = _objects(value)
    return _message("system", parts) if parts else []


def _message(role: str, parts: list[dict[str, Any]]) -> list[Message]:
    """One message; a result of a tool is a message of its own."""
    message: Message = {"role": role, "content": None}
    results: list[Message] = []
    texts: list[str] = []
    others: list[dict[str, Any]] = []
    for part in parts:
        kind, content = part.get("type"), part.get("content")
        if kind == "text" and isinstance(content, str):
            texts.append(content)
        elif kind in ("reasoning", "thinking") and isinstance(content, str):
            message["reasoning_content"] = message.get("reasoning_content", "") + content
        elif kind == "tool_call":
            call = {"name": part.get("name"), "arguments": part.get("arguments")}
            message.setdefault("tool_calls", []).append({"id": part.get("id"), "type": "function", "function": call})
        elif kind == "tool_call_response":
            result = part.get("result", part.get("response"))
            results.append({"role": "tool", "tool_call_id": part.get("id"), "content": result})
        else:
            others.append(part)
    if others:
        message["content"] = [*({"type": "text", "text": text} for text in texts), *others]
    elif texts:
        message["content"] = "\n".join(texts) if role != "assistant" else "".join(texts)
    says_more = message["content"] is not None or len(message) > 2
    return [*results, message] if says_more or not results else results


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
