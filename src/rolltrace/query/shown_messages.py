"""The conversation of a trajectory for people: messages in parts, each tool call with what came back.

Made of the rows that `query.conversation` reads. A message becomes parts (text, reasoning, images, JSON), tool calls
of a reply are paired with their results, by id or by order, and a rewritten history is a message of its own kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rolltrace.messages import MessageRow, Rewrite, as_text, read_tagged_results
from rolltrace.query.conversation import as_produced
from rolltrace.query.op import Op
from rolltrace.query.trajectory import Trajectory

MAX_JSON_CHARS = 1 << 20
"""A longer text is shown as text, whatever it is."""


@dataclass(frozen=True)
class MessagePart:
    """A piece of a message."""

    kind: Literal["text", "reasoning", "image", "json"]
    text: str = ""
    blob: str | None = None
    """Of an image that was kept: its hash."""
    detail: str | None = None


@dataclass
class PairedCall:
    """A tool call and what came back."""

    name: str
    arguments: MessagePart
    call_id: str | None = None
    result: list[MessagePart] = field(default_factory=list)
    op: Op | None = None

    @property
    def error(self) -> str | None:
        return None if self.op is None else self.op.error

    @property
    def is_open(self) -> bool:
        """Whether nothing came back yet."""
        return not self.result and self.op is None


@dataclass
class ShownMessage:
    """One message of a conversation."""

    role: str
    """`rewrite` if it is no message but says that history was rewritten here."""
    name: str | None
    parts: list[MessagePart]
    calls: list[PairedCall]
    op: Op | None
    turn: int | None
    """Which model call it is of, from 0; of other messages, which comes next."""
    rewrite: Rewrite | None = None
    """What the prompt of this turn changed in the history."""


def messages_of_trajectory(trajectory: Trajectory, *, seen_by: int | None = None) -> list[ShownMessage]:
    """The conversation of a trajectory, message by message.

    Args:
        trajectory: The trajectory.
        seen_by: A turn: the messages as this model call saw them. If not given, as they were produced.

    Raises:
        QueryError: there is no such model call, or it was given no messages.
    """
    rows = as_produced(trajectory.messages) if seen_by is None else trajectory.messages_seen_by(seen_by)
    return _Pairing(trajectory).pair(rows)


class _Pairing:
    """Messages on their way to people."""

    def __init__(self, trajectory: Trajectory) -> None:
        ops = sorted(trajectory.walk(), key=lambda op: op.start_ns)
        self._ops = {op.op_id: op for op in ops}
        self._turns = {op.op_id: at for at, op in enumerate(op for op in ops if op.kind == "llm")}
        self._shown: list[ShownMessage] = []
        self._by_id: dict[str, PairedCall] = {}
        """The newest call of each id."""

    def pair(self, rows: Sequence[MessageRow]) -> list[ShownMessage]:
        known = {row.turn: self._turns[row.op_id] for row in rows if row.op_id in self._turns}
        for row in rows:
            if row.kind == "rewrite":
                rewrite = row.read_rewrite()
                mark = MessagePart("text", str(rewrite))
                self._shown.append(ShownMessage("rewrite", None, [mark], [], None, known.get(row.turn), rewrite))
            elif row.author != "tool" or not self._answer(row):
                self._show(row, known)
        self._number()
        return self._shown

    def _show(self, row: MessageRow, known: dict[int, int]) -> None:
        op = self._ops.get(row.op_id) if row.op_id is not None else None
        op = op if op is not None and op.kind == "llm" else None
        turn = known.get(row.turn) if op is None else self._turns[op.op_id]
        calls = [PairedCall(call.name or "tool", _arguments(call.arguments), call.id) for call in row.read_calls()]
        self._by_id.update((call.call_id, call) for call in calls if call.call_id is not None)
        self._shown.append(ShownMessage(row.role or "user", row.tool_name, list(_parts(row)), calls, op, turn))

    def _answer(self, row: MessageRow) -> bool:
        """Put a result beside the call that it answers; whether there is one."""
        op = self._ops.get(row.op_id) if row.op_id is not None else None
        op = op if op is not None and op.kind == "tool" else None
        last = next((each for each in reversed(self._shown) if each.rewrite is None), None)
        open_calls = [call for call in last.calls if call.is_open] if last is not None else []
        results = read_tagged_results(row.text or "") if row.role == "user" else None
        if results is not None and 1 < len(results) <= len(open_calls):  # Qwen's template has all of a turn in one
            for each, text in zip(open_calls, results):
                each.result = [_text_part(text)]
            return True
        call = self._by_id.get(row.call_id) if row.call_id is not None else None
        if call is None or not call.is_open:
            call = next((each for each in open_calls if each.name == row.tool_name), None)
            call = call or next(iter(open_calls), None)
        if call is None:
            if op is None or last is None or last.role != "assistant":  # nobody is known to have asked for it
                return False
            arguments = row.read_detail().get("arguments")
            call = PairedCall(op.name, _arguments(op.inputs if arguments is None else arguments))
            last.calls.append(call)
        call.result = [_text_part(results[0])] if results else list(_parts(row)) or [MessagePart("text", "")]
        call.op = op
        return True

    def _number(self) -> None:
        """Give messages of which no turn is known the turn that they lead to."""
        coming = len(self._turns) - 1 if self._turns else None
        for message in reversed(self._shown):
            if message.turn is None:
                message.turn = coming
            else:
                coming = message.turn


def _parts(row: MessageRow) -> Iterator[MessagePart]:
    if row.reasoning:
        yield MessagePart("reasoning", row.reasoning)
    parts = row.read_parts()
    if parts is not None:
        yield from map(_part, parts)
    elif row.text:
        yield _text_part(row.text)


def _part(part: dict[str, Any]) -> MessagePart:
    image = next((each for each in (part, *part.values()) if _is_image(each)), None)
    if image is not None:
        about = image["$image"]
        size = about.get("size") or ["?", "?"]
        return MessagePart("image", blob=about.get("hash"), detail=f"{about.get('mode')} {size[0]} x {size[-1]}")
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return _text_part(part["text"])
    return MessagePart("json", as_text(part))


def _text_part(text: str) -> MessagePart:
    return MessagePart("json" if _is_json(text) else "text", text)


def _is_image(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"$image"} and isinstance(value["$image"], dict)


def _is_json(text: str) -> bool:
    stripped = text.strip()
    if len(stripped) > MAX_JSON_CHARS or stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return False
    try:
        return isinstance(json.loads(stripped), dict | list)
    except (ValueError, RecursionError):
        return False


def _arguments(value: Any) -> MessagePart:
    text = "" if value is None else as_text(value)
    return MessagePart("json" if not isinstance(value, str) or _is_json(text) else "text", text)
