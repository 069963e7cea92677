"""The content of a message, whoever's format it is in: text, or a list of parts, each read by what it says it is.

Frameworks put the parts of one provider into the messages of another (LangChain has Anthropic's blocks and the items of
OpenAI's responses, LiteLLM has Gemini's), so there is one table of parts and not one per provider. What a model wrote
between tags in its text (reasoning, tool calls, results of tools), because its server has no parser, is read here too:
so a reply is the same message either way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rolltrace.messages.message import Json, Message, ToolCall, as_text, dicts
from rolltrace.record import BLOB_NAME, Cut, Image, to_json

MAX_IMAGE_DEPTH = 4
_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_PART_NOISE = frozenset({"cache_control", "annotations", "logprobs", "thoughtSignature", "thought_signature", "extras"})
"""What servers and clients add to a part, and is not said."""
_THINK = re.compile(r"\s*<think>(.*?)(?:</think>|\Z)", re.DOTALL)
_CALL = re.compile(r"\s*<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_RESULTS = re.compile(r"\s*(?:<tool_response>.*?</tool_response>\s*)+", re.DOTALL)
_RESULT = re.compile(r"<tool_response>\n?(.*?)\n?</tool_response>", re.DOTALL)
_XML_CALL = re.compile(r"<function=([^>\n]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_XML_ARGUMENT = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)


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

    def fill(self, message: Message) -> Message:
        """Put text, parts and images into a message; results and calls are its shape's to place."""
        message.text = self.texts[0] if len(self.texts) == 1 else "".join(self.texts)
        message.parts = self.parts if self.has_more else None
        message.images = self.images
        return message


def read_content(value: Any) -> Content:
    """Read a content: a text, a list of parts, or anything that somebody gave in its place."""
    content = Content()
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, dict):
            _add_dict(content, part)
        elif isinstance(part, Image):
            _add_image(content, to_json(part))
        elif isinstance(part, Cut) and isinstance(part.kept, str):
            content.add_text(part.kept)
            content.add_part({"type": "cut", "full_length": part.full_length})
        elif part is not None:
            content.add_text(as_text(part))
    return content


def _add_dict(content: Content, part: Json) -> None:
    kind = part.get("type")
    image = find_image(part)
    if image is not None and kind not in ("tool_result", "tool_call_response") and "functionResponse" not in part:
        return _add_image(content, image)
    text = part.get("text")
    if isinstance(text, str) and (kind is None or (isinstance(kind, str) and kind in _TEXT_TYPES)):
        if part.get("thought") is True:  # Gemini
            content.thoughts.append(as_text(text))
        else:
            content.add_text(text)
        return None
    read = _BY_TYPE.get(kind) if isinstance(kind, str) else None
    if read is not None and read(content, part):
        return None
    if kind is None and any(isinstance(part.get(name), dict) and take(content, part[name]) for name, take in _BY_KEY):
        return None
    url = _image_url(part)
    if url is not None:
        return content.add_part({"type": "image_url", "image_url": {"url": url}})
    plain = to_json(part)
    return content.add_part(
        {name: item for name, item in plain.items() if name not in _PART_NOISE and item is not None}
    )


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
    if isinstance(value, dict) and depth < MAX_IMAGE_DEPTH:
        for item in value.values():
            inside = find_image(item, depth + 1) if isinstance(item, dict | Image) else None
            if inside is not None:
                return inside
    return None


def _image_url(part: Json) -> str | None:
    """The address of an image that was not sent along."""
    is_image = part.get("type") == "image"
    place = part.get("image_url", part.get("image") if is_image else None)
    url = place.get("url") if isinstance(place, dict) else place
    if url is None and is_image and isinstance(part.get("source"), dict):  # Anthropic
        url = part["source"].get("url")
    return as_text(url) if isinstance(url, str) else None


def _add_thought(content: Content, part: Json) -> bool:
    text = part.get(part["type"], part.get("content", part.get("text")))
    if isinstance(text, str):
        content.thoughts.append(as_text(text))
        return True
    pieces = [*dicts(part.get("summary")), *dicts(part.get("content"))]
    texts = [as_text(each["text"]) for each in pieces if isinstance(each.get("text"), str)]
    content.thoughts += texts
    return bool(texts) or not pieces


def _add_call(content: Content, part: Json) -> bool:
    arguments = next((part[name] for name in ("input", "args", "arguments") if name in part), None)
    content.calls.append(make_call(part.get("id"), part.get("name"), arguments))
    return True


def _add_result(content: Content, part: Json) -> bool:
    body = next((part[name] for name in ("content", "result", "response") if name in part), None)
    call_id = part.get("tool_use_id", part.get("id"))
    content.results.append(make_result(call_id, body, failed=part.get("is_error") is True))
    return True


