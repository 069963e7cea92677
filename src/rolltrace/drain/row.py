"""Rows of the event tables, and values that fit their columns: whatever a record says, its row can be written.

A value that does not fit goes, and the row stays. Beyond the type of a column, that is: times and steps are subtracted
from each other in 64 bits, and whoever reads an op or a trajectory relies on its id, times and name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from rolltrace.record import (
    INSTEAD,
    NOTES,
    SPANS,
    TABLES,
    TRAJECTORIES,
    TRANSITIONS,
    ColumnType,
    Error,
    Partial,
    Table,
    clean_text,
    to_json,
)
from rolltrace.tables import Place

_MAX_SUBTRACTED = 1 << 62
_MAX_COUNT = 1 << 53
_LISTS: dict[ColumnType, pa.DataType] = {"int32[]": pa.int32(), "float32[]": pa.float32(), "int8[]": pa.int8()}
_NEEDED = {TRAJECTORIES.name: ("trajectory_id",), SPANS.name: ("trajectory_id", "op_id")}
"""Without these a row of the table is of no use to anybody."""
_STARTS = {"op_start": "op_end", "trajectory_start": "trajectory_end"}
_encode_json = msgspec.json.Encoder().encode
_EMPTY: dict[str, dict[str, Any]] = {table.name: dict.fromkeys(each.name for each in table.columns) for table in TABLES}


class Row(NamedTuple):
    """One row of an event table."""

    table: Table
    fields: dict[str, Any]
    """A value for each column of the table."""

    @classmethod
    def of(cls, table: Table, fields: Mapping[str, Any]) -> Row:
        """The row of these columns; those that are not named are null."""
        return cls(table, {**_EMPTY[table.name], **fields})

    @property
    def place(self) -> Place:
        """Where it belongs, as it says itself."""
        return place_of(self.fields)


class Shaped(NamedTuple):
    """The rows of one record."""

    rows: list[Row]
    is_whole: bool
    """Not, if some of the record is in no row: its bytes are worth keeping."""
    opened: tuple[Any, Any] | None = None
    """Of an op without secrets: its inputs and outputs, decoded."""


def place_of(fields: Mapping[str, Any]) -> Place:
    return Place(fields["project"] or "unknown", fields["experiment"] or "unknown", fields.get("step"))


def fit_row(table: Table, fields: dict[str, Any]) -> list[str]:
    """Take out of a row what its columns cannot hold; the names of those columns."""
    unfit = []
    fitting_of = _FITTING[table.name]
    for name, value in fields.items():
        if value is None or (fitting := fitting_of.get(name)) is None:
            continue
        if fitting is _text and type(value) is str and value.isascii():
            continue  # nearly all texts are
        fitted = fitting(value)
        if fitted is None:
            unfit.append(name)
            fields[name] = INSTEAD.get(name)
        elif fitted is not value:
            fields[name] = fitted
    return unfit


def is_needed(table: Table, fields: Mapping[str, Any]) -> bool:
    """Whether a row has what makes it worth keeping."""
    return all(fields.get(name) is not None for name in _NEEDED.get(table.name, ()))


def _text(value: Any) -> str | None:
    return clean_text(value) if isinstance(value, str) else None


def _id(value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) == 32 and value.isascii() else None


def _whole(least: int, above: int) -> Callable[[Any], Any]:
    def fitting(value: Any) -> int | None:
        return value if type(value) is int and least <= value < above else None

    return fitting


def _number(value: Any) -> float | None:
    return value if isinstance(value, float | int) else None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _list_of(kind: pa.DataType) -> Callable[[Any], Any]:
    def fitting(value: Any) -> pa.Array | None:
        try:
            return value if isinstance(value, pa.Array) and value.type == kind else pa.array(value, type=kind)
        except (pa.ArrowException, TypeError, OverflowError, ValueError):
            return None

    return fitting


def _of_column(name: str, kind: ColumnType) -> Callable[[Any], Any]:
    if name.endswith("trajectory_id"):
        return _id
    if name.endswith("_ns"):
        return _whole(0, _MAX_SUBTRACTED)
    if name in ("step", "policy_version", "trained_step"):
        return _whole(-_MAX_SUBTRACTED, _MAX_SUBTRACTED)
    if name == "count":
        return _whole(0, _MAX_COUNT)
    if kind in _LISTS:
        return _list_of(_LISTS[kind])
    of_type: dict[ColumnType, Callable[[Any], Any]] = {
        "int64": _whole(-(1 << 63), 1 << 63),
        "int32": _whole(0, (1 << 31) - 1),  # of tokens or characters, and one is added to it
        "float64": _number,
        "bool": _truth,
    }
    return of_type.get(kind, _text)


_FITTING = {
    table.name: {column.name: _of_column(column.name, column.type) for column in table.columns} for table in TABLES
}


def columns_told(partial: Partial, status: str | None = None) -> tuple[Table | None, dict[str, Any]]:
    """The table of a record that cannot be shaped, and what can be shown of it: no error, payload, tags or body.

    A start is shown only if its end will never come, which its status says: `running` or `interrupted`.
    """
    has = partial.fields
    tag = partial.tag if status is None else _STARTS.get(partial.tag, partial.tag)
    if tag == "event":
        table = TRANSITIONS if has.get("event") == "transition" else NOTES
        own = {"backfill": False} if table is TRANSITIONS else {"event": has.get("event")}
        return table, {"time_ns": has.get("time_ns", 0), "op_id": has.get("op_id") or None, **own}
    if tag not in ("op_end", "trajectory_end"):
        return None, {}
    times = {
        "name": has.get("name", INSTEAD["name"]),
        "start_ns": has.get("start_ns", INSTEAD["start_ns"]),
        "end_ns": has.get("end_ns"),
        "status": status or has.get("status", INSTEAD["status"]),
    }
    if tag == "op_end":
        op = {"op_id": has.get("op_id"), "parent_id": has.get("parent_id") or None}
        return SPANS, {**times, **op, "kind": has.get("kind", INSTEAD["kind"])}
    around, op_id = has.get("parent_trajectory_id"), has.get("parent_op_id") or None
    inside = {"parent_trajectory_id": around.hex() if around else None, "parent_op_id": op_id}
    return TRAJECTORIES, {**times, **inside, "is_group": has.get("is_group") or None}


def columns_of_step(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What was given of a step that has a column of its own."""
    done = fields.get("episode_done")
    return {
        "reward": number_or_none(fields.get("reward")),
        "episode_done": done if isinstance(done, bool) else None,
        "stop_reason": optional_text(fields.get("stop_reason")),
    }


def failure_columns(error: Error | None) -> dict[str, str | None]:
    """The columns of an error; of none, nulls."""
    if error is None:
        return {"error": None, "traceback": None}
    return {"error": f"{error.type}: {error.message}", "traceback": error.traceback}


def optional_text(value: Any) -> str | None:
    """A text column; None for nothing."""
    return None if value is None else as_text(value)


def as_text(value: Any) -> str:
    """A word, or what somebody gave in its place; huge integers have no decimals in Python."""
    plain = to_json(value)
    return plain if isinstance(plain, str) else str(value) if plain is value else _encode_json(plain).decode()


def number_or_none(value: Any) -> float | None:
    """A number column: huge integers are infinite, what is no number is None."""
    if isinstance(value, bool | int | float):
        huge = isinstance(value, int) and abs(value) >= 1 << 1000
        return math.copysign(math.inf, value > 0 or -1) if huge else float(value)
    return None
