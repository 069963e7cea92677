"""A trajectory while a format puts it together: its ops, turn by turn, its scores, and the rows that they become.

Each model call has the whole conversation before it, as a call that was traced has. That grows with the square of a
session's length, so beyond `_MAX_REPEATED_BYTES` a call has only what is new: readers put both together. Every value is
checked against its column, so that one bad line cannot spoil a whole batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import xxhash

from rolltrace.drain import take_columns
from rolltrace.exchange import fields
from rolltrace.exchange.fields import Malformed, shown
from rolltrace.exchange.text import as_bytes
from rolltrace.record import (
    MODEL_KINDS,
    SCORES,
    SPANS,
    TRAJECTORIES,
    ColumnType,
    SampleIndex,
    Table,
    clean_text,
    sample_columns,
    to_json,
)

_MAX_REPEATED_BYTES = 64 << 20
_INT_BITS: dict[ColumnType, int] = {"int64": 63, "int32": 31}
_NOUNS: dict[ColumnType, str] = {
    "text": "text", "long text": "text", "int32[]": "whole numbers", "bool": "true or false", "float64": "a number",
}  # fmt: skip


class ImportedRow(NamedTuple):
    """One row, and the table it belongs to."""

    table: Table
    fields: dict[str, Any]


class ImportedPlace(NamedTuple):
    """Which trajectory, and where it stands."""

    trajectory_id: str
    project: str
    experiment: str
    step: int | None = None
    sample_index: SampleIndex | None = None
    rollout_n: int | None = None
    validate: bool = False
    worker: str = "import"
    run: str | None = None

    @classmethod
    def read(
        cls, record: Mapping[str, Any], project: str | None, experiment: str | None, *, validate: bool
    ) -> ImportedPlace:
        """Where a record says that it stands, in the project and experiment that were asked for.

        Raises:
            Malformed: a coordinate is not what it must be, or project and experiment are not known.
        """
        project, experiment = project or record.get("project"), experiment or record.get("experiment")
        if not isinstance(project, str) or not isinstance(experiment, str) or not project or not experiment:
            raise Malformed("it names no project and experiment; pass --project and --experiment")
        is_validation = record.get("validate") or False
        if not isinstance(is_validation, bool):
            raise Malformed(f"validate must be true or false, not {shown(is_validation)}")
        run = fields.text(record, "run")
        step, rollout_n = (fields.whole(record.get(name), name) for name in ("step", "rollout_n"))
        where = (step, fields.sample(record.get("sample_index")), rollout_n)
        return cls("", project, experiment, *where, validate or is_validation, run=run)

    def columns(self) -> dict[str, Any]:
        """The columns that every row has."""
        return {**self._asdict(), **sample_columns(self.sample_index)}


def row(table: Table, place: ImportedPlace, values: Mapping[str, Any]) -> ImportedRow:
    """A row of a table: JSON columns are encoded, every type is checked. The importer takes secrets out."""
    columns = {**place.columns(), **values}
    if table is SPANS:
        columns["payload"] = {"inputs": columns.get("inputs"), "outputs": columns.get("outputs")}
    return fitting_row(table, columns)


def fitting_row(table: Table, values: Mapping[str, Any]) -> ImportedRow:
    """As `row`, from all the columns."""
    return ImportedRow(
        table, {column.name: _fit(column.name, column.type, values.get(column.name)) for column in table.columns}
    )


def _fit(name: str, kind: ColumnType, value: Any) -> Any:
    if value is None:
        return None
    if kind == "json":
        return json.dumps(to_json(value), ensure_ascii=False, separators=(",", ":"))
    if kind in ("text", "long text") and isinstance(value, str):
        return clean_text(value)
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "float64" and fields.is_number(value):
        try:
            return float(value)
        except OverflowError:
            raise Malformed(f"{name} is too large: {shown(value)}") from None
    if kind in _INT_BITS and isinstance(value, int) and not isinstance(value, bool):
        if -(1 << _INT_BITS[kind]) <= value < 1 << _INT_BITS[kind]:
            return value
        raise Malformed(f"{name} does not fit {kind}: {shown(value)}")
    if kind.endswith("[]") and hasattr(value, "type"):  # an Arrow array, from `take_columns`
        return value
    if kind == "int32[]" and isinstance(value, list) and all(type(n) is int and abs(n) < 1 << 31 for n in value):
        return value
    raise Malformed(f"{name} must be {_NOUNS.get(kind, 'a whole number')}, not {shown(value)}")


def op_id(trajectory_id: str, number: int) -> int:
    """An id for the nth op of a trajectory, the same whenever it is imported."""
    return xxhash.xxh3_64_intdigest(f"{trajectory_id} {number}".encode()) >> 1


class Draft:
    """One trajectory. Its ops are told in the order in which they happened."""

    def __init__(self, place: ImportedPlace, name: str, start_ns: int) -> None:
        self.place = place
        self._name, self._start_ns = name, start_ns
        self.end_ns = start_ns
        """When the last op ended; where times are not known, each op is a nanosecond after the one before."""
        self._ops: list[ImportedRow] = []
        self._events: list[tuple[Table, dict[str, Any]]] = []
        self._messages: list[dict[str, Any]] = []
        self._fresh: list[dict[str, Any]] = []
        """What was said since the last reply, by others than tools, whose ops say it."""
        self._size = self._repeated = 0

    def op(
        self,
        name: str,
        kind: str,
        start_ns: int | None = None,
        end_ns: int | None = None,
        *,
        inputs: Any = None,
        outputs: Any = None,
        is_open: bool = False,
        **columns: Any,
    ) -> int:
        """Something happened; returns the id of its op. Token columns of a model call are read off its values.

        `is_open`: it had not ended when the file was written.
        """
        taken = take_columns(inputs, outputs) if kind in MODEL_KINDS else {}  # and puts a word in their place
        start = self.end_ns + 1 if start_ns is None else start_ns
        end = max(start, start if end_ns is None else end_ns)
        self.end_ns = max(self.end_ns, end)
        own_id = op_id(self.place.trajectory_id, len(self._ops))
        own = {"op_id": own_id, "name": name, "kind": kind, "start_ns": start, "status": "ok"}
        own["end_ns"] = None if is_open else end
        self._ops.append(row(SPANS, self.place, {**own, **taken, "inputs": inputs, "outputs": outputs, **columns}))
        return own_id

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
        **columns: Any,
    ) -> None:
        """The model answered with a message of OpenAI's chat format.

        `messages` are those that it was given, if that is known to be something else than all that was said;
        `more_inputs` and `more_outputs` what else stands there: model, sampling parameters, usage, token ids, logprobs.
        An `aux_llm` is another model, whose answer no later call sees.
        """
        if messages is not None and kind == "llm":
            self._see(messages)
        self._repeated += self._size
        visible = self._messages if self._repeated <= _MAX_REPEATED_BYTES else self._fresh
        visible = visible if kind == "llm" or messages is None else messages
        inputs = {**({"messages": list(visible)} if visible else {}), **fields.without_nothing(more_inputs or {})}
        outputs = {**message, **fields.without_nothing(more_outputs or {})}
        self.op(name, kind, start_ns, end_ns, inputs=inputs, outputs=outputs, **columns)
        if kind == "llm":
            self._fresh = []
            self._add(message)

    def tool(
        self,
        call_id: Any,
        result: Any,
        *,
        name: Any = None,
        arguments: Any = None,
        message: dict[str, Any] | None = None,
        error: str | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> None:
        """A tool was called. Name and arguments that are not told are those of the newest reply with this call.

        `message` is what the model sees of it, if that is known.
        """
        if name is None:
            name, arguments = self._find_call(call_id)
        name = str(name or "tool")
        failed: dict[str, Any] = {} if error is None else {"status": "error", "error": error}
        self.op(name, "tool", start_ns, end_ns, inputs=arguments, outputs=result, **failed)
        content = error if result is None else result
        call_id = call_id if isinstance(call_id, str) else None
        self._add(message or {"role": "tool", "tool_call_id": call_id, "name": name, "content": content})

    def add_message(self, message: dict[str, Any], *, said_before: bool = False, **reply: Any) -> None:
        """A message of OpenAI's chat format as what it is: a reply, a tool call, or something that was said.

        `said_before`: it was there before the rollout, whoever said it. `reply` is what else is known of a model call.
        """
        role, content = message.get("role"), message.get("content")
        if role == "assistant" and not said_before:
            self.reply(message, **reply)
        elif role == "tool" and not said_before:
            name, arguments = self._find_call(message.get("tool_call_id"))
            has_failed = message.get("status") == "error" or message.get("is_error") is True
            error = (content if isinstance(content, str) else "failed") if has_failed else None
            name = message.get("name") or name or "tool"
            self.tool(None, content, name=name, arguments=arguments, message=message, error=error)
        else:
            more = {key: value for key, value in message.items() if key not in ("role", "content")}
            self.say(str(role or "user"), content, **more)

    def begin_anew(self) -> None:
        """What was said so far is not seen by the next model call: a session was compacted."""
        self._messages, self._size = [], 0

    def reward(self, value: float | None, terms: Mapping[str, Any] | None = None) -> None:
        """The reward, and its terms, as far as there are any."""
        if value is not None or terms:
            self.score("reward", value, terms or {})

    def advantage(self, value: Any) -> None:
        """The advantage, if this is a number."""
        if fields.is_number(value):
            self.score("advantage", value)

    def score(self, name: str, value: Any = None, terms: Mapping[str, Any] | None = None, **columns: Any) -> None:
        """A reward or another score; `time_ns` is the end of the trajectory, if not among the columns."""
        self.event(SCORES, name=name, value=value, terms=terms, **columns)

    def event(self, table: Table, **columns: Any) -> None:
        """A row of another table; `time_ns` is the end of the trajectory, if not among the columns."""
        self._events.append((table, columns))

    def finish(
        self,
        tags: Mapping[str, Any],
        *,
        end_ns: int | None = None,
        is_open: bool = False,
        error: str | None = None,
        **columns: Any,
    ) -> list[ImportedRow]:
        """All rows, that of the trajectory first; what was said after the last reply is an op of its own, `messages`.

        Tags that are None are left out. `end_ns` counts if it is after the last op; `is_open`: it had not ended when
        the file was written.
        """
        if self._fresh:
            self.op("messages", "env", outputs={"messages": self._fresh})
        end_ns = max(end_ns or 0, self.end_ns)
        status = "ok" if error is None else "error"
        own: dict[str, Any] = {"name": self._name, "start_ns": self._start_ns, "status": status, "error": error}
        own["end_ns"] = None if is_open else end_ns
        own["tags"] = {name: value for name, value in tags.items() if value is not None}
        rows = [row(TRAJECTORIES, self.place, {**own, **columns}), *self._ops]
        return rows + [row(table, self.place, {"time_ns": end_ns, **event}) for table, event in self._events]

    def _find_call(self, call_id: Any) -> tuple[Any, Any]:
        """Name and arguments of the tool call with this id, in the newest reply that has it; None if none has."""
        for message in reversed(self._messages):
            calls = message.get("tool_calls") if message["role"] == "assistant" else None
            for call in calls if isinstance(calls, list) else ():
                function = call.get("function") if isinstance(call, dict) and call.get("id") == call_id else None
                if isinstance(function, dict):
                    return function.get("name"), function.get("arguments")
        return None, None

    def _see(self, messages: list[dict[str, Any]]) -> None:
        """Take these messages for all that was said."""
        first_other = next((at for at, (old, new) in enumerate(zip(self._messages, messages)) if old != new), None)
        same = min(len(self._messages), len(messages)) if first_other is None else first_other
        self._fresh = [message for message in messages[same:] if message.get("role") != "tool"]
        self._size -= sum(len(as_bytes(message)) for message in self._messages[same:])
        del self._messages[same:]
        for message in messages[same:]:
            self._add(message)

    def _add(self, message: dict[str, Any]) -> None:
        self._messages.append(message)
        self._size += len(as_bytes(message))
