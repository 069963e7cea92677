"""What is shown of a record that could not be shaped: the columns that need no look at what was traced."""

from __future__ import annotations

from typing import Any, NamedTuple

from rolltrace.drain.fit import INSTEAD
from rolltrace.record import Record
from rolltrace.record.partial import Partial
from rolltrace.record.tables import NOTES, SPANS, TRAJECTORIES, TRANSITIONS, Table

_STARTS = {"op_start": "op_end", "trajectory_start": "trajectory_end"}


class KnownColumns(NamedTuple):
    """The table that a record belongs to, and columns of its row."""

    table: Table | None
    fields: dict[str, Any]


def known_of(record: Record) -> Partial:
    """A record as `read_partly` would give it, were it whole."""
    return Partial(
        str(record.__struct_config__.tag), {name: getattr(record, name) for name in record.__struct_fields__}
    )


def known_columns(known: Partial, status: str | None = None) -> KnownColumns:
    """What can be shown of it, without error, payload, tags or body.

    A start is shown only if its end will never come, which its status says: `running` or `interrupted`.
    """
    has = known.fields
    tag = known.tag if status is None else _STARTS.get(known.tag, known.tag)
    if tag == "event":
        table = TRANSITIONS if has.get("event") == "transition" else NOTES
        said = {"backfill": False} if table is TRANSITIONS else {"event": has.get("event")}
        return KnownColumns(table, {"time_ns": has.get("time_ns", 0), "op_id": has.get("op_id") or None, **said})
    if tag not in ("op_end", "trajectory_end"):
        return KnownColumns(None, {})
    times = {
        "name": has.get("name", INSTEAD["name"]),
        "start_ns": has.get("start_ns", INSTEAD["start_ns"]),
        "end_ns": has.get("end_ns"),
        "status": status or has.get("status", INSTEAD["status"]),
    }
    if tag == "op_end":
        op = {"op_id": has.get("op_id"), "parent_id": has.get("parent_id") or None}
        return KnownColumns(SPANS, {**times, **op, "kind": has.get("kind", INSTEAD["kind"])})
    around, op_id = has.get("parent_trajectory_id"), has.get("parent_op_id") or None
    inside = {"parent_trajectory_id": around.hex() if around else None, "parent_op_id": op_id}
    return KnownColumns(TRAJECTORIES, {**times, **inside, "is_group": has.get("is_group") or None})
