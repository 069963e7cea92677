"""The content of a message, whoever's format it is in: text, or a list of parts, each read by what it says it is.

Frameworks put the parts of one provider into the messages of another (LangChain has Anthropic's blocks and the items of
OpenAI's responses, LiteLLM has Gemini's), so there is one table of parts and not one per provider.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rolltrace.messages.message import Json, Message, ToolCall, as_arguments, as_text
from rolltrace.record import BLOB_NAME, Cut, Image, to_json

MAX_IMAGE_DEPTH = 4
_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_PART_NOISE = frozenset({"cache_control", "annotations", "logprobs", "thoughtSignature", "thought_signature", "extras"})
"""What servers and clients add to a part, and is not said."""


@dataclass
class Content:
    """What was found in a content."""

    texts: list[str] = field(default_factory=list)
    parts: list[Json] = field(default_factory=list)
    """All of it in order, except reasoning, calls and results."""
    has_more: bool = False
    """Some of the parts are no text."""
    thoughts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    results: list[Message] = field(default_factory=list)
    images: list[str] = field(default_factory=list)

    def add_text(self, text: str) -> None:
        text = as_text(text)
        self.texts.append(text)
        self.parts.append({"type": "text", "text": text})

    def add_part(self, part: Json) -> None:
        self.parts.append(part)
        self.has_more = True

    @property
    def text(self) -> str:
        return self.texts[0] if len(self.texts) == 1 else "".join(self.texts)

    @property
    def reasoning(self) -> str | None:
        return "".join(self.thoughts) or None

    def fill(self, message: Message) -> Message:
        """Put text, parts and images into a message; results and calls are its shape's to place."""
        message.text = self.text
        message.parts = self.parts if self.has_more else None
        message.images = self.images
        return message


def read_content(value: Any) -> Content:
    """Read a content: a text, a list of parts, or anything that somebody gave in its place."""
    content = Content()
    for part in value if isinstance(value, list) else [value]:
        _add(content, part)
    return content


def _add(content: Content, part: Any) -> None:
    if part is None:
        return
    if isinstance(part, str):
        content.add_text(part)
    elif isinstance(part, dict):
        _add_dict(content, part)
    elif isinstance(part, Image):
        _add_image(content, to_json(part))
    elif isinstance(part, Cut) and isinstance(part.kept, str):
        content.add_text(part.kept)
        content.add_part({"type": "cut", "full_length": part.full_length})
    else:
        content.add_text(as_text(part))


def _add_dict(content: Content, part: Json) -> None:
    kind = part.get("type")
    image = find_image(part)
    if image is not None and kind not in ("tool_result", "tool_call_response") and "functionResponse" not in part:
        _add_image(content, image)
        return
    text = part.get("text")
    if isinstance(text, str) and (kind is None or (isinstance(kind, str) and kind in _TEXT_TYPES)):
        if part.get("thought") is True:  # Gemini
            content.thoughts.append(as_text(text))
        else:
            content.add_text(text)
        return
    read = _BY_TYPE.get(kind) if isinstance(kind, str) else None
    if read is not None and read(content, part):
        return
    if kind is None and any(name in part and take(content, part[name]) for name, take in _BY_KEY.items()):
        return
    url = _image_url(part)
    if url is not None:
        content.add_part({"type": "image_url", "image_url": {"url": url}})
        return
    plain = to_json(part)
    content.add_part({name: item for name, item in plain.items() if name not in _PART_NOISE and item is not None})


def _add_image(content: Content, image: Json) -> None:
    name = image["$image"].get("hash")
    if isinstance(name, str) and BLOB_NAME.fullmatch(name):
        content.images.append(name)
    content.add_part({"type": "image", "image": image})


def find_image(value: Any, depth: int = 0) -> Json | None:
    """The image that stands in a part, as JSON: `{"$image": {...}}`; None if there is none."""
    is_json = isinstance(value, dict) and value.keys() == {"$image"} and isinstance(value["$image"], dict)
    if isinstance(value, Image) or is_json:
        image: Json = to_json(value)
        return image
    if not isinstance(value, dict):
        return None
    if depth < MAX_IMAGE_DEPTH:
        for item in value.values():
            inside = find_image(item, depth + 1) if isinstance(item, dict | Image) else None
            if inside is not None:
                return inside
    return None


