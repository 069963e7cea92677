"""Messages, read back from text that a chat template has made of them.

Where a rollout keeps only tokens, as verl's does, their text is all there is: marks, roles and contents in one string.
The usual templates mark where a message begins, whose it is, and where it ends. Text without such marks stays as it is.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple


class Template(NamedTuple):
    """How one family of models writes down messages."""

    opening: re.Pattern[str]
    """Where a message begins; its group `role` says whose it is."""
    closing: re.Pattern[str]
    """Where it ends, at the latest where the next one begins."""


def _template(opening: str, closing: str) -> Template:
    return Template(re.compile(opening), re.compile(closing))


TEMPLATES = (
    _template(r"<\|im_start\|>(?P<role>\w+)[^\n<]*\n", r"<\|im_end\|>"),  # ChatML: Qwen and many others
    _template(r"<\|start_header_id\|>(?P<role>\w+)<\|end_header_id\|>\n*", r"<\|eot_id\|>|<\|eom_id\|>"),  # Llama 3
    _template(r"<\|header_start\|>(?P<role>\w+)<\|header_end\|>\n*", r"<\|eot\|>|<\|eom\|>"),  # Llama 4
    _template(r"<start_of_turn>(?P<role>\w+)\n", r"<end_of_turn>"),  # Gemma
    _template(r"<\|start\|>(?P<role>[\w.]+)[^<]*(?:<\|channel\|>[^<]*)?(?:<\|constrain\|>[^<]*)?<\|message\|>",
              r"<\|end\|>|<\|return\|>|<\|call\|>"),  # gpt-oss
    _template(r"<｜(?P<role>User|Assistant)｜>", r"<｜end▁of▁sentence｜>"),  # DeepSeek
    _template(r"<\|(?P<role>system|user|assistant|observation)\|>\n?", r"<\|end\|>|<\|endoftext\|>"),  # GLM, Phi
)  # fmt: skip
_END = re.compile(rf"(?:{'|'.join(each.closing.pattern for each in TEMPLATES)})\s*\Z")
_MARK = re.compile(r"<[^<>\n]{1,40}>|\[gMASK\]")
"""Any mark, such as those with which a text begins."""
_ROLES = {"model": "assistant", "ipython": "tool", "observation": "tool"}
"""What some families call the roles that all others call otherwise."""


def messages_in(text: str) -> list[dict[str, Any]] | None:
    """The messages of a prompt; None if no known template made it. The one that the model is to write is left out."""
    for template in TEMPLATES:
        openings = list(template.opening.finditer(text))
        if openings:
            ends = [*(each.start() for each in openings[1:]), len(text)]
            messages = [
                {"role": _role(each["role"]), "content": _until_closed(template, text[each.end() : end])}
                for each, end in zip(openings, ends)
            ]
            before = _MARK.sub("", text[: openings[0].start()]).strip()
            if before:  # DeepSeek has no mark for the system's message
                messages.insert(0, {"role": "system", "content": before})
            if messages[-1]["role"] == "assistant" and not messages[-1]["content"].strip():
                messages.pop()
            return messages
    return None


def without_end(text: str) -> str:
    """What a model wrote, without the mark by which it stopped."""
    return _END.sub("", text)


def _role(name: str) -> str:
    role = name.lower()
    return _ROLES.get(role, role)


def _until_closed(template: Template, text: str) -> str:
    closing = template.closing.search(text)
    return text if closing is None else text[: closing.start()]
