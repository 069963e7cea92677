"""The conversation of a trajectory for people: messages in parts, each tool call with what came back.

Built on `query.conversation`, which says what the messages are. Here a message becomes parts (text, reasoning, images,
JSON), an assistant's tool calls are paired with their results, by id or by order, and figures of its op stand beside.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rolltrace.query.conversation import ProducedMessage, as_text
from rolltrace.query.op import Op
from rolltrace.query.step_conversation import told_in
from rolltrace.query.trajectory import Trajectory
from rolltrace.record import Message as Plain

REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
_THINK = re.compile(r"\s*<think>(.*?)(?:</think>|\Z)", re.DOTALL)
_TOOL_CALL = re.compile(r"\s*<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_TOOL_RESPONSE = re.compile(r"\s*<tool_response>\s*(.*?)\s*</tool_response>\s*", re.DOTALL)
_LONGEST_JSON = 1 << 20


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


@dataclass
class ShownMessage:
    """One message of a conversation."""

    role: str
    name: str | None
    parts: list[MessagePart]
    calls: list[PairedCall]
    op: Op | None
    turn: int | None
    """Which model call it is of, from 0; of other messages, which comes next."""


def messages_of_trajectory(trajectory: Trajectory) -> list[ShownMessage]:
    """The conversation of a trajectory, message by message."""
    ops = sorted(trajectory.walk(), key=lambda op: op.start_ns)
    turns = {op.op_id: at for at, op in enumerate(op for op in ops if op.kind == "llm")}
    shown: list[ShownMessage] = []
    for produced in told_in(ops, trajectory.transitions):
        if _is_result(produced) and shown and _answer(shown[-1], produced):
            continue
        shown.append(_shown(produced, turns))
    _number(shown, len(turns))
    return shown


def _shown(produced: ProducedMessage, turns: dict[int, int]) -> ShownMessage:
    message, op = produced
    role = as_text(message.get("role"))
    parts, calls = list(_parts(message)), list(_calls(message))
    if role == "assistant" and not calls:
        parts, calls = _calls_in_text(parts)
    name = message.get("name")
    is_reply = op is not None and op.kind == "llm"
    turn = turns.get(op.op_id) if is_reply and op is not None else None
    return ShownMessage(role, name if isinstance(name, str) else None, parts, calls, op if is_reply else None, turn)


def _number(shown: list[ShownMessage], count: int) -> None:
    """Give messages that no model call produced the turn that they lead to."""
    coming = count - 1 if count else None
    for message in reversed(shown):
        if message.turn is None:
            message.turn = coming
        else:
            coming = message.turn


def _parts(message: Plain) -> Iterator[MessagePart]:
    for key in REASONING_KEYS:
        if isinstance(message.get(key), str) and message[key]:
            yield MessagePart("reasoning", message[key])
            break
    content = message.get("content")
    pieces = content if isinstance(content, list) else [content]
    for piece in pieces:
        if piece is not None and piece != "":
            yield from _piece(piece)


def _piece(piece: Any) -> Iterator[MessagePart]:
    if isinstance(piece, str):
        yield from _text(piece)
        return
    if isinstance(piece, dict):
        image = next((candidate for candidate in (piece, *piece.values()) if _is_image(candidate)), None)
        if image is not None:
            about = image["$image"]
            size = about.get("size") or ["?", "?"]
            yield MessagePart("image", blob=about.get("hash"), detail=f"{about.get('mode')} {size[0]} x {size[-1]}")
            return
        kind, text = piece.get("type"), piece.get("text", piece.get("thinking"))
        if isinstance(text, str) and kind in ("text", "input_text", "output_text", None):
            yield from _text(text)
            return
        if isinstance(text, str) and kind in ("thinking", "reasoning"):
            yield MessagePart("reasoning", text)
            return
    yield MessagePart("json", as_text(piece))


def _text(text: str) -> Iterator[MessagePart]:
    thought = _THINK.match(text)
    if thought is not None:
        if thought[1].strip():
            yield MessagePart("reasoning", thought[1].strip("\n"))
        text = text[thought.end() :].lstrip("\n")
    if text:
        yield MessagePart("json" if _is_json(text) else "text", text)


def _is_image(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"$image"} and isinstance(value["$image"], dict)


def _is_json(text: str) -> bool:
    stripped = text.strip()
    if len(stripped) > _LONGEST_JSON or stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return False
    try:
        return isinstance(json.loads(stripped), dict | list)
    except (ValueError, RecursionError):
        return False


def _calls(message: Plain) -> Iterator[PairedCall]:
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            yield _call(call)


def _call(call: dict[str, Any]) -> PairedCall:
    function = call["function"] if isinstance(call.get("function"), dict) else call
    arguments = function.get("arguments", function.get("input", function.get("args")))
    call_id = call.get("id", call.get("tool_call_id"))
    name = as_text(function.get("name") or "tool")
    return PairedCall(name, _arguments(arguments), call_id if isinstance(call_id, str) else None)


def _arguments(value: Any) -> MessagePart:
    text = "" if value is None else as_text(value)
    return MessagePart("json" if not isinstance(value, str) or _is_json(text) else "text", text)


def _calls_in_text(parts: list[MessagePart]) -> tuple[list[MessagePart], list[PairedCall]]:
    """The tool calls that stand in the text itself, as Qwen and Hermes write them, and the text without them."""
    rest: list[MessagePart] = []
    calls: list[PairedCall] = []
    for part in parts:
        if part.kind != "text":
            rest.append(part)
            continue
        texts, at = [], 0
        for match in _TOOL_CALL.finditer(part.text):
            try:
                value = json.loads(match[1])
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict) and "name" in value:
                calls.append(_call(value))
                texts.append(part.text[at : match.start()])
                at = match.end()
        text = "".join([*texts, part.text[at:]])
        if text.strip() or not texts:
            rest.append(MessagePart("text", text))
    return rest, calls


def _is_result(produced: ProducedMessage) -> bool:
    role, content = produced.message.get("role"), produced.message.get("content")
    if role == "tool":
        return True
    return role == "user" and isinstance(content, str) and _TOOL_RESPONSE.fullmatch(content) is not None


def _answer(message: ShownMessage, produced: ProducedMessage) -> bool:
    """Put a result beside the call that it answers; whether there is one."""
    if message.role != "assistant":
        return False
    op = produced.op if produced.op is not None and produced.op.kind == "tool" else None
    open_calls = [call for call in message.calls if not call.result and call.op is None]
    call_id, name = produced.message.get("tool_call_id"), produced.message.get("name")
    call = next((each for each in open_calls if each.call_id is not None and each.call_id == call_id), None)
    call = call or next((each for each in open_calls if each.name == name), None) or next(iter(open_calls), None)
    if call is None:
        if op is None:  # a result that nobody is known to have asked for
            return False
        call = PairedCall(op.name, _arguments(op.inputs))
        message.calls.append(call)
    content = produced.message.get("content")
    if isinstance(content, str) and (inside := _TOOL_RESPONSE.fullmatch(content)):
        produced = ProducedMessage({**produced.message, "content": inside[1]}, produced.op)
    call.result, call.op = _result_parts(produced.message), op
    return True


def _result_parts(message: Plain) -> list[MessagePart]:
    return list(_parts(message)) or [MessagePart("text", "")]


def cut_parts(parts: Sequence[MessagePart], most: int) -> list[dict[str, Any]]:
    """The parts as plain dicts, each with `chars`, how long its text is, and of the text no more than so much."""
    return [
        {"kind": part.kind, "text": part.text[:most], "chars": len(part.text), "blob": part.blob, "detail": part.detail}
        for part in parts
    ]
