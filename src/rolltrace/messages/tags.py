"""What models write between tags in their text: reasoning, calls of tools, results of tools.

A server with a parser takes these out; without one they stand in the text as the model wrote them. Reading both alike
makes a reply the same message on either side.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from rolltrace.messages.message import ToolCall, as_arguments, as_text

_THINK = re.compile(r"\s*<think>(.*?)(?:</think>|\Z)", re.DOTALL)
_CALL = re.compile(r"\s*<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_RESULTS = re.compile(r"\s*(?:<tool_response>.*?</tool_response>\s*)+", re.DOTALL)
_RESULT = re.compile(r"<tool_response>\n?(.*?)\n?</tool_response>", re.DOTALL)
_XML_CALL = re.compile(r"<function=([^>\n]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_XML_ARGUMENT = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)


class Thought(NamedTuple):
    """A text without its reasoning."""

    reasoning: str | None
    text: str


class AskedCalls(NamedTuple):
    """A text without its tool calls."""

    text: str
    calls: list[ToolCall]


def split_reasoning(text: str) -> Thought:
    """Take the reasoning off the beginning of a text: what stands in `<think>`, or all before `</think>` alone."""
    if "think>" not in text:
        return Thought(None, text)
    match = _THINK.match(text)
    if match is not None:
        return Thought(match[1].strip("\n") or None, text[match.end() :].lstrip("\n"))
    before, end, rest = text.partition("</think>")  # a template had written the opening tag
    if end and "<think>" not in before:
        return Thought(before.strip("\n") or None, rest.lstrip("\n"))
    return Thought(None, text)


def take_calls(text: str) -> AskedCalls:
    """Take the tool calls out of a text, as Qwen and Hermes write them. A call that cannot be read stays."""
    if "<tool_call>" not in text:
        return AskedCalls(text, [])
    calls: list[ToolCall] = []
    kept: list[str] = []
    at = 0
    for match in _CALL.finditer(text):
        call = _read_call(match[1])
        if call is not None:
            calls.append(call)
            kept.append(text[at : match.start()])
            at = match.end()
    rest = "".join([*kept, text[at:]])
    return AskedCalls(rest if rest.strip() or not calls else "", calls)


def _read_call(body: str) -> ToolCall | None:
    match = _XML_CALL.match(body)
    if match is not None:  # Qwen3-Coder
        return ToolCall(match[1].strip(), as_arguments(dict(_XML_ARGUMENT.findall(match[2]))))
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or "name" not in value:
        return None
    return ToolCall(as_text(value["name"]), as_arguments(value.get("arguments", value.get("parameters"))))


def read_tagged_results(text: str) -> list[str] | None:
    """The results in a text that is nothing but results of tools; None for any other text."""
    if "<tool_response>" not in text or _RESULTS.fullmatch(text) is None:
        return None
    return _RESULT.findall(text)