def _image_url(part: Json) -> str | None:
    """The address of an image that was not sent along."""
    place = part.get("image_url", part.get("image") if part.get("type") == "image" else None)
    url = place.get("url") if isinstance(place, dict) else place
    source = part.get("source")
    if url is None and part.get("type") == "image" and isinstance(source, dict):  # Anthropic
        url = source.get("url")
    return as_text(url) if isinstance(url, str) else None


def _thought(name: str) -> Callable[[Content, Json], bool]:
    def read(content: Content, part: Json) -> bool:
        text = part.get(name, part.get("content", part.get("text")))
        if isinstance(text, str):
            content.thoughts.append(as_text(text))
            return True
        pieces = [*_dicts(part.get("summary")), *_dicts(part.get("content"))]
        texts = [as_text(each["text"]) for each in pieces if isinstance(each.get("text"), str)]
        content.thoughts += texts
        return bool(texts) or not pieces

    return read


def _dicts(value: Any) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _tool_use(content: Content, part: Json) -> bool:
    arguments = next((part[name] for name in ("input", "args", "arguments") if name in part), None)
    content.calls.append(make_call(part.get("id"), part.get("name"), arguments))
    return True


def _tool_result(content: Content, part: Json) -> bool:
    body = next((part[name] for name in ("content", "result", "response") if name in part), None)
    call_id = part.get("tool_use_id", part.get("id"))
    content.results.append(make_result(call_id, body, failed=part.get("is_error") is True))
    return True


def _text_content(content: Content, part: Json) -> bool:
    """A text of OpenTelemetry's GenAI conventions."""
    if isinstance(part.get("content"), str):
        content.add_text(part["content"])
        return True
    return False


def _refusal(content: Content, part: Json) -> bool:
    if isinstance(part.get("refusal"), str):
        text = as_text(part["refusal"])
        content.texts.append(text)
        content.add_part({"type": "refusal", "refusal": text})
        return True
    return False


def _skip(content: Content, part: Json) -> bool:
    return True


def _function_call(content: Content, call: Any) -> bool:
    if not isinstance(call, dict):
        return False
    content.calls.append(make_call(call.get("id"), call.get("name"), call.get("args", call.get("arguments"))))
    return True


def _function_response(content: Content, result: Any) -> bool:
    if not isinstance(result, dict):
        return False
    body = result.get("response")
    if isinstance(body, dict) and len(body) == 1 and isinstance(next(iter(body.values())), str):
        failed = "error" in body
        body = next(iter(body.values()))  # {"result": "..."}, {"output": "..."}, {"error": "..."}
    else:
        failed = False
    message = make_result(result.get("id"), body, failed=failed)
    message.tool_name = as_text(result["name"]) if isinstance(result.get("name"), str) else None
    content.results.append(message)
    return True


_BY_TYPE: dict[str, Callable[[Content, Json], bool]] = {
    "thinking": _thought("thinking"),
    "reasoning": _thought("reasoning"),
    "reasoning_content": _thought("reasoning_content"),
    "redacted_thinking": _skip,
    "tool_use": _tool_use,
    "tool_call": _tool_use,
    "input_json_delta": _skip,
    "tool_result": _tool_result,
    "tool_call_response": _tool_result,
    "text": _text_content,
    "refusal": _refusal,
}
_BY_KEY: dict[str, Callable[[Content, Any], bool]] = {
    "functionCall": _function_call,
    "function_call": _function_call,
    "functionResponse": _function_response,
    "function_response": _function_response,
}
"""Parts of Gemini say what they are by the one field that they have."""


def make_call(call_id: Any, name: Any, arguments: Any) -> ToolCall:
    """A tool call of what a provider says about it."""
    return ToolCall(as_text(name) or "tool", as_arguments(arguments), as_text(call_id) if call_id else None)


def make_result(call_id: Any, body: Any, *, failed: bool = False) -> Message:
    """The message of a tool that answers a call."""
    inner = [body] if isinstance(body, dict) and "type" not in body and "text" not in body else body
    content = read_content(as_text(inner[0]) if inner is not body else body)
    message = content.fill(Message("tool"))
    message.call_id = as_text(call_id) if call_id else None
    message.is_error = True if failed else None
    return message
