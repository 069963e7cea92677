"""Messages that have a role: OpenAI's chat format, Anthropic's, and the chat lists of verl, tinker and TRL.

They differ in what their content holds, which `content` reads. A result of a tool that stands inside a user's message,
as Anthropic has it, becomes a message of its own before it.
"""

from __future__ import annotations

from typing import Any

from rolltrace.messages.content import make_call, read_content
from rolltrace.messages.message import Json, Message, ToolCall, as_text
from rolltrace.messages.tags import read_tagged_results, split_reasoning, take_calls

ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "gpt": "assistant"}
"""What LangChain, Gemini and datasets call the roles that all others call otherwise."""
PAIR_ROLES = frozenset({"human", "ai", "user", "assistant", "system", "developer", "tool"})
_CONTENT_KEYS = ("content", "text", "parts")
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
"""Servers give one of these, or the same text under two of them."""
_REASONING_NAMES = frozenset({*_REASONING_KEYS, "reasoning_details"})
_CALL_NAMES = frozenset({"tool_calls", "invalid_tool_calls", "function_call"})
_PLAIN_KEYS = frozenset({"role", "content", "type"})


def read_pair(value: list[Any]) -> list[Message] | None:
    """A pair of role and text; None if it is none."""
    if len(value) != 2 or not isinstance(value[0], str) or value[0] not in PAIR_ROLES:
        return None
    return read_role(value[0], {"content": value[1]})


def read_role(role: str, fields: Json) -> list[Message]:
    """A message with a role, after the results of tools that stand in it."""
    role = ROLES.get(role) or (role if role.isascii() else as_text(role))
    text = fields.get("content")
    if type(text) is str:  # as most are
        message = Message(role, text if text.isascii() else as_text(text))
        _read_beside(message, fields)
        return [message]
    content = read_content(next((fields[name] for name in _CONTENT_KEYS if fields.get(name) is not None), None))
    message = content.fill(Message(role))
    message.reasoning, message.calls = content.reasoning, content.calls
    _read_beside(message, fields)
    if content.results and message.is_empty:
        return content.results
    return [*content.results, message]


def _read_beside(message: Message, fields: Json) -> None:
    """Read what stands beside the content, and what stands between tags in it."""
    role = message.role
    if not fields.keys() <= _PLAIN_KEYS:
        message.reasoning = _reasoning(fields) or message.reasoning
        message.calls = read_calls(fields) or message.calls
        if isinstance(fields.get("name"), str):
            message.name = as_text(fields["name"])
        if role == "assistant":
            _read_voice(message, fields)
        elif role in ("tool", "function"):
            _read_result(message, fields)
    if role == "assistant":
        read_tags(message)
    elif role == "user" and read_tagged_results(message.text) is not None:
        message.author = "tool"


def _reasoning(fields: Json) -> str | None:
    if _REASONING_NAMES.isdisjoint(fields):
        return None
    for name in _REASONING_KEYS:
        if isinstance(fields.get(name), str) and fields[name]:
            return as_text(fields[name])
    details = fields.get("reasoning_details")
    texts = [
        each["text"]
        for each in (details if isinstance(details, list) else ())
        if isinstance(each, dict) and isinstance(each.get("text"), str)
    ]
    return as_text("".join(texts)) or None


def read_calls(fields: Json) -> list[ToolCall]:
    """The tool calls that stand beside the content; those that cannot be parsed are still what the model said."""
    if _CALL_NAMES.isdisjoint(fields):
        return []
    calls = [
        _read_call(call)
        for name in ("tool_calls", "invalid_tool_calls")
        for call in (fields[name] if isinstance(fields.get(name), list) else ())
    ]
    single = fields.get("function_call")
    if not calls and isinstance(single, dict) and isinstance(single.get("name"), str):  # before there were tools
        calls.append(make_call(None, single["name"], single.get("arguments")))
    return calls


def _read_call(call: Any) -> ToolCall:
    if not isinstance(call, dict):
        return make_call(None, None, call)
    for name in ("function", "custom"):
        if isinstance(call.get(name), dict):
            inner = call[name]
            return make_call(call.get("id"), inner.get("name"), inner.get("arguments", inner.get("input")))
    arguments = next((call[name] for name in ("args", "arguments", "input") if name in call), None)
    return make_call(call.get("id", call.get("tool_call_id")), call.get("name"), arguments)


def _read_voice(message: Message, fields: Json) -> None:
    """What a model may say beside text: that it refuses, or by voice."""
    refusal, audio = fields.get("refusal"), fields.get("audio")
    if isinstance(refusal, str) and refusal and not message.text:
        message.text = as_text(refusal)
        message.parts = [*(message.parts or ()), {"type": "refusal", "refusal": message.text}]
    if isinstance(audio, dict) and audio:
        transcript = audio.get("transcript")
        if isinstance(transcript, str) and not message.text:
            message.text = as_text(transcript)
        part = {name: audio[name] for name in ("id", "transcript") if isinstance(audio.get(name), str)}
        message.parts = [*(message.parts or ()), {"type": "audio", "audio": part}]


def read_tags(message: Message) -> None:
    """Take reasoning and tool calls out of the text of a model's message, if nobody has done so before."""
    if ">" not in message.text:
        return
    thought = split_reasoning(message.text)
    asked = take_calls(thought.text) if not message.calls else None
    calls = asked.calls if asked is not None else []
    if thought.text is message.text and not calls:
        return
    message.text = thought.text if asked is None else asked.text
    message.reasoning = message.reasoning or thought.reasoning
    message.calls = calls or message.calls
    if message.parts is not None:
        others = [part for part in message.parts if part.get("type") != "text"]
        message.parts = [{"type": "text", "text": message.text}, *others] if message.text else others


def _read_result(message: Message, fields: Json) -> None:
    call_id = fields.get("tool_call_id", fields.get("tool_use_id"))
    message.call_id = as_text(call_id) if call_id else None
    message.tool_name, message.name = message.name, None
    if fields.get("status") == "error" or fields.get("is_error") is True:
        message.is_error = True
    if message.tool_name is None and isinstance(fields.get("tool_name"), str):
        message.tool_name = as_text(fields["tool_name"])
