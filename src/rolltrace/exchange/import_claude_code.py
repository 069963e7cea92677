"""Reads sessions of Claude Code: `~/.claude/projects/PROJECT/SESSION.jsonl`, and those of its subagents.

A session is a trajectory, named by its file: when it has grown, importing it again replaces it. Lines with the id of
one message are one answer of the model. Lines of a side chain, as older releases have them in the same file, are a
trajectory begun in the session. What stands in the file for the program itself (snapshots, queue, titles) is left out.
There is no reward.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolltrace.exchange import fields
from rolltrace.exchange.draft import Draft, ImportedRow
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import Line, whole_session

_MAIN = "session"


def recognise(peek: Peek) -> str | None:
    """By what every line has."""
    has_marks = b'"sessionId"' in peek.head and b'"type"' in peek.head
    is_session = has_marks and (b'"parentUuid"' in peek.head or b'"leafUuid"' in peek.head)
    return "its lines have sessionId and parentUuid" if is_session and peek.path.suffix == ".jsonl" else None


def reader(source: Source) -> LineReader:
    """A reader of one session."""
    source.split = _chains
    source.named_by("claude-code", source.path.stem)

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        lines, chain = fields.objects(record, "lines"), str(record.get("chain"))
        if not any(_is_said(each) for each in lines):
            raise fields.Malformed("not a session of Claude Code: nobody says anything in it")
        main_id, own_id = (source.id_of("claude-code", source.path.stem, each) for each in (_MAIN, chain))
        name = "claude-code" if chain == _MAIN else "claude-code subagent"
        draft = source.draft(line, name, own_id, start_ns=fields.first_time(lines))
        _add_lines(draft, lines)
        return draft.finish(_tags(lines), parent_trajectory_id=None if chain == _MAIN else main_id)

    return read


def _chains(path: Path) -> Iterator[Line]:
    """The session itself, then its side chains."""
    is_agent = path.name.startswith("agent-")
    for line in whole_session(path):
        if line.problem is not None:
            yield line
            continue
        chains: dict[str, list[Any]] = {_MAIN: []}
        for each in line.value["lines"]:
            is_side = each.get("isSidechain") is True and not is_agent
            chains.setdefault(str(each.get("agentId") or "side chain") if is_side else _MAIN, []).append(each)
        for number, (chain, lines) in enumerate(chains.items()):
            yield Line(number, chain.encode(), {"lines": lines, "chain": chain})


def _is_said(line: dict[str, Any]) -> bool:
    """Whether a line has a message; others are about something else."""
    return line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict)


def _add_lines(draft: Draft, lines: list[dict[str, Any]]) -> None:
    before = fields.time_of(lines[0].get("timestamp")) if lines else None
    answer: dict[str, Any] = {}
    answered_at: int | None = None

    def close() -> None:
        nonlocal before, answer
        if answer:
            _reply(draft, answer, before, answered_at)
            before, answer = answered_at or before, {}

    for line in filter(_is_said, lines):
        message, at = line["message"], fields.time_of(line.get("timestamp"))
        if line["type"] == "assistant":
            if message.get("id") != answer.get("id"):
                close()
            answer = {**answer, **message, "blocks": [*answer.get("blocks", ()), *_blocks(message.get("content"))]}
            answered_at = at or answered_at
            continue
        close()
        if line.get("isCompactSummary") is True:
            draft.begin_anew()
        _add_user(draft, message.get("content"), before, at)
        before = at or before
    close()


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _reply(draft: Draft, answer: dict[str, Any], start_ns: int | None, end_ns: int | None) -> None:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for block in answer["blocks"]:
        if block.get("type") == "text":
            message["content"] = (message["content"] or "") + str(block.get("text") or "")
        elif block.get("type") == "thinking":
            message["reasoning_content"] = message.get("reasoning_content", "") + str(block.get("thinking") or "")
        elif block.get("type") == "tool_use":
            call = fields.tool_call(block.get("id"), block.get("name"), block.get("input"))
            message.setdefault("tool_calls", []).append(call)
    model = answer.get("model")
    draft.reply(
        message,
        more_outputs=fields.pick(answer, "usage", "model", "stop_reason", "id"),
        more_inputs={"model": model if isinstance(model, str) else None},
        start_ns=start_ns,
        end_ns=end_ns,
    )


def _add_user(draft: Draft, content: Any, start_ns: int | None, end_ns: int | None) -> None:
    others = []
    for block in _blocks(content):
        if block.get("type") != "tool_result":
            others.append(block)
            continue
        result = block.get("content")
        failed = (result if isinstance(result, str) else "failed") if block.get("is_error") is True else None
        draft.tool(block.get("tool_use_id"), result, error=failed, start_ns=start_ns, end_ns=end_ns)
    if isinstance(content, str):
        draft.say("user", content)
    elif others:
        draft.say("user", others)


def _tags(lines: list[dict[str, Any]]) -> dict[str, Any]:
    tags: dict[str, Any] = {}
    for line in lines:
        for name in ("sessionId", "cwd", "gitBranch", "version", "agentId"):
            if isinstance(line.get(name), str):
                tags.setdefault(name, line[name])
        if line.get("type") == "summary" and isinstance(line.get("summary"), str):
            tags["summary"] = line["summary"]
    return tags
