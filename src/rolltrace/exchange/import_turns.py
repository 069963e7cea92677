"""The ops of an imported conversation, turn by turn: model calls with what they saw and said, and tool calls.

Each model call has the whole conversation before it, as a call that was traced has. That grows with the square of a
session's length, so beyond `_MOST_REPEATED_BYTES` a call has only what is new: readers put both together.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from rolltrace.drain import take_columns
from rolltrace.exchange.import_rows import ImportedPlace, ImportedRow, span_row
from rolltrace.exchange.splitting import as_bytes

_MOST_REPEATED_BYTES = 64 << 20
_LAST_NS = (1 << 63) - 1


class Turns:
    """Collects the ops of one trajectory in the order in which they happened."""

    def __init__(self, place: ImportedPlace, start_ns: int) -> None:
        self._place = place
        self.rows: list[ImportedRow] = []
        self.end_ns = start_ns
        """When the last op ended; where times are not known, each op is a nanosecond after the one before."""
        self._messages: list[dict[str, Any]] = []
        self._fresh: list[dict[str, Any]] = []
        """What was said since the last reply, by others than tools, whose ops say it."""
        self._size = self._repeated = 0

    def say(self, role: str, content: Any, **more: Any) -> None:
        """Somebody said something, which the next model call sees."""
        message = {"role": role, "content": content, **more}
        self._fresh.append(message)
        self._add(message)

    def reply(
        self,
        message: dict[str, Any],
        *,
        messages: list[dict[str, Any]] | None = None,
        more_outputs: dict[str, Any] | None = None,
        more_inputs: dict[str, Any] | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
        name: str = "assistant",
        kind: str = "llm",
        **fields: Any,
    ) -> None:
        """The model answered.

        Args:
            message: Its message, in OpenAI's chat format.
            messages: The messages that it was given, if that is known to be something else than all that was said.
            more_outputs: What else stands in the outputs: usage, token ids, logprobs, finish reason.
            more_inputs: What else stands in the inputs: the model, prompt token ids, sampling parameters.
            start_ns: When the call began.
            end_ns: When it ended.
            name: What the op is called.
            kind: `llm`, or `aux_llm` for a call of another model, which no later one sees.
            **fields: Further columns.
        """
        if messages is not None and kind == "llm":
            self._see(messages)
        self._repeated += self._size
        shown = self._messages if self._repeated <= _MOST_REPEATED_BYTES else self._fresh
        shown = shown if kind == "llm" or messages is None else messages
        inputs: dict[str, Any] = {**({"messages": list(shown)} if shown else {}), **(more_inputs or {})}
        outputs = {**message, **(more_outputs or {})}
        columns = take_columns(inputs, outputs)
        self._op(name, kind, start_ns, end_ns, **columns, inputs=inputs, outputs=outputs, **fields)
        if kind == "llm":
            self._fresh = []
            self._add(message)

    def tool(
        self,
        name: str,
        arguments: Any,
        result: Any,
        call_id: str | None = None,
        *,
        message: dict[str, Any] | None = None,
        error: str | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> None:
        """A tool was called; `message` is what the model sees of it, if that is known."""
        failed = {} if error is None else {"status": "error", "error": error}
        self._op(name, "tool", start_ns, end_ns, inputs=arguments, outputs=result, **failed)
        content = error if result is None else result
        self._add(message or {"role": "tool", "tool_call_id": call_id, "name": name, "content": content})

    def called(self, call_id: Any) -> tuple[Any, Any]:
        """Name and arguments of the tool call with this id, in the newest reply that has it; None if none has."""
        for message in reversed(self._messages):
            calls = message.get("tool_calls") if message["role"] == "assistant" else None
            for call in calls if isinstance(calls, list) else ():
                function = call.get("function") if isinstance(call, dict) and call.get("id") == call_id else None
                if isinstance(function, dict):
                    return function.get("name"), function.get("arguments")
        return None, None

    def begin_anew(self) -> None:
        """What was said so far is not seen by the next model call: a session was compacted."""
        self._messages, self._size = [], 0

    def finished(self) -> list[ImportedRow]:
        """All ops; what was said after the last reply is an op of its own, `messages`."""
        if self._fresh:
            self._op("messages", "env", None, None, outputs={"messages": self._fresh})
            self._fresh = []
        return self.rows

    def _see(self, messages: list[dict[str, Any]]) -> None:
        """Take these messages for all that was said."""
        first_other = next((at for at, (old, new) in enumerate(zip(self._messages, messages)) if old != new), None)
        same = min(len(self._messages), len(messages)) if first_other is None else first_other
        self._fresh = [message for message in messages[same:] if message.get("role") != "tool"]
        self._size -= sum(len(as_bytes(message)) for message in self._messages[same:])
        del self._messages[same:]
        for message in messages[same:]:
            self._add(message)

    def _op(self, name: str, kind: str, start_ns: int | None, end_ns: int | None, **values: Any) -> None:
        start = self.end_ns + 1 if start_ns is None else start_ns
        end = max(start, start if end_ns is None else end_ns)
        self.end_ns = max(self.end_ns, end)
        number = len(self.rows)
        self.rows.append(span_row(self._place, number, name, kind, start, end_ns=end, **values))

    def _add(self, message: dict[str, Any]) -> None:
        self._messages.append(message)
        self._size += len(as_bytes(message))


def tool_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """A tool call as it stands in a message of OpenAI's chat format."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def time_of(value: Any) -> int | None:
    """Nanoseconds since 1970 of a time in ISO 8601 (UTC if it names no zone) or in seconds; None if it is none."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))  # 3.10 does not know the Z
        except ValueError:
            return None
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
        since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
        nanoseconds = (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
    elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LAST_NS / 1e9:
        nanoseconds = int(value * 1e9)
    else:
        return None
    return nanoseconds if 0 < nanoseconds <= _LAST_NS else None


def add_message(turns: Turns, message: dict[str, Any], *, said_before: bool = False, **reply: Any) -> None:
    """A message of OpenAI's chat format as what it is: a reply, a tool call, or something that was said.

    Args:
        turns: Of the trajectory.
        message: The message.
        said_before: It was there before the rollout, whoever said it.
        **reply: What is known of the model call, if it is a reply: see `Turns.reply`.
    """
    role, content = message.get("role"), message.get("content")
    if role == "assistant" and not said_before:
        turns.reply(message, **reply)
    elif role == "tool" and not said_before:
        call_id = message.get("tool_call_id")
        called, arguments = turns.called(call_id)
        name = str(message.get("name") or called or "tool")
        has_failed = message.get("status") == "error" or message.get("is_error") is True
        error = (content if isinstance(content, str) else "failed") if has_failed else None
        turns.tool(name, arguments, content, call_id, message=message, error=error)
    else:
        more = {key: value for key, value in message.items() if key not in ("role", "content")}
        turns.say(str(role or "user"), content, **more)
