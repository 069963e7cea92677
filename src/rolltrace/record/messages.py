"""Messages as OpenAI's chat format has them, read from the forms that SDKs and frameworks give them.

Understood are dicts with a `role`, those of LangChain (`type: human`), Anthropic's content blocks, Gemini's parts, the
items of OpenAI's responses, and pairs of role and text. What is about the call and not about what was said (usage, ids,
empty fields) is left out: it stays with the op. Nothing is lost that a model said or saw; parts that are no text stay
as they are.
"""

from __future__ import annotations

import json
from typing import Any

from rolltrace.record.tokens import TOKEN_NAMES, TOKEN_SCALARS

Message = dict[str, Any]

_ROLES = {
    "human": "user", "ai": "assistant", "model": "assistant",
    "HumanMessageChunk": "user", "AIMessageChunk": "assistant", "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool", "FunctionMessageChunk": "function",
}  # fmt: skip
"""What LangChain and Gemini call the roles that all others call otherwise."""
_TYPES = frozenset(_ROLES) | {"system", "tool", "function", "developer"}
"""The types of LangChain's messages."""
_PAIR_ROLES = frozenset({"human", "ai", "user", "assistant", "system", "developer", "tool"})
_ABOUT_THE_CALL = frozenset(
    {"id", "type", "object", "created", "model", "model_name", "index", "usage", "usage_metadata", "response_metadata",
     "additional_kwargs", "invalid_tool_calls", "tool_call_chunks", "stop_sequence", "stop_details", "example",
     "artifact", "annotations", "container", "context_management", "phase", "chunk_position", "text", "parts"}
    | {name for names in (*TOKEN_NAMES.values(), *TOKEN_SCALARS.values()) for name in names}
)  # fmt: skip
_EMPTY: tuple[Any, ...] = (None, [], {}, "")
_CALLS = ("function_call", "custom_tool_call")
_RESULTS = ("function_call_output", "custom_tool_call_output")
_ITEMS = (*_CALLS, *_RESULTS, "reasoning")
"""The items of OpenAI's responses that are no messages."""
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_THOUGHTS = {"thinking": "thinking", "reasoning": "reasoning", "reasoning_content": "reasoning_content"}
"""The type of a part that holds reasoning, and where its text stands."""


def read_messages(values: Any) -> list[Message] | None:
    """All of these as messages; None if any of them is none."""
    if not isinstance(values, list) or not values:
        return None
    conversation: list[Message] = []
    was_item = False
    for value in values:
        messages = _read(value)
        if messages is None:
            return None
        is_item = isinstance(value, dict) and value.get("role") is None and value.get("type") in _ITEMS
        for message in messages:
            goes_on = bool(conversation) and conversation[-1]["role"] == message["role"] == "assistant"
            if goes_on and (is_item or was_item):
                conversation[-1] = _merged(conversation[-1], message)
            else:
                conversation.append(message)
        was_item = is_item
    return conversation or None


def is_message(value: Any) -> bool:
    """Whether this is one message, or an item of a conversation."""
    return not isinstance(value, list) and _read(value) is not None


def assistant(content: Any, holder: dict[str, Any]) -> Message:
    """What a model answered, from the content and the dict that it stands in."""
    beside = {name: holder[name] for name in BESIDES if name in holder}
    return _of_role("assistant", {**beside, "content": content})[-1]


BESIDES = (
    "tool_calls", "invalid_tool_calls", "function_call", "reasoning_content", "reasoning", "thinking", "refusal",
    "audio",
)  # fmt: skip
"""What a model may answer beside text."""


def text_of(message: Message) -> str:
    """The text of a message, without what stands in other parts of it."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def has_more(message: Message) -> bool:
    """Whether there is something beside the text: tool calls, reasoning, parts of another kind."""
    content = message.get("content")
    others = isinstance(content, list) and any(not _is_text(part) for part in content)
    return others or any(message.get(name) for name in BESIDES)


def _read(value: Any) -> list[Message] | None:
    if isinstance(value, list):
        is_pair = len(value) == 2 and isinstance(value[0], str) and value[0] in _PAIR_ROLES
        return _of_role(value[0], {"content": value[1]}) if is_pair else None
    if not isinstance(value, dict):
        return None
    role, kind = value.get("role"), value.get("type")
    if isinstance(role, str):
        return _of_role(role, value)
    if not isinstance(kind, str):
        # Gemini's contents may leave out that the user says them.
        return _of_role("user", value) if isinstance(value.get("parts"), list) else None
    if kind in _TYPES:
        data = value.get("data")
        if isinstance(data, dict) and "content" in data:  # as LangChain's `messages_to_dict` writes them
            value = data
        return _of_role(kind, value) if "content" in value else None
    return _of_item(kind, value)


def _of_item(kind: str, item: dict[str, Any]) -> list[Message] | None:
    """An item of OpenAI's responses that is no message."""
    if kind in _CALLS and isinstance(item.get("name"), str):
        arguments = item.get("arguments", item.get("input"))
        call = _call(item.get("call_id"), item["name"], arguments)
        return [{"role": "assistant", "content": None, "tool_calls": [call]}]
    if kind in _RESULTS:
        return [_result(item.get("call_id"), item.get("output"))]
    if kind == "reasoning" and ("summary" in item or "content" in item):
        parts = [*_parts(item.get("summary")), *_parts(item.get("content"))]
        text = "\n\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
        return [{"role": "assistant", "content": None, "reasoning_content": text}] if text else []
    return None


