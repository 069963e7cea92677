"""The conversation of a trajectory for people: messages in parts, each tool call with what came back.

Made of the rows of the table `messages`. A message becomes parts (text, reasoning, images, JSON), tool calls
of a reply are paired with their results, by id or by order, and a rewritten history is a message of its own kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from rolltrace.messages import MessageRow, as_text, read_tagged_results
from rolltrace.query.model.rows import short_name, typed
from rolltrace.query.model.trajectory import Message, Part, Rewrite, ToolCall
from rolltrace.query.outline import ops_of
from rolltrace.query.trajectory import Trajectory

_REASONING_ONLY = frozenset({"reasoning_stripped", "tokens"})
MAX_JSON_CHARS = 1 << 20
"""A longer text is shown as text, whatever it is."""
MAX_TEXT_CHARS = 3_000
"""Of a text in a conversation, of which the whole message has all."""


def messages_of_trajectory(trajectory: Trajectory, *, seen_by: int | None = None) -> list[Message]:
    """The conversation of a trajectory, message by message.

    Args:
        trajectory: The trajectory.
        seen_by: A turn: the messages as this model call saw them. If not given, as they were produced.

    Raises:
        QueryError: there is no such model call, or it was given no messages.
    """
    rows = as_produced(trajectory.messages) if seen_by is None else trajectory.messages_seen_by(seen_by)
    return _Pairing(trajectory).pair(rows)


def as_produced(rows: Iterable[MessageRow]) -> list[MessageRow]:
    """The messages as they were produced, and where their history was rewritten.

    A harness that strips the reasoning off every reply rewrites history at every turn: that is marked once.
    """
    shown: list[MessageRow] = []
    strips = False
    for row in rows:
        if row.kind == "rewrite":
            stripped_before, strips = strips, row.read_detail().keys() <= _REASONING_ONLY
            if strips and stripped_before:
                continue
        if row.kind != "variant":
            shown.append(row)
    return shown


def shorten(message: Message, index: int | None = None) -> Message:
    """A message with the beginnings of its texts; `index` if it stands elsewhere than in its conversation."""
    calls = [replace(each, arguments=_cut(each.arguments), result=_cut_all(each.result)) for each in message.calls]
    parts, index = _cut_all(message.parts), message.index if index is None else index
    return replace(message, index=index, parts=parts, calls=calls)


def _cut_all(parts: list[Part]) -> list[Part]:
    return [_cut(part) for part in parts]


def _cut(part: Part) -> Part:
    return part if part.chars <= MAX_TEXT_CHARS else replace(part, text=part.text[:MAX_TEXT_CHARS])


class _Pairing:
    """Messages on their way to people."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._ops = {op.op_id: op for op in trajectory.walk()}
        self._figures = {int(op.op_id): op for op in ops_of(trajectory)}
        self._shown: list[Message] = []
        self._by_id: dict[str, ToolCall] = {}
        """The newest call of each id."""

    def pair(self, rows: Sequence[MessageRow]) -> list[Message]:
        model_calls = {op_id: op.turn for op_id, op in self._figures.items() if op.kind == "llm"}
        known = {row.turn: model_calls[row.op_id] for row in rows if row.op_id in model_calls}
        for row in rows:
            if row.kind == "rewrite":
                rewrite = row.read_rewrite()
                self._add("rewrite", None, [_part("text", str(rewrite))], [], known.get(row.turn))
                self._shown[-1].rewrite = typed(Rewrite, rewrite)
            elif row.author != "tool" or not self._answer(row):
                self._show(row, known)
        self._number()
        return self._shown

    def _show(self, row: MessageRow, known: dict[int, int | None]) -> None:
        calls = [
            ToolCall(short_name(call.name or "tool"), _arguments(call.arguments), call.id and short_name(call.id))
            for call in row.read_calls()
        ]
        self._by_id.update((call.call_id, call) for call in calls if call.call_id is not None)
        self._add(row.role or "user", row.tool_name, list(_parts(row)), calls, known.get(row.turn))
        message, op = self._shown[-1], self._figures.get(row.op_id or 0)
        if op is not None and op.kind == "llm":
            message.op_id, message.turn, message.tokens, message.flags = op.op_id, op.turn, op.response_tokens, op.flags
            message.duration_s, message.logprob_mean = op.duration_s, op.logprob_mean
            message.policy_version, message.finish_reason = op.policy_version, op.finish_reason

    def _add(self, role: str, name: str | None, parts: list[Part], calls: list[ToolCall], turn: int | None) -> None:
        self._shown.append(
            Message(
                len(self._shown), short_name(role), name and short_name(name), parts, calls, op_id=None, turn=turn,
                tokens=None, duration_s=None, logprob_mean=None, policy_version=None, finish_reason=None, flags=[],
                rewrite=None,
            )
        )  # fmt: skip

    def _answer(self, row: MessageRow) -> bool:
        """Put a result beside the call that it answers; whether there is one."""
        op = self._ops.get(row.op_id) if row.op_id is not None else None
        op = op if op is not None and op.kind == "tool" else None
        last = next((each for each in reversed(self._shown) if each.rewrite is None), None)
        open_calls = [call for call in last.calls if _is_open(call)] if last is not None else []
        results = read_tagged_results(row.text or "") if row.role == "user" else None
        if results is not None and 1 < len(results) <= len(open_calls):  # Qwen's template has all of a turn in one
            for each, text in zip(open_calls, results):
                each.result = [_text_part(text)]
            return True
        call = self._by_id.get(short_name(row.call_id)) if row.call_id is not None else None
        if call is None or not _is_open(call):
            call = next((each for each in open_calls if each.name == short_name(row.tool_name or "")), None)
            call = call or next(iter(open_calls), None)
        if call is None:
            if op is None or last is None or last.role != "assistant":  # nobody is known to have asked for it
                return False
            arguments = row.read_detail().get("arguments")
            call = ToolCall(short_name(op.name), _arguments(op.inputs if arguments is None else arguments), result=[])
            last.calls.append(call)
        call.result = [_text_part(results[0])] if results else list(_parts(row)) or [_part("text", "")]
        if op is not None:
            call.op_id, call.status, call.error, call.duration_s = str(op.op_id), op.status, op.error, op.duration_s
        return True

    def _number(self) -> None:
        """Give messages of which no turn is known the turn that they lead to."""
        coming = max((op.turn for op in self._figures.values() if op.turn is not None), default=None)
        for message in reversed(self._shown):
            if message.turn is None:
                message.turn = coming
            else:
                coming = message.turn


def _is_open(call: ToolCall) -> bool:
    """Whether nothing came back yet."""
    return not call.result and call.op_id is None


def _parts(row: MessageRow) -> Iterator[Part]:
    if row.reasoning:
        yield _part("reasoning", row.reasoning)
    parts = row.read_parts()
    if parts is not None:
        yield from map(_read_part, parts)
    elif row.text:
        yield _text_part(row.text)


def _read_part(part: dict[str, Any]) -> Part:
    image = next((each for each in (part, *part.values()) if _is_image(each)), None)
    if image is not None:
        about = image["$image"]
        size = about.get("size") or ["?", "?"]
        return Part("image", blob=about.get("hash"), detail=f"{about.get('mode')} {size[0]} x {size[-1]}")
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return _text_part(part["text"])
    return _part("json", as_text(part))


def _part(kind: Literal["text", "reasoning", "json"], text: str) -> Part:
    return Part(kind, text, len(text))


def _text_part(text: str) -> Part:
    return _part("json" if _is_json(text) else "text", text)


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


def _arguments(value: Any) -> Part:
    text = "" if value is None else as_text(value)
    return _part("json" if not isinstance(value, str) or _is_json(text) else "text", text)
