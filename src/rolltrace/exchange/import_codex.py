"""Reads sessions of Codex: `~/.codex/sessions/Y/M/D/rollout-TIME-ID.jsonl`.

A session is a trajectory, named by its file: when it has grown, importing it again replaces it. Items of a response
that stand together (reasoning, text, calls) are one answer of the model; the usage that follows belongs to it. There
is no reward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rolltrace.exchange import fields
from rolltrace.exchange.draft import Draft, ImportedRow
from rolltrace.exchange.guessing import Peek
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import Line, whole_session

_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call"})
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_USAGE = {
    "input_tokens": "prompt_tokens", "output_tokens": "completion_tokens", "cached_input_tokens": "cached_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}  # fmt: skip


def recognise(peek: Peek) -> str | None:
    """By its first line."""
    is_session = peek.record.get("type") == "session_meta" and isinstance(peek.record.get("payload"), dict)
    return "its first line is session_meta" if is_session else None


def reader(source: Source) -> LineReader:
    """A reader of one session."""
    source.split = whole_session
    source.named_by("codex", source.path.stem)

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        session = _Session()
        for each in fields.objects(record, "lines"):
            session.add(each)
        if not session.events:
            raise fields.Malformed("not a session of Codex: nobody says anything in it")
        draft = source.draft(line, "codex", source.id_of("codex", source.path.stem), start_ns=session.start_ns)
        for event in session.events:
            event(draft)
        return draft.finish(session.tags)

    return read


class _Reply:
    """An answer, as far as it is known."""

    def __init__(self, start_ns: int | None, model: str | None) -> None:
        self.message: dict[str, Any] = {"role": "assistant", "content": None}
        self.usage: dict[str, Any] | None = None
        self.start_ns = self.end_ns = start_ns
        self._model = model

    def __call__(self, draft: Draft) -> None:
        draft.reply(
            self.message,
            more_outputs={"usage": self.usage},
            more_inputs={"model": self._model},
            start_ns=self.start_ns,
            end_ns=self.end_ns,
        )


class _Session:
    """What happened, in its order; usage is told after what it belongs to."""

    def __init__(self) -> None:
        self.events: list[Callable[[Draft], None]] = []
        self.tags: dict[str, Any] = {}
        self.start_ns: int | None = None
        self._open: _Reply | None = None
        self._newest: _Reply | None = None
        self._last_ns: int | None = None

    def add(self, line: dict[str, Any]) -> None:
        at, kind, payload = fields.time_of(line.get("timestamp")), line.get("type"), line.get("payload")
        self.start_ns = self.start_ns or at
        if not isinstance(payload, dict):
            payload, kind = line, "response_item"  # older releases: the items themselves
        if kind == "session_meta":
            names = ("id", "cwd", "cli_version", "originator", "git", "model_provider")
            self.tags.update((name, payload.get(name)) for name in names)
        elif kind == "turn_context" and isinstance(payload.get("model"), str):
            self.tags["model"] = payload["model"]
        elif kind == "response_item":
            self._item(payload, at)
        elif kind == "compacted":
            self._happened(Draft.begin_anew)
            self._happened(lambda draft: draft.say("user", payload.get("message")))
        else:
            self._measure(payload)
        self._last_ns = at or self._last_ns

    def _item(self, item: dict[str, Any], at: int | None) -> None:
        kind, role = str(item.get("type")), item.get("role")
        if kind == "message" and role != "assistant":
            self._happened(lambda draft: draft.say(str(role or "user"), _text(item.get("content"))))
        elif kind in _RESULTS:
            self._happened(lambda draft: draft.tool(item.get("call_id"), item.get("output"), end_ns=at))
        elif kind in ("message", "reasoning") or kind in _CALLS:
            if self._open is None:
                start_ns = None if at is None else self._last_ns or at
                self._open = self._newest = _Reply(start_ns, self.tags.get("model"))
                self.events.append(self._open)
            self._open.end_ns = at or self._open.end_ns
            _extend(self._open.message, item)

    def _happened(self, event: Callable[[Draft], None]) -> None:
        self._open = None
        self.events.append(event)

    def _measure(self, payload: dict[str, Any]) -> None:
        info = payload.get("info")
        usage = info.get("last_token_usage") if isinstance(info, dict) else payload.get("usage")
        if isinstance(usage, dict) and self._newest is not None and self._newest.usage is None:
            self._newest.usage = {name: usage[key] for key, name in _USAGE.items() if type(usage.get(key)) is int}
            self._open = None


def _extend(message: dict[str, Any], item: dict[str, Any]) -> None:
    kind = item.get("type")
    if kind == "message":
        message["content"] = (message["content"] or "") + _text(item.get("content"))
    elif kind == "reasoning":
        text = _text(item.get("summary")) or _text(item.get("content"))
        if text:
            message["reasoning_content"] = message.get("reasoning_content", "") + text
    else:
        arguments = next((item[name] for name in ("arguments", "input", "action") if item.get(name) is not None), None)
        call = fields.tool_call(item.get("call_id") or item.get("id"), item.get("name") or kind, arguments)
        message.setdefault("tool_calls", []).append(call)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text") is not None)
