"""What a model answered, as text, in the shapes that servers and clients give it."""

from __future__ import annotations

from typing import Any, NamedTuple

_TEXTS = ("content", "text", "response", "response_text", "response_str", "completion", "output_text")
_BESIDES = ("tool_calls", "function_call", "reasoning_content", "reasoning", "thinking", "refusal", "audio")
_WRAPPERS = ("message", "choices", "outputs", "sequences", "output")
_DEEPEST = 6


class Reply(NamedTuple):
    """One answer."""

    text: str
    has_more: bool
    """Tool calls, reasoning or anything else beside the text."""


def reply_of(outputs: Any, depth: int = 0) -> Reply | None:
    """The one answer in the outputs of a model call; None if there is none, or several."""
    if isinstance(outputs, str):
        return Reply(outputs, has_more=False)
    if isinstance(outputs, list):
        return reply_of(outputs[0], depth + 1) if len(outputs) == 1 and depth < _DEEPEST else None
    if not isinstance(outputs, dict):
        return None
    has_more = any(outputs.get(name) for name in _BESIDES)
    for name in _TEXTS:
        if name in outputs:
            text = outputs[name]
            if isinstance(text, str):
                return Reply(text, has_more)
            if isinstance(text, list):
                return _parts(text, has_more)
            if text is None and has_more:
                return Reply("", has_more=True)
    for name in _WRAPPERS:
        found = reply_of(outputs[name], depth + 1) if name in outputs and depth < _DEEPEST else None
        if found is not None:
            return found
    return None


def _parts(parts: list[Any], has_more: bool) -> Reply | None:
    """Content as a list of parts: `[{"type": "text", "text": ...}, ...]`."""
    if not all(isinstance(part, dict) for part in parts):
        return None
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return Reply("".join(texts), has_more or len(texts) < len(parts))
