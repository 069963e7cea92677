"""Messages, read back from text that a chat template has made of them.

Where a rollout keeps only tokens, their text is all there is: marks, roles and contents in one string. The usual
templates mark where a message begins, whose it is, and where it ends. Text without such marks is read as it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rolltrace.messages.content import read_tagged_results, read_tags
from rolltrace.messages.formats import join_items
from rolltrace.messages.message import Message, ToolCall, as_text


class _Template(NamedTuple):
    """How one family of models writes down messages."""

    opening: re.Pattern[str]
    """Where a message begins; its group `role` says whose it is, and `header`, if there is one, more about it."""
    closing: re.Pattern[str]
    """Where it ends, at the latest where the next one begins."""


_TEMPLATES = tuple(
    _Template(re.compile(opening), re.compile(closing))
    for opening, closing in (
        (r"<\|im_start\|>(?P<role>\w+)[^\n<]*\n", r"<\|im_end\|>"),  # ChatML: Qwen and many others
        (r"<\|start_header_id\|>(?P<role>\w+)<\|end_header_id\|>\n*", r"<\|eot_id\|>|<\|eom_id\|>"),  # Llama 3
        (r"<\|header_start\|>(?P<role>\w+)<\|header_end\|>\n*", r"<\|eot\|>|<\|eom\|>"),  # Llama 4
        (r"<start_of_turn>(?P<role>\w+)\n", r"<end_of_turn>"),  # Gemma
        (r"<\|start\|>(?P<role>[\w.]+)(?P<header>[^<]*(?:<\|channel\|>[^<]*)?(?:<\|constrain\|>[^<]*)?)<\|message\|>",
         r"<\|end\|>|<\|return\|>|<\|call\|>"),  # gpt-oss
        (r"<｜(?P<role>User|Assistant)｜>", r"<｜end▁of▁sentence｜>"),  # DeepSeek
        (r"<\|(?P<role>system|user|assistant|observation)\|>\n?", r"<\|end\|>|<\|endoftext\|>"),  # GLM, Phi
    )
)  # fmt: skip
_END = re.compile(rf"(?:{'|'.join(each.closing.pattern for each in _TEMPLATES)})\s*\Z")
_MARK = re.compile(r"<[^<>\n]{1,40}>|\[gMASK\]")
"""Any mark, such as those with which a text begins."""
_ROLES = {"model": "assistant", "ipython": "tool", "observation": "tool"}
"""What some families call the roles that all others call otherwise."""
_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([\w.-]+)")
_CHANNEL = "<|channel|>"
_PREFILL = re.compile(r"\s*(?:<think>\s*(?:</think>\s*)?)?")
"""How a template may begin the message that the model is to write: with nothing, or with (empty) reasoning."""


class TemplateText(NamedTuple):
    """What a prompt was made of."""

    messages: list[Message]
    prefill: str = ""
    """What the template has already written of the model's answer."""


def read_template(text: str) -> TemplateText | None:
    """The messages of a whole prompt; None if no known template made it. The one the model is to write is left out."""
    read = _read(text)
    if read is None:
        return None
    before, messages, prefill = read
    before = _MARK.sub("", before).strip()
    if before:  # DeepSeek has no mark for the system's message
        messages.insert(0, Message("system", as_text(before)))
    return TemplateText(messages, prefill)


def read_prompt_text(text: str) -> TemplateText:
    """The messages of a prompt; of text that no known template made, one of the user."""
    return read_template(text) or TemplateText([Message("user", as_text(text))])


def read_added_text(text: str) -> TemplateText:
    """The messages of what follows a reply in the next prompt."""
    read = _read(text)
    if read is not None:
        return TemplateText(*read[1:])
    return TemplateText([Message("user", as_text(text))] if _MARK.sub("", text).strip() else [])


def read_response_text(text: str, prefill: str = "") -> list[Message]:
    """What a model wrote: one message, or more if the text of its environment stands between what it wrote."""
    read = _read(f"<|start|>assistant{text}" if text.startswith(_CHANNEL) else text, keep_last=True)
    if read is None:
        return _assistant(prefill + without_end(text)) or [Message("assistant")]
    first, messages, _ = read
    return [*_assistant(prefill + first), *messages] if first.strip() else messages


def without_end(text: str) -> str:
    """What a model wrote, without the mark by which it stopped."""
    return _END.sub("", text)


def _read(text: str, *, keep_last: bool = False) -> tuple[str, list[Message], str] | None:
    """The text before the first message, the messages, and what is already there of the one that the model is to write
    (which is a message too with `keep_last`); None if no known template made the text."""
    for template in _TEMPLATES:
        openings = list(template.opening.finditer(text))
        if openings:
            break
    else:
        return None
    before = _until_closed(template, text[: openings[0].start()])
    messages: list[Message] = []
    ends = [*(each.start() for each in openings[1:]), len(text)]
    for opening, end in zip(openings, ends):
        body = text[opening.end() : end]
        content = _until_closed(template, body)
        role = opening["role"].lower()
        role = _ROLES.get(role, role)
        is_last = end == len(text) and not keep_last
        if role == "assistant" and is_last and len(content) == len(body) and _PREFILL.fullmatch(content):
            return before, messages, content.lstrip()
        header = opening["header"] if "header" in template.opening.groupindex else None
        fresh = _said(role, content) if header is None else _said_in_channel(role, header, content)
        if header is not None and messages and fresh and messages[-1].role == fresh[0].role == "assistant":
            messages[-1] = join_items(messages[-1], fresh.pop(0))  # pieces of one message of gpt-oss
        messages += fresh
    return before, messages, ""


def _said(role: str, content: str) -> list[Message]:
    if role == "assistant":
        return _assistant(content) or [Message("assistant")]
    results = read_tagged_results(content) if role in ("user", "tool") else None
    if results is not None:
        return [Message("tool", as_text(result)) for result in results]
    return [Message(role, as_text(content))]


def _assistant(content: str) -> list[Message]:
    message = Message("assistant", as_text(content))
    read_tags(message)
    return [] if message.is_empty else [message]


def _said_in_channel(role: str, header: str, content: str) -> list[Message]:
    """A message of gpt-oss: its channel says whether it is reasoning, a recipient that it is a call or a result."""
    if role not in ("assistant", "user", "system", "developer", "tool"):  # functions.NAME
        return [Message("tool", as_text(content), tool_name=role.removeprefix("functions."))]
    recipient = _RECIPIENT.search(header)
    if role == "assistant" and recipient is not None:
        return [Message("assistant", calls=[ToolCall(recipient[1], as_text(content))])]
    if role == "assistant" and f"{_CHANNEL}analysis" in header:
        return [Message("assistant", reasoning=as_text(content) or None)]
    return _said(role, content)


def _until_closed(template: _Template, text: str) -> str:
    closing = template.closing.search(text)
    return text if closing is None else text[: closing.start()]
