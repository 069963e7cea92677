"""Reads sessions of Claude Code: `~/.claude/projects/PROJECT/SESSION.jsonl`, and those of its subagents.

A session is a trajectory, named by its file: when it has grown, importing it again replaces it. Lines with the id of
one message are one answer of the model. Lines of a side chain, as older releases have them in the same file, are a
trajectory begun in the session. What stands in the file for the program itself (snapshots, queue, titles) is left out.
There is no reward.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.import_rows import ImportedRow, Malformed, row, without_nothing
from rolltrace.exchange.import_turns import Turns, time_of, tool_call
from rolltrace.exchange.importer import BadLine, Line, LineReader, Source, place_of
from rolltrace.exchange.splitting import objects, whole_session
from rolltrace.record import TRAJECTORIES

_NAME = re.compile(r"(?:[0-9a-f]{8}-[0-9a-f-]{27}|agent-[0-9a-zA-Z-]+)\.jsonl")
_MAIN = "session"


def files(folder: Path) -> list[Path]:
    """The sessions below a folder, such as ~/.claude/projects."""
    return sorted(each for each in folder.rglob("*.jsonl") if _NAME.fullmatch(each.name))


def recognise(peek: Peek) -> str | None:
    """By what every line has."""
    has_marks = b'"sessionId"' in peek.head and b'"type"' in peek.head
    is_session = has_marks and (b'"parentUuid"' in peek.head or b'"leafUuid"' in peek.head)
    return "its lines have sessionId and parentUuid" if is_session and peek.path.suffix == ".jsonl" else None


def reader(source: Source) -> LineReader:
    """A reader of one session."""
    source.target.named()
    source.split = _chains
    source.named_by("claude-code", source.path.stem)

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        lines, chain = objects(record.get("lines")), str(record.get("chain") or _MAIN)
        if not any(_said(each) is not None for each in lines):
            raise Malformed("not a session of Claude Code: nobody says anything in it")
        place = place_of(source, line, _id_of(source, chain), validate=source.target.validate)
        times = [at for each in lines if (at := time_of(each.get("timestamp"))) is not None]
        start = min(times, default=line.time_ns)
        turns = Turns(place, start)
        _add_lines(turns, lines)
        own: dict[str, Any] = {
            "name": "claude-code" if chain == _MAIN else "claude-code subagent", "status": "ok", "start_ns": start,
            "tags": _tags(lines),
        }  # fmt: skip
        if chain != _MAIN:
            own["parent_trajectory_id"] = _id_of(source, _MAIN)
        ops = turns.finished()
        return [row(TRAJECTORIES, place, {**own, "end_ns": turns.end_ns}), *ops]

    return read


def _id_of(source: Source, chain: str) -> str:
    return source.id_of("claude-code", source.path.stem, chain)


def _chains(source: Source) -> Iterator[Line | BadLine]:
    """The session itself, then its side chains."""
    for line in whole_session(source):
        if isinstance(line, BadLine):
            yield line
            continue
        chains: dict[str, list[Any]] = {_MAIN: []}
        is_agent = source.path.name.startswith("agent-")
        for each in line.records[0]["lines"]:
            is_side = each.get("isSidechain") is True and not is_agent
            chains.setdefault(str(each.get("agentId") or "side chain") if is_side else _MAIN, []).append(each)
        for number, (chain, lines) in enumerate(chains.items()):
            yield Line(number, chain.encode(), {"lines": lines, "chain": chain}, source.time_ns + number)


def _said(line: dict[str, Any]) -> dict[str, Any] | None:
    """The message of a line; None for one that is about something else."""
    message = line.get("message")
    is_said = line.get("type") in ("user", "assistant") and isinstance(message, dict)
    return message if is_said and isinstance(message, dict) else None


def _add_lines(turns: Turns, lines: list[dict[str, Any]]) -> None:
    before = time_of(lines[0].get("timestamp")) if lines else None
    answer: dict[str, Any] | None = None
    answered_at: int | None = None
    for line in lines:
        message = _said(line)
        if message is None:
            continue
        at = time_of(line.get("timestamp"))
        if line["type"] == "assistant":
            if answer is not None and message.get("id") != answer.get("id"):
                before = _reply(turns, answer, before, answered_at)
                answer = None
            answer = _joined(answer, message)
            answered_at = at or answered_at
            continue
        if answer is not None:
            before = _reply(turns, answer, before, answered_at)
            answer = None
        if line.get("isCompactSummary") is True:
            turns.begin_anew()
        _add_user(turns, message.get("content"), before, at)
        before = at or before
    if answer is not None:
        _reply(turns, answer, before, answered_at)


def _joined(answer: dict[str, Any] | None, message: dict[str, Any]) -> dict[str, Any]:
    """An answer, and a further line of it: each line has one block of its content."""
    if answer is None:
        return {**message, "content": list(_blocks(message.get("content")))}
    return {**answer, **message, "content": [*answer["content"], *_blocks(message.get("content"))]}


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _reply(turns: Turns, answer: dict[str, Any], start_ns: int | None, end_ns: int | None) -> int | None:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for block in answer["content"]:
        if block.get("type") == "text":
            message["content"] = (message["content"] or "") + str(block.get("text") or "")
        elif block.get("type") == "thinking":
            message["reasoning_content"] = message.get("reasoning_content", "") + str(block.get("thinking") or "")
        elif block.get("type") == "tool_use":
            call = tool_call(block.get("id"), block.get("name"), block.get("input"))
            message.setdefault("tool_calls", []).append(call)
    more_outputs = {name: answer.get(name) for name in ("usage", "model", "stop_reason", "id")}
    more_inputs = {"model": answer["model"]} if isinstance(answer.get("model"), str) else {}
    turns.reply(
        message, more_outputs=without_nothing(more_outputs), more_inputs=more_inputs, start_ns=start_ns, end_ns=end_ns
    )
    return end_ns or start_ns


def _add_user(turns: Turns, content: Any, start_ns: int | None, end_ns: int | None) -> None:
    others = []
    for block in _blocks(content):
        if block.get("type") != "tool_result":
            others.append(block)
            continue
        name, arguments = turns.called(block.get("tool_use_id"))
        result = block.get("content")
        failed = (result if isinstance(result, str) else "failed") if block.get("is_error") is True else None
        call_id = block.get("tool_use_id")
        turns.tool(
            str(name or "tool"), arguments, result, call_id if isinstance(call_id, str) else None, error=failed,
            start_ns=start_ns, end_ns=end_ns,
        )  # fmt: skip
    if isinstance(content, str):
        turns.say("user", content)
    elif others:
        turns.say("user", others)


def _tags(lines: list[dict[str, Any]]) -> dict[str, Any]:
    tags: dict[str, Any] = {}
    for line in lines:
        for name in ("sessionId", "cwd", "gitBranch", "version", "agentId"):
            if isinstance(line.get(name), str):
                tags.setdefault(name, line[name])
        if line.get("type") == "summary" and isinstance(line.get("summary"), str):
            tags["summary"] = line["summary"]
    return tags