def _merged(before: Message, message: Message) -> Message:
    """One message of two items of a response that make one answer: reasoning, text and calls follow each other."""
    merged = {**before, **message}
    calls = [*before.get("tool_calls", ()), *message.get("tool_calls", ())]
    if calls:
        merged["tool_calls"] = calls
    merged["content"] = before["content"] if message["content"] is None else message["content"]
    return merged


def _of_role(role: str, raw: dict[str, Any]) -> list[Message]:
    """A message, after the results of tools that Anthropic puts into the user's."""
    more = raw.get("additional_kwargs")
    fields = {**more, **raw} if isinstance(more, dict) else raw
    raw_content = next((raw[name] for name in ("content", "text", "parts") if name in raw), None)
    content, calls, thoughts, results = _content(raw_content)
    own_calls = fields.get("tool_calls")
    if isinstance(own_calls, list) and (own_calls or fields.get("invalid_tool_calls")):
        calls = [_own_call(call) for call in own_calls]
        broken = fields.get("invalid_tool_calls")
        calls += [_own_call(call) for call in broken] if isinstance(broken, list) else []
    if results and (content is None or content == ""):
        return results
    role = _ROLES.get(role, role)
    message: Message = {"role": role, "content": content}
    if not fields.keys() <= message.keys():
        message.update(
            (name, value) for name, value in fields.items()
            if name not in message and name not in _ABOUT_THE_CALL and name not in ("tool_calls", "status")
            and isinstance(name, str) and value not in _EMPTY
        )  # fmt: skip
    if raw.get("status") == "error":
        message["status"] = "error"
    if thoughts and "reasoning_content" not in message:
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return [*results, message]


def _content(content: Any) -> tuple[Any, list[Any], list[str], list[Message]]:
    """Text, or a list if there are parts that are no text; calls of tools, reasoning, and results of tools in it."""
    if not isinstance(content, list):
        return content, [], [], []
    parts: list[Any] = []
    calls: list[Any] = []
    thoughts: list[str] = []
    results: list[Message] = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "tool_use" or (kind == "tool_call" and "args" in part):
            calls.append(_call(part.get("id"), part.get("name"), part.get("input", part.get("args"))))
        elif kind == "tool_result":
            results.append(_result(part.get("tool_use_id"), part.get("content"), failed=part.get("is_error") is True))
        elif kind is None and isinstance(call := _gemini(part, "function_call", "functionCall"), dict):
            calls.append(_call(call.get("id"), call.get("name"), call.get("args")))
        elif kind is None and isinstance(result := _gemini(part, "function_response", "functionResponse"), dict):
            name = result.get("name")
            answer = _result(result.get("id"), _as_text(result.get("response")))
            results.append({**answer, **({"name": name} if isinstance(name, str) else {})})
        elif kind is None and _gemini(part, "thought") is True:
            thoughts.append(_text(part) if _is_text(part) else "")
        elif kind in _THOUGHTS and isinstance(part.get(_THOUGHTS[kind]), str):
            thoughts.append(part[_THOUGHTS[kind]])
        elif kind != "redacted_thinking":
            parts.append({"type": "text", "text": _text(part)} if _is_text(part) else part)
    if all(_is_text(part) for part in parts):
        text = "".join(_text(part) for part in parts)
        return text if parts or not calls else None, calls, thoughts, results
    return parts, calls, thoughts, results


def _gemini(part: Any, *names: str) -> Any:
    """What a part of Gemini's holds, under the name of its SDK or of its service."""
    return next((part[name] for name in names if name in part), None) if isinstance(part, dict) else None


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _is_text(part: Any) -> bool:
    if isinstance(part, str):
        return True
    return isinstance(part, dict) and isinstance(part.get("text"), str) and part.get("type", "text") in _TEXT_PARTS


def _text(part: Any) -> str:
    return part if isinstance(part, str) else str(part["text"])


def _parts(value: Any) -> list[dict[str, Any]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _result(call_id: Any, content: Any, *, failed: bool = False) -> Message:
    """What a tool answered."""
    message = {"role": "tool", "content": _content(content)[0], **({"tool_call_id": call_id} if call_id else {})}
    return {**message, "status": "error"} if failed else message


def _own_call(call: Any) -> Any:
    """A call of a tool in the form of OpenAI; one that is not understood stays as it is."""
    if not isinstance(call, dict):
        return call
    if isinstance(call.get("function"), dict):
        return {name: value for name, value in call.items() if name != "index" and value is not None}
    if isinstance(call.get("name"), str) and "args" in call:
        return _call(call.get("id"), call["name"], call["args"])
    return call


def _call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    return {
        **({"id": call_id} if call_id else {}),
        "type": "function",
        "function": {"name": name, "arguments": _as_text(arguments)},
    }
