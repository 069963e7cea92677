"""Journal records as rows of the store's tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from rolltrace.drain.prefix import Prefixes
from rolltrace.drain.redact import Redactor
from rolltrace.drain.tokens import PROMPT_NAMES, take_columns
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
    to_json,
)
from rolltrace.record.tables import NOTES, SCORES, SPANS, TRAJECTORIES, TRANSITIONS, Table

_encode_json = msgspec.json.Encoder().encode
_parts_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])


class Row(NamedTuple):
    """One row, and the table and step it belongs to."""

    table: Table
    step: int | None
    fields: dict[str, Any]


class RowMaker:
    """Makes rows of the records of one writer."""

    def __init__(self, meta: dict[str, Any], redactor: Redactor) -> None:
        self._origin = {
            "project": str(meta.get("project", "unknown")),
            "experiment": str(meta.get("experiment", "unknown")),
            "worker": str(meta.get("writer", "unknown")),
        }
        self._redactor = redactor
        self._prefixes = Prefixes()

    def rows(self, record: Record) -> Iterator[Row]:
        """The rows of a record that is complete in itself. Starts and blobs have none."""
        if isinstance(record, OpEnd):
            yield self._span(record, record.status, record.end_ns, record.error, record.outputs)
        elif isinstance(record, TrajectoryEnd):
            yield self._trajectory(record, record.status, record.end_ns, record.error)
        elif isinstance(record, Event):
            yield self._event(record)

    def unfinished(self, record: OpStart | TrajectoryStart, status: str) -> Row:
        """The row of an op or trajectory that began and has no end: `running`, or `interrupted` by a kill."""
        if isinstance(record, OpStart):
            return self._span(record, status, None, None, None)
        return self._trajectory(record, status, None, None)

    def _where(self, record: Any) -> tuple[Coordinates, dict[str, Any]]:
        at = decode_coordinates(record.coordinates)
        return at, {
            **self._origin,
            "trajectory_id": record.trajectory_id.hex(),
            "step": at.step,
            "sample_index": None if at.sample_index is None else str(at.sample_index),
            "sample_is_int": isinstance(at.sample_index, int),
            "rollout_n": at.rollout_n,
            "validate": at.validate,
        }

    def _ending(self, record: Any, status: str, end_ns: int | None, error: Error | None) -> dict[str, Any]:
        clean = self._redactor.text
        return {
            "name": record.name,
            "start_ns": record.start_ns,
            "end_ns": end_ns,
            "status": status,
            "error": clean(f"{error.type}: {error.message}") if error else None,
            "traceback": clean(error.traceback) if error else None,
        }

    def _span(self, record: OpStart | OpEnd, status: str, end_ns: int | None, error: Error | None, outputs: Any) -> Row:
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
            payload=self._json({"inputs": given, "outputs": result}),
        )
        return Row(SPANS, at.step, fields)

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
    ) -> Row:
        at, fields = self._where(record)
        fields.update(self._ending(record, status, end_ns, error))
        fields.update(
            parent_trajectory_id=record.parent_trajectory_id.hex() if record.parent_trajectory_id else None,
            parent_op_id=record.parent_op_id or None,
            tags=self._json(decode_value(record.tags)),
        )
        return Row(TRAJECTORIES, at.step, fields)

    def _event(self, record: Event) -> Row:
        at, fields = self._where(record)
        body = decode_value(record.body)
        fields["time_ns"] = record.time_ns
        if record.event == "reward" and isinstance(body, dict):
            fields.update(name="reward", value=_number(body.get("value")), terms=self._json(body.get("terms")))
            return Row(SCORES, at.step, fields)
        fields["op_id"] = record.op_id or None
        if record.event == "transition" and isinstance(body, dict):
            trace = body.pop("trace", None)
            fields.update(reward=_number(body.get("reward")), trace=self._json(trace), fields=self._json(body))
            return Row(TRANSITIONS, at.step, fields)
        fields.update(event=record.event, body=self._json(body))
        return Row(NOTES, at.step, fields)

    def _json(self, value: Any) -> str | None:
        """JSON text of a decoded payload, secrets taken out; None for nothing."""
        if value is None:
            return None
        return _encode_json(to_json(self._redactor.value(value))).decode()


def _number(value: Any) -> float | None:
    if isinstance(value, bool | int | float):
        number = float(value) if not isinstance(value, int) or abs(value) < 1 << 1000 else math.inf
        return number
    return None
