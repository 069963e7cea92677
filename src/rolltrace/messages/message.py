"""The one type of message, whatever shape it came in, and what makes two of them the same.

A message holds what was said and nothing about the call: usage, ids of requests, parsed copies and empty fields stay
with the op. Its fingerprint leaves out what differs between a reply as it was produced and the same reply in the next
prompt: reasoning, ids of tool calls, the spacing of their arguments, white space around the text.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
import xxhash

from rolltrace.record import clean_text, to_json

Author = Literal["policy", "tool", "user", "environment", "system"]
Json = dict[str, Any]

MAX_CANONICAL_JSON = 1 << 20
"""Longer texts are compared as they are, not as JSON."""
_AUTHORS: dict[str, Author] = {
    "system": "system", "developer": "system", "tool": "tool", "function": "tool", "assistant": "policy",
}  # fmt: skip
_dump_json = json.JSONEncoder(ensure_ascii=False).encode
encode_sorted = msgspec.json.Encoder(order="sorted").encode


class ToolCall(msgspec.Struct, omit_defaults=True):
    """A call of a tool, as a model asks for it."""

    name: str
    arguments: str = ""
    """JSON text, or whatever the model wrote in its place."""
    id: str | None = None


class Message(msgspec.Struct, omit_defaults=True):
    """One message of a conversation."""

    role: str
    text: str = ""
    """All of its text, without reasoning and tool calls."""
    reasoning: str | None = None
    calls: list[ToolCall] = []
    tool_name: str | None = None
    """Of a tool result: which tool."""
    call_id: str | None = None
    """Of a tool result: which call it answers."""
    is_error: bool | None = None
    """Of a tool result: the tool said that it failed."""
    images: list[str] = []
    """Hashes of its images, in order."""
    parts: list[Json] | None = None
    """Its content as parts of OpenAI's chat format, if it is more than text."""
    name: str | None = None
    author: Author | None = None
    """Who said it; by default what the role says."""

    def __post_init__(self) -> None:
        if self.author is None:
            self.author = _AUTHORS.get(self.role, "user")

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing at all."""
        return not (self.text.strip() or (self.reasoning or "").strip() or self.calls or self.parts)

    def to_chat(self) -> Json:
        """The message in OpenAI's chat format."""
        content: Any = self.parts if self.parts is not None else self.text
        if not content and self.calls:
            content = None
        chat: Json = {"role": self.role, "content": content}
        if self.name is not None:
            chat["name"] = self.name
        elif self.tool_name is not None:
            chat["name"] = self.tool_name
        if self.reasoning:
            chat["reasoning_content"] = self.reasoning
        if self.calls:
            chat["tool_calls"] = [
                {
                    **({} if call.id is None else {"id": call.id}),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.calls
            ]
        if self.call_id is not None:
            chat["tool_call_id"] = self.call_id
        if self.is_error:
            chat["status"] = "error"
        return chat

    def spoken(self) -> str:
        """What it says as one text, with its tool calls."""
        calls = as_text([{"name": call.name, "arguments": call.arguments} for call in self.calls]) if self.calls else ""
        return "\n".join(filter(None, [self.text, calls]))


def fingerprint(message: Message) -> int:
    """A 64-bit hash of what a message says: the same for a reply and its repetition in a later prompt."""
    role = "tool" if message.role == "function" else message.role
    text = message.text.strip()
    if role == "tool":
        text = canonical_json(text)
    if not message.calls and message.parts is None:
        return xxhash.xxh3_64_intdigest(f"{role}\0{text}".encode("utf-8", "surrogatepass"))
    calls = [[call.name, canonical_json(call.arguments.strip() or "{}")] for call in message.calls]
    others = [part for part in message.parts or () if part.get("type") != "text"]
    if not calls and not others:
        return xxhash.xxh3_64_intdigest(f"{role}\0{text}".encode("utf-8", "surrogatepass"))
    return xxhash.xxh3_64_intdigest(encode_sorted([role, text, calls, others]))


def canonical_json(text: str) -> str:
    """JSON text in one spelling; any other text as it is."""
    if text[:1] not in ("{", "[") or len(text) > MAX_CANONICAL_JSON:
        return text
    try:
        return encode_sorted(msgspec.json.decode(text)).decode()
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return text


def as_text(value: Any) -> str:
    """A value as it would stand in a message."""
    if isinstance(value, str):
        return value if value.isascii() else clean_text(value)
    if value is None:
        return ""
    try:
        return clean_text(_dump_json(value))
    except (TypeError, ValueError):  # a marker, a key that is no text, an integer without decimals in Python
        return _dump_json(to_json(value))


def dicts(value: Any) -> list[Json]:
    """The dicts of a list; none of anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def to_genai(message: Message) -> Json:
    """A message as an entry of `gen_ai.input.messages` or `gen_ai.output.messages`."""
    if message.role in ("tool", "function"):
        response = message.parts if message.parts is not None else message.text
        return {
            "role": message.role,
            "parts": [{"type": "tool_call_response", "id": message.call_id, "response": response}],
        }
    parts: list[Json] = []
    if message.reasoning:
        parts.append({"type": "reasoning", "content": message.reasoning})
    if message.parts is None:
        if message.text or not message.calls:
            parts.append({"type": "text", "content": message.text})
    else:
        parts += map(_part, message.parts)
    for call in message.calls:
        parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments})
    return {"role": message.role, "parts": parts}


def _part(part: Json) -> Json:
    if part.get("type") == "text":
        return {"type": "text", "content": part.get("text", "")}
    return {"type": "generic", "content": part}
