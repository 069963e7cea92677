"""What has begun and not ended in a journal: ops and trajectories, by their ids."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import xxhash

from rolltrace.record import OpEnd, OpStart, TrajectoryEnd, TrajectoryStart, decode_record, encode_record, read_partly

OpenKey = tuple[str, bytes | int]
OpenRecords = dict[OpenKey, OpStart | TrajectoryStart]


def note_record(record: object, still_open: OpenRecords) -> bool:
    """Remember what a record begins and forget what it ends; whether it begins, or ends what was known to be open."""
    kind = type(record)
    if kind is OpEnd:
        return still_open.pop(("op", record.op_id), None) is not None  # type: ignore[attr-defined]
    if isinstance(record, OpStart):
        key: OpenKey = ("op", record.op_id)
        before = still_open.get(key)
        if isinstance(before, OpStart) and before.items:
            before.items.extend(record.items)  # not `with_items`, which would copy all of a stream for each piece
        else:
            still_open[key] = before.with_items(record) if isinstance(before, OpStart) else record
        return before is None
    if isinstance(record, TrajectoryStart):
        key = ("trajectory", record.trajectory_id)
        is_new = key not in still_open
        still_open[key] = record
        return is_new
    if isinstance(record, TrajectoryEnd):
        return still_open.pop(("trajectory", record.trajectory_id), None) is not None
    return False


def note_unread(body: bytes, still_open: OpenRecords) -> bool:
    """The same for an end that cannot be read: if it can be told what it ends, that is not open any more."""
    tag, fields = read_partly(body)
    kind, name = {"op_end": ("op", "op_id"), "trajectory_end": ("trajectory", "trajectory_id")}.get(tag, ("", ""))
    return name in fields and still_open.pop((kind, fields[name]), None) is not None


def encode_open(still_open: OpenRecords) -> list[bytes]:
    """The records as bytes, to be saved."""
    return [encode_record(record) for record in still_open.values()]


def decode_open(bodies: Iterable[bytes]) -> OpenRecords:
    """The records that were saved; what cannot be read is left out."""
    still_open: OpenRecords = {}
    for body in bodies:
        try:
            note_record(decode_record(body), still_open)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            continue
    return still_open


def name_open(journal: str, record: OpStart | TrajectoryStart) -> str:
    """What stands for the place of a record that was open when its process died."""
    return f"{journal}-open-{xxhash.xxh3_64_hexdigest(encode_record(record))}"
