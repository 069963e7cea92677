"""Journal records as rows of the event tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from rolltrace._guard import strict
from rolltrace.drain.checks import Checks, Finding, OpFacts
from rolltrace.drain.numbers import NumberLists
from rolltrace.drain.quick import QuickOps
from rolltrace.drain.redact import Redactor
from rolltrace.drain.row import (
    Row,
    Shaped,
    as_text,
    columns_of_step,
    columns_told,
    failure_columns,
    fit_row,
    is_needed,
    number_or_none,
    optional_text,
)
from rolltrace.drain.text import Memory
from rolltrace.drain.tokens import take_columns
from rolltrace.drain.transcripts import IMAGE_MARK, REDACTED_MARK
from rolltrace.flags import UNREADABLE
from rolltrace.journal import Losses
from rolltrace.messages import take_images
from rolltrace.record import (
    COLUMN_OF,
    FLAGS,
    INSTEAD,
    LOSSES,
    NOTES,
    SCORES,
    SPANS,
    TEXTS,
    TRAJECTORIES,
    TRANSITIONS,
    WHERE,
    Blob,
    Coordinates,
    Error,
    Event,
    OpEnd,
    OpStart,
    Partial,
    Record,
    Table,
    TrajectoryEnd,
    TrajectoryStart,
    clean_text,
    decode_value,
    encode_record,
    read_coordinates,
    read_partly,
    sample_columns,
)

_encode_json = msgspec.json.Encoder().encode
_parts_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_MAX_KNOWN_CHARS = 200
"""Of a text in a record that could not be shaped."""
_MAX_PLACES = 4096
_MIN_TAKEN_APART_BYTES = 512
_NO_ROWS = Shaped([], is_whole=True)
_WHERE_NAMES = tuple(column.name for column in WHERE)


class _PlaceColumns(NamedTuple):
    """The columns of some coordinates and of their writer, and those of them that did not fit."""

    fields: dict[str, Any]
    unfit: list[str]


class RowMaker:
    """Makes rows of the records of one writer. Each record is on its own: no other suffers from what is in it."""

    def __init__(
        self, meta: Mapping[str, Any], redactor: Redactor, memory: Memory, checks: Checks, *, shortcuts: bool = True
    ) -> None:
        """`shortcuts=False` makes the same rows of the same records, each in the long way."""
        self._origin = {
            "project": str(meta.get("project", "unknown")),
            "experiment": str(meta.get("experiment", "unknown")),
            "worker": str(meta.get("writer", "unknown")),
            "run": meta.get("run"),
            "run_ns": meta.get("run_ns"),
        }
        self._redactor = redactor
        self._memory = memory
        self._checks = checks
        self._numbers = NumberLists()
        self._place = lru_cache(_MAX_PLACES)(self._make_place)
        """All records of a trajectory have the same coordinates."""
        self._called = lru_cache(_MAX_PLACES)(self._make_called)
        self._template = lru_cache(_MAX_PLACES)(lambda *called: Row.of(SPANS, self._called(*called)).fields)
        self._quick = QuickOps(self._quick_columns, redactor, memory, checks) if shortcuts else None
        self._unfit: list[str] = []
        """Columns that the record now being shaped has no fitting value for."""
        self._blobs: list[Blob] = []
        self._opened_payload: tuple[Any, Any] | None = None
        """Of the op now being shaped, if there are no secrets in it."""

    def shape(self, record: Record, place: str) -> Shaped:
        """The rows of a record that is complete in itself. Starts and blobs have none.

        A record that cannot be shaped becomes a row of what is known of it, with the flag `unreadable`.

        Args:
            record: The record.
            place: Where it stands: the segment and the offset in it, for the detail of the flag.
        """
        if type(record) is OpStart or type(record) is TrajectoryStart:
            return _NO_ROWS
        return self._shaped(record, place, self._rows)

    def shape_unfinished(self, record: OpStart | TrajectoryStart, status: str, place: str) -> Shaped:
        """The rows of an op or trajectory that began and has no end: `running`, or `interrupted` by a kill."""
        return self._shaped(record, place, lambda _: self._unfinished(record, status), status)

    def shape_unread(self, body: bytes, place: str, why: str) -> Shaped:
        """The rows of bytes that are no record which this version can read."""
        return Shaped(self._known_rows(read_partly(body), place, {"error": why}), is_whole=False)

    def begin_columns(self, record: OpStart) -> dict[str, Any] | None:
        """The columns that are known of an op that has begun; None if it is of no use."""
        self._unfit = []
        try:
            columns = {**self._where(record), **self._called(record.name, "running", record.kind)}
        except Exception:  # its end will tell
            return None
        columns.update(op_id=record.op_id, parent_id=record.parent_id or None, start_ns=record.start_ns)
        return columns if is_needed(SPANS, columns) and not fit_row(SPANS, columns) else None

    def take_blobs(self) -> list[Blob]:
        """The images that stood as text in the last payloads."""
        blobs, self._blobs = self._blobs, []
        return blobs

    def _without_images(self, value: Any) -> Any:
        taken = take_images(value)
        self._blobs += taken.blobs
        return taken.value

    def losses(self, losses: Losses, damaged: int) -> list[Row]:
        """The rows of what a writer counted as lost, and of what is damaged in its segment."""
        counted = {**losses, "damaged": {"": damaged}} if damaged else losses
        return [
            row
            for reason, steps in counted.items()
            for label, count in steps.items()
            for row in self._fitted(
                LOSSES,
                {**self._origin, "step": int(label) if label else None, "reason": clean_text(reason), "count": count},
            )
        ]

    def _shaped(
        self, record: Record, place: str, make: Callable[[Record], list[Row]], status: str | None = None
    ) -> Shaped:
        self._unfit = []
        self._opened_payload = None
        try:
            rows = make(record)
        except Exception as error:  # whatever is in a record, it is not to stop the others
            if strict():
                raise
            # Only the type: the message may quote what should have been redacted.
            return Shaped(self._known_rows(_as_partial(record), place, {"error": type(error).__name__}, status), False)
        if not self._unfit:
            return Shaped(rows, True, self._opened_payload)
        detail = {"columns": sorted(set(self._unfit)), "file": place}
        fields = _as_partial(record).fields
        return Shaped([*rows, *self._flagged(self._known_place(fields), fields, detail)], is_whole=False)

    def _row(self, table: Table, where: dict[str, Any], fields: dict[str, Any]) -> list[Row]:
        """The row of these fields, if enough of them fits to be of use, without secrets."""
        columns = self._row_columns(table, where, fields)
        return [Row.of(table, columns)] if is_needed(table, columns) else []

    def _row_columns(self, table: Table, shared: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
        """The columns of a row. What it shares with others is without secrets and fits already."""
        clean = self._redactor.row(table, fields)
        if unfit := fit_row(table, clean):
            self._unfit += unfit
        clean.update(shared)
        return clean

    def _fitted(self, table: Table, fields: dict[str, Any]) -> list[Row]:
        """The row of fields that are not redacted any more."""
        self._unfit += fit_row(table, fields)
        return [Row.of(table, fields)] if is_needed(table, fields) else []

    def _known_rows(self, partial: Partial, place: str, why: dict[str, Any], status: str | None = None) -> list[Row]:
        """What is known of a record that cannot be shaped, and the flag and count that say so."""
        where = self._known_place(partial.fields)
        table, own = columns_told(partial, status)
        rows = []
        if table is not None:
            own = {name: self._known_text(value) if type(value) is str else value for name, value in own.items()}
            rows = self._fitted(table, {**where, **own})
        return [*rows, *self._flagged(where, partial.fields, {**why, "file": place})]

    def _known_place(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        raw, trajectory_id = fields.get("coordinates"), fields.get("trajectory_id")
        at = read_coordinates(raw).coordinates if isinstance(raw, msgspec.Raw) else Coordinates()
        if isinstance(at.sample_index, str):
            at = at._replace(sample_index=self._known_text(at.sample_index))
        return {
            **self._origin,
            "trajectory_id": trajectory_id.hex() if isinstance(trajectory_id, bytes) else None,
            **_coordinate_columns(at),
        }

    def _known_text(self, text: str) -> str:
        """A text that may be shown although its record could not be redacted."""
        try:
            return self._redactor.text(clean_text(text))[:_MAX_KNOWN_CHARS]
        except Exception:
            return str(INSTEAD["name"])

    def _flagged(self, where: dict[str, Any], fields: Mapping[str, Any], detail: dict[str, Any]) -> list[Row]:
        time_ns, op_id = fields.get("start_ns") or fields.get("time_ns"), fields.get("op_id") or None
        flag = {"flag": UNREADABLE.name, "op_id": op_id, "time_ns": time_ns, "detail": _encode_json(detail).decode()}
        lost = {name: where[name] for name in (*self._origin, "step")}
        return [
            *self._fitted(FLAGS, {**where, **flag}),
            *self._fitted(LOSSES, {**lost, "reason": UNREADABLE.name, "count": 1}),
        ]

    def _rows(self, record: Record) -> list[Row]:
        if isinstance(record, OpEnd):
            quick = None if self._quick is None else self._quick.shape(record)
            if quick is not None:
                self._opened_payload = quick.inputs, quick.outputs
                findings = () if quick.finding is None else (quick.finding,)
                return [Row(SPANS, quick.fields), *self._flags(quick.fields, record.start_ns, findings, record.op_id)]
            return self._span(record, record.status, record.end_ns, record.error, record.outputs)
        if isinstance(record, TrajectoryEnd):
            return self._trajectory(record, record.status, record.end_ns, record.error)
        return list(self._event(record)) if isinstance(record, Event) else []

    def _unfinished(self, record: OpStart | TrajectoryStart, status: str) -> list[Row]:
        if isinstance(record, OpStart):
            return self._span(record, status, None, None, encode_stream(record, status))
        return self._trajectory(record, status, None, None)

    def _quick_columns(self, record: OpEnd) -> dict[str, Any] | None:
        """All columns of an op, with those that others have too; None if those are odd."""
        place = self._place(bytes(record.coordinates))
        if place.unfit:
            return None
        columns = {**self._template(record.name, record.status, record.kind), **place.fields}
        columns["trajectory_id"] = record.trajectory_id.hex()
        return columns

    def _where(self, record: Any) -> dict[str, Any]:
        """The columns that say where a record stands: without secrets, and such that they fit."""
        place = self._place(bytes(record.coordinates))
        if place.unfit:
            self._unfit += place.unfit
        trajectory_id = record.trajectory_id.hex() or None
        if trajectory_id is not None and len(trajectory_id) != 32:
            self._unfit.append("trajectory_id")
            trajectory_id = None
        return {**place.fields, "trajectory_id": trajectory_id}

    def _make_place(self, raw: bytes) -> _PlaceColumns:
        at, are_whole = read_coordinates(msgspec.Raw(raw))
        clean = self._redactor.row(SPANS, {**self._origin, **_coordinate_columns(at)})  # as in every table
        return _PlaceColumns(clean, [*fit_row(SPANS, clean), *([] if are_whole else ["coordinates"])])

    def _make_called(self, name: str, status: str, kind: str | None) -> dict[str, Any]:
        """The columns that few values are in, without secrets, and such that they fit."""
        fields = {"name": name, "status": status, **({} if kind is None else {"kind": kind})}
        columns = self._redactor.row(SPANS, fields)
        if fit_row(SPANS, columns):
            raise ValueError("a name, status or kind that is no text")
        return columns

    def _span(
        self, record: OpStart | OpEnd, status: str, end_ns: int | None, error: Error | None, outputs: Any
    ) -> list[Row]:
        shared = self._where(record)
        shared.update(self._called(record.name, status, record.kind))
        inputs = self._open_payload(record.trajectory_id, record.inputs)
        result = None if outputs is None else self._open_payload(record.trajectory_id, outputs)
        columns = take_columns(inputs, result)
        _put_back(inputs, record.inputs)
        _put_back(result, outputs)
        fields: dict[str, Any] = {
            "start_ns": record.start_ns,
            "end_ns": end_ns,
            "op_id": record.op_id,
            "parent_id": record.parent_id or None,
            "payload": {"inputs": inputs, "outputs": result},
            **failure_columns(error),
            **columns,
        }
        if isinstance(record, OpEnd):
            if record.thread:
                fields["thread"] = record.thread
            if tokenizer := record.tokenizer:
                fields["tokenizer"] = tokenizer
                fields.update(self._memory.texts.columns(tokenizer, record.trajectory_id, fields, self._redactor))
            self._memory.shared.remember(record)
        span = self._row_columns(SPANS, shared, fields)
        rows = [Row.of(SPANS, span)] if is_needed(SPANS, span) else []
        if span["payload"] is not None and REDACTED_MARK not in span["payload"]:
            self._opened_payload = inputs, result
        findings = self._checks.of_op(OpFacts(span, inputs, result))
        return rows + self._flags(shared, record.start_ns or None, findings, record.op_id) if findings else rows

    def _flags(
        self, where: dict[str, Any], time_ns: int | None, findings: Iterable[Finding], op_id: int | None
    ) -> list[Row]:
        rows: list[Row] = []
        for finding in findings:
            op = finding.op_id or op_id or None
            fields = {"time_ns": time_ns, "flag": finding.flag, "op_id": op, "detail": finding.detail}
            rows += self._row(FLAGS, {name: where[name] for name in _WHERE_NAMES}, fields)
        return rows

    def _open_payload(self, trajectory_id: bytes, raw: msgspec.Raw) -> Any:
        """A payload with its images taken out; lists of numbers under the names of token columns come as arrays."""
        body = bytes(raw)
        parts = self._numbers.fields(trajectory_id, body) if len(body) >= _MIN_TAKEN_APART_BYTES else None
        if parts is None:
            value = decode_value(body)
        else:
            value = {name: each if isinstance(each, pa.Array) else decode_value(each) for name, each in parts.items()}
            if any(COLUMN_OF.get(name) == "logprobs" for name, each in parts.items() if not isinstance(each, pa.Array)):
                _put_back(value, body)  # perhaps a dict for each token: which of them is meant is told by the ids
        return self._without_images(value) if IMAGE_MARK in body else value

    def _trajectory(
        self, record: TrajectoryStart | TrajectoryEnd, status: str, end_ns: int | None, error: Error | None
    ) -> list[Row]:
        shared = self._where(record)
        shared.update(self._called(record.name, status, None))
        if record.run:  # when that began, its own trajectories say
            shared.update(self._redactor.row(TRAJECTORIES, {"run": record.run, "run_ns": None}))
        fields: dict[str, Any] = {
            "start_ns": record.start_ns,
            "end_ns": end_ns,
            "parent_trajectory_id": record.parent_trajectory_id.hex() if record.parent_trajectory_id else None,
            "parent_op_id": record.parent_op_id or None,
            "tags": decode_value(record.tags),
            "is_group": record.is_group or None,
            **failure_columns(error),
        }
        trajectory = self._row_columns(TRAJECTORIES, shared, fields)
        rows = [Row.of(TRAJECTORIES, trajectory)] if is_needed(TRAJECTORIES, trajectory) else []
        return rows + self._flags(shared, record.start_ns or None, self._checks.of_trajectory(trajectory), None)

    def _event(self, record: Event) -> Iterator[Row]:
        where = self._where(record)
        fields: dict[str, Any] = {"time_ns": record.time_ns, "op_id": record.op_id or None}
        if record.event == "transition":
            body = self._memory.shared.transition(record)
            trace = body.pop("trace", None)
            if IMAGE_MARK in bytes(record.body):
                trace = self._without_images(trace)
            fields.update(columns_of_step(body))
            fields.update(backfill=bool(body.pop("backfill", False)), trace=trace, fields=body)
            yield from self._row(TRANSITIONS, where, fields)
            yield from self._flags(where, record.time_ns, self._checks.of_transition(trace, body), record.op_id)
            return
        body = decode_value(record.body)
        if record.event == "amend" and isinstance(body, dict):
            changes, turn = body.get("fields"), body.get("turn")
            fields.update(columns_of_step(changes if isinstance(changes, dict) else {}))
            fields.update(amends=True, turn=turn, fields=changes, backfill=False)
            yield from self._row(TRANSITIONS, where, fields)
        elif record.event in ("reward", "score") and isinstance(body, dict):
            value = body.get("value")
            fields.update(
                name=as_text(body.get("name", "reward")),
                value=number_or_none(value),
                label=value if isinstance(value, str) else None,
                terms=self._terms(body.get("terms")),
                reason=optional_text(body.get("reason")),
                trained_step=body.get("trained_step"),
                author=optional_text(body.get("author")),
                op_id=body.get("op_id"),  # what it is about, not the op in which it was given
            )
            yield from self._row(SCORES, where, fields)
        elif record.event == "text" and isinstance(body, dict):
            if body.get("text") is None:
                findings = self._checks.of_lost_text(body.get("why"))
                yield from self._flags(where, record.time_ns, findings, record.op_id)
            else:
                fields.update(self._memory.texts.late(record.trajectory_id, body, self._redactor))
                yield from self._row(TEXTS, where, fields)
        elif record.event == "drop" and isinstance(body, dict):
            around = {name: value for name, value in where.items() if name != "trajectory_id"}
            # A group record is no rollout: it is left out like its rollouts, and not counted.
            for name, count in (("trajectories", 1), ("groups", 0)):
                for dropped in body.get(name, ()):
                    lost = {"reason": as_text(body.get("reason")), "count": count, "trajectory_id": dropped}
                    yield from self._row(LOSSES, around, {**fields, **lost})
        else:
            fields.update(event=record.event, body=body)
            yield from self._row(NOTES, where, fields)

    def _terms(self, terms: Any) -> dict[Any, Any] | None:
        if terms is not None and not isinstance(terms, dict):
            self._unfit.append("terms")
        return terms if isinstance(terms, dict) else None


def _coordinate_columns(at: Coordinates) -> dict[str, Any]:
    sample = sample_columns(at.sample_index)
    return {"step": at.step, **sample, "rollout_n": at.rollout_n, "validate": at.validate}


def _as_partial(record: Record) -> Partial:
    """A record as `read_partly` would give it, were it whole."""
    return Partial(
        str(record.__struct_config__.tag), {name: getattr(record, name) for name in record.__struct_fields__}
    )


def encode_stream(record: OpStart, status: str) -> msgspec.Raw | None:
    """What a stream gave before it was cut, as the outputs of its op; None if nothing came."""
    if not record.items:
        return None
    return msgspec.Raw(encode_record({"items": record.items, "count": len(record.items), "end": status}))


def _put_back(payload: Any, raw: bytes | msgspec.Raw) -> None:
    """Lists of numbers for which there was no column, as they were given: a second list of prompt ids, say."""
    if isinstance(payload, dict) and any(isinstance(value, pa.Array) for value in payload.values()):
        parts = _parts_decoder.decode(raw)
        payload.update(
            {name: decode_value(parts[name]) for name, value in payload.items() if isinstance(value, pa.Array)}
        )