def _add_gemini_result(content: Content, result: Json) -> bool:
    body, failed = result.get("response"), False
    if isinstance(body, dict) and len(body) == 1 and isinstance(next(iter(body.values())), str):
        failed = "error" in body
        body = next(iter(body.values()))  # {"result": "..."}, {"output": "..."}, {"error": "..."}
    message = make_result(result.get("id"), body, failed=failed)
    message.tool_name = as_text(result["name"]) if isinstance(result.get("name"), str) else None
    content.results.append(message)
    return True


def _add_text_content(content: Content, part: Json) -> bool:
    """A text of OpenTelemetry's GenAI conventions."""
    if isinstance(part.get("content"), str):
        content.add_text(part["content"])
        return True
    return False


def _add_refusal(content: Content, part: Json) -> bool:
    if isinstance(part.get("refusal"), str):
        text = as_text(part["refusal"])
        content.texts.append(text)
        content.add_part({"type": "refusal", "refusal": text})
        return True
    return False


def _skip(content: Content, part: Json) -> bool:
    return True


_Add = Callable[[Content, Json], bool]
_BY_TYPE: dict[str, _Add] = {
    **dict.fromkeys(("thinking", "reasoning", "reasoning_content"), _add_thought),
    **dict.fromkeys(("tool_use", "tool_call"), _add_call),
    **dict.fromkeys(("tool_result", "tool_call_response"), _add_result),
    **dict.fromkeys(("redacted_thinking", "input_json_delta"), _skip),
    "text": _add_text_content,
    "refusal": _add_refusal,
}
_BY_KEY: tuple[tuple[str, _Add], ...] = (
    ("functionCall", _add_call), ("function_call", _add_call),
    ("functionResponse", _add_gemini_result), ("function_response", _add_gemini_result),
)  # fmt: skip
"""Parts of Gemini say what they are by the one field that they have."""


def make_call(call_id: Any, name: Any, arguments: Any) -> ToolCall:
    """A tool call of what a provider says about it."""
    return ToolCall(as_text(name) or "tool", as_text(arguments), as_text(call_id) if call_id else None)


def make_result(call_id: Any, body: Any, *, failed: bool = False) -> Message:
    """The message of a tool that answers a call."""
    is_value = isinstance(body, dict) and "type" not in body and "text" not in body
    message = read_content(as_text(body) if is_value else body).fill(Message("tool"))
    message.call_id = as_text(call_id) if call_id else None
    message.is_error = True if failed else None
    return message


def read_tags(message: Message) -> None:
    """Take reasoning and tool calls out of the text of a model's message, if nobody has done so before."""
    if ">" not in message.text:
        return
    reasoning, text = _split_reasoning(message.text)
    text, calls = _split_calls(text) if not message.calls else (text, [])
    if text is message.text:
        return
    message.text = text
    message.reasoning = message.reasoning or reasoning
    message.calls = calls or message.calls
    if message.parts is not None:
        others = [part for part in message.parts if part.get("type") != "text"]
        message.parts = [{"type": "text", "text": text}, *others] if text else others


def _split_reasoning(text: str) -> tuple[str | None, str]:
    """The reasoning at the beginning of a text (what stands in `<think>`, or all before `</think>` alone), the rest."""
    if "think>" not in text:
        return None, text
    match = _THINK.match(text)
    if match is not None:
        return match[1].strip("\n") or None, text[match.end() :].lstrip("\n")
    before, end, rest = text.partition("</think>")  # a template had written the opening tag
    if end and "<think>" not in before:
        return before.strip("\n") or None, rest.lstrip("\n")
    return None, text


def _split_calls(text: str) -> tuple[str, list[ToolCall]]:
    """A text without its tool calls, and these, as Qwen and Hermes write them. A call that cannot be read stays."""
    if "<tool_call>" not in text:
        return text, []
    calls: list[ToolCall] = []
    kept: list[str] = []
    at = 0
    for match in _CALL.finditer(text):
        call = _read_tagged_call(match[1])
        if call is not None:
            calls.append(call)
            kept.append(text[at : match.start()])
            at = match.end()
    if not calls:
        return text, []
    rest = "".join([*kept, text[at:]])
    return rest if rest.strip() else "", calls


def _read_tagged_call(body: str) -> ToolCall | None:
    match = _XML_CALL.match(body)
    if match is not None:  # Qwen3-Coder
        return ToolCall(match[1].strip(), as_text(dict(_XML_ARGUMENT.findall(match[2]))))
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or "name" not in value:
        return None
    return ToolCall(as_text(value["name"]), as_text(value.get("arguments", value.get("parameters"))))


def read_tagged_results(text: str) -> list[str] | None:
    """The results in a text that is nothing but results of tools; None for any other text."""
    if "<tool_response>" not in text or _RESULTS.fullmatch(text) is None:
        return None
    return _RESULT.findall(text)
