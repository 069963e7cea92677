"""Reads conversations: JSON lines, such as `rolltrace export sft` writes, or JSON arrays.

A record has `messages` and, where known, `reward`, `step`, `sample_index`, `rollout_n`, `validate`, `trajectory_id`,
`name`, `project`, `experiment`, `run`. All other fields become tags. It may also be a plain list of messages, or have
them as ShareGPT does (`conversations`, with `from` and `value`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from rolltrace.exchange import fields
from rolltrace.exchange.draft import Draft, ImportedPlace, ImportedRow
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import Line, json_records

_ID = re.compile(r"[0-9a-f]{32}")
_MESSAGES = ("messages", "conversations", "conversation")
"""Where the messages of a record are: as in OpenAI's format, and as ShareGPT has them."""
_SHAREGPT_ROLES = {"human": "user", "gpt": "assistant", "observation": "tool", "function_response": "tool"}
_KNOWN = frozenset({*_MESSAGES, "reward", "name", *ImportedPlace._fields}) - {"worker"}


def recognise(peek: Peek) -> str | None:
    """By its messages."""
    if _is_message(peek.first) or _begins_with_message(peek.first):
        return "its first record is a message, or a list of them"
    name = next((name for name in _MESSAGES if _begins_with_message(peek.record.get(name))), None)
    return name and f"its first record has {name}"


def reader(source: Source) -> LineReader:
    """A reader of conversations."""
    source.split = _conversations
    target = source.target

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        place = ImportedPlace.read(record, target.project, target.experiment, validate=target.validate)
        own_id = record.get("trajectory_id")
        has_moved = (place.project, place.experiment) != (record.get("project"), record.get("experiment"))
        if not isinstance(own_id, str) or _ID.fullmatch(own_id) is None or has_moved:
            own_id = source.trajectory_id(line)
        draft = Draft(place._replace(trajectory_id=own_id), record.get("name") or "chat", source.start_ns(line))
        for message in _messages(record):
            draft.add_message(message)
        draft.reward(fields.number(record.get("reward"), "reward"))
        return draft.finish(fields.leave(record, _KNOWN))

    return read


def _conversations(path: Path) -> Iterator[Line]:
    """The records of a file. A list is a conversation, and so is a file whose records are messages."""
    lines = json_records(path)
    first = next(lines, None)
    if first is not None and _is_message(first.value):
        said = [first]
        for line in lines:
            if line.problem is None:
                said.append(line)
            else:
                yield line
        yield Line(0, b"\n".join(each.raw for each in said), {"messages": [each.value for each in said]})
        return
    for line in chain([first] if first is not None else [], lines):
        yield line._replace(value={"messages": line.value}) if isinstance(line.value, list) else line


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    has_content = not value.keys().isdisjoint(("content", "tool_calls"))
    return (isinstance(value.get("role"), str) and has_content) or {"from", "value"} <= value.keys()


def _begins_with_message(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and _is_message(values[0])


def _messages(record: dict[str, Any]) -> list[dict[str, Any]]:
    name = next((name for name in _MESSAGES if name in record), "messages")
    messages = record.get(name)
    if not isinstance(messages, list) or not messages:
        raise fields.Malformed(f"{name} must be a non-empty list")
    return [_message(each) for each in messages]


def _message(message: Any) -> dict[str, Any]:
    """A message in OpenAI's form; ShareGPT has `from` and `value`."""
    if isinstance(message, dict) and isinstance(message.get("role"), str):
        return message
    speaker = message.get("from") if isinstance(message, dict) else None
    if not isinstance(speaker, str):
        raise fields.Malformed(f"a message is an object with a role, not {message!r:.60}")
    content, more = message.get("value"), fields.leave(message, ("from", "value"))
    return {"role": _SHAREGPT_ROLES.get(speaker, speaker), "content": content, **more}
