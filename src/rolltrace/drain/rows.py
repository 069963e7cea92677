"""Journal records as rows of the store's tables. Every row leaves through `Redactor.row`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from rolltrace.drain.checks import Checks, Finding, OpFacts
from rolltrace.drain.memory import Memory
from rolltrace.drain.prefix import Prefixes
from rolltrace.drain.redact import Redactor
from rolltrace.drain.tokens import take_columns
from rolltrace.record import (
    Coordinates,
    Error,
    Event,
    OpEnd,
    OpStart,
    Record,
    TrajectoryEnd,
    TrajectoryStart,
    decode_coordinates,
    decode_value,
)
from rolltrace.record.tables import (
    FLAGS,
    LOSSES,
    NOTES,
    SCORES,
    SPANS,
    TEXTS,
    TRAJECTORIES,
    TRANSITIONS,
    WHERE,
    Table,
    sample_columns,
)
from rolltrace.record.tokens import PROMPT_NAMES

_parts_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])


class Row(NamedTuple):
    """One row, and the table and step it belongs to."""

    table: Table
    step: int | None
    fields: dict[str, Any]


class RowMaker:
    """Makes rows of the records of one writer."""

    def __init__(self, meta: dict[str, Any], redactor: Redactor, memory: Memory, checks: Checks) -> None:
        self._origin = {
            "project": str(meta.get("project", "unknown")),
            "experiment": str(meta.get("experiment", "unknown")),
            "worker": str(meta.get("writer", "unknown")),
        }
        self._redactor = redactor
        self._memory = memory
        self._checks = checks
        self._prefixes = Prefixes()

    def rows(self, record: Record) -> Iterator[Row]:
        """The rows of a record that is complete in itself. Starts and blobs have none."""
        return map(self._storable, self._rows(record))

    def _storable(self, row: Row) -> Row:
        return row._replace(fields=self._redactor.row(row.table, row.fields))

    def _rows(self, record: Record) -> Iterator[Row]:
        if isinstance(record, OpEnd):
            yield from self._span(record, record.status, record.end_ns, record.error, record.outputs)
        elif isinstance(record, TrajectoryEnd):
            yield from self._trajectory(record, record.status, record.end_ns, record.error)
        elif isinstance(record, Event):
            yield from self._event(record)

    def unfinished(self, record: OpStart | TrajectoryStart, status: str) -> Iterator[Row]:
        """The rows of an op or trajectory that began and has no end: `running`, or `interrupted` by a kill."""
        if isinstance(record, OpStart):
            rows = self._span(record, status, None, None, None)
        else:
            rows = self._trajectory(record, status, None, None)
        return map(self._storable, rows)

    def _where(self, record: Any) -> tuple[Coordinates, dict[str, Any]]:
        at = decode_coordinates(record.coordinates)
        return at, {
            **self._origin,
            "trajectory_id": record.trajectory_id.hex() or None,
            "step": at.step,
            **sample_columns(at.sample_index),
            "rollout_n": at.rollout_n,
            "validate": at.validate,
        }

    def _ending(self, record: Any, status: str, end_ns: int | None, error: Error | None) -> dict[str, Any]:
        return {
            "name": record.name,
            "start_ns": record.start_ns,
            "end_ns": end_ns,
            "status": status,
            "error": f"{error.type}: {error.message}" if error else None,
            "traceback": error.traceback if error else None,
        }

    def _span(
        self, record: OpStart | OpEnd, status: str, end_ns: int | None, error: Error | None, outputs: Any
    ) -> Iterator[Row]:
        at, fields = self._where(record)
        given = self._inputs(record)
        result = None if outputs is None else decode_value(outputs)
        fields.update(self._ending(record, status, end_ns, error))
        fields.update(take_columns(given, result))
        fields.update(
            op_id=record.op_id,
            parent_id=record.parent_id or None,
            kind=record.kind,
            thread=getattr(record, "thread", "") or None,
            payload={"inputs": given, "outputs": result},
        )
        if tokenizer := getattr(record, "tokenizer", ""):
            fields["tokenizer"] = tokenizer
            fields.update(self._memory.texts.columns(tokenizer, record.trajectory_id, fields, self._redactor))
        if isinstance(record, OpEnd):
            self._memory.shared.remember(record)
        yield Row(SPANS, at.step, fields)
        yield from self._flags(at, fields, self._checks.of_op(OpFacts(fields, given, result)), record.op_id)

    def _flags(
        self, at: Coordinates, fields: dict[str, Any], findings: Iterable[Finding], op_id: int | None
    ) -> Iterator[Row]:
        for finding in findings:
            made = {column.name: fields[column.name] for column in WHERE}
            made["time_ns"] = fields.get("start_ns") or fields.get("time_ns")
            made.update(flag=finding.flag, op_id=finding.op_id or op_id or None, detail=finding.detail)
            yield Row(FLAGS, at.step, made)

    def _inputs(self, record: OpStart | OpEnd) -> Any:
        """The inputs as values; token ids that repeat those of the turn before come as an Arrow array."""
        try:
            parts = _parts_decoder.decode(record.inputs)
        except msgspec.MsgspecError:  # no dict with names: inputs that the user made
            return decode_value(record.inputs)
        given: dict[str, Any] = {}
        for name, part in parts.items():
            ids = self._prefixes.read(record.trajectory_id, bytes(part)) if name in PROMPT_NAMES else None
            given[name] = decode_value(part) if ids is None else ids
        return given

    def _trajectory(
        self, record: TrajectoryStart | TrajectoryEnd, status: str, end_ns: int | None, error: Error | None
    ) -> Iterator[Row]:
        at, fields = self._where(record)
        fields.update(self._ending(record, status, end_ns, error))
        fields.update(
            parent_trajectory_id=record.parent_trajectory_id.hex() if record.parent_trajectory_id else None,
            parent_op_id=record.parent_op_id or None,
            tags=decode_value(record.tags),
        )
        yield Row(TRAJECTORIES, at.step, fields)
        yield from self._flags(at, fields, self._checks.of_trajectory(fields), None)

    def _event(self, record: Event) -> Iterator[Row]:
        at, fields = self._where(record)
        fields["time_ns"] = record.time_ns
        fields["op_id"] = record.op_id or None
        if record.event == "transition":
            body = self._memory.shared.transition(record)
            trace = body.pop("trace", None)
            done, stop = body.get("episode_done"), body.get("stop_reason")
            fields.update(
                reward=_number(body.get("reward")),
                episode_done=done if isinstance(done, bool) else None,
                stop_reason=None if stop is None else str(stop),
                backfill=bool(body.pop("backfill", False)),
                trace=trace,
                fields=body,
            )
            yield Row(TRANSITIONS, at.step, fields)
            yield from self._flags(at, fields, self._checks.of_transition(trace, body), record.op_id)
            return
        body = decode_value(record.body)
        if record.event in ("reward", "score") and isinstance(body, dict):
            value = body.get("value")
            fields.update(
                name=str(body.get("name", "reward")),
                value=_number(value),
                label=value if isinstance(value, str) else None,
                terms=body.get("terms"),
                reason=None if body.get("reason") is None else str(body["reason"]),
            )
            yield Row(SCORES, at.step, fields)
        elif record.event == "text" and isinstance(body, dict):
            if body.get("text") is None:
                yield from self._flags(at, fields, self._checks.of_lost_text(body.get("why")), record.op_id)
            else:
                fields.update(self._memory.texts.late(record.trajectory_id, body, self._redactor))
                yield Row(TEXTS, at.step, fields)
        elif record.event == "drop" and isinstance(body, dict):
            for dropped in body.get("trajectories", ()):
                yield Row(
                    LOSSES, at.step, {**fields, "reason": str(body.get("reason")), "count": 1, "trajectory_id": dropped}
                )
        else:
            fields.update(event=record.event, body=body)
            yield Row(NOTES, at.step, fields)


def _number(value: Any) -> float | None:
    if isinstance(value, bool | int | float):
        number = float(value) if not isinstance(value, int) or abs(value) < 1 << 1000 else math.inf
        return number
    return None
