"""`rolltrace store journal`: look into the journals of a store, before anything else has touched them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from rolltrace.cli.command import Group, command
from rolltrace.cli.options import JSON, STORE, Options
from rolltrace.cli.output import json_line, plain, warn
from rolltrace.journal import Damage, Entry, SegmentReader, hidden_journals, journal_files, read_journals
from rolltrace.record import Blob, Record, decode_value, read_coordinates, to_json


@command(
    "print every record as a line of JSON",
    "Print every record of every journal as a line of JSON, in the order it was written by each process, damaged "
    "places and losses included. Exit code 3 if anything was damaged.",
    STORE,
)
def _dump(options: Options) -> int:
    damaged = False
    last_path: Path | None = None
    store = options.store_path()
    _tell_of_hidden(store)
    for segment, item in read_journals(store):
        if segment.path != last_path:
            last_path = segment.path
            if segment.losses:
                print(json_line({"record": "losses", **_origin(segment), "losses": segment.losses}))
        damaged |= isinstance(item, Damage)
        print(json_line(_describe(segment, item)))
    return 3 if damaged else 0


@command("one line per journal file", "One line per journal file: its state, size and writer.", STORE, JSON)
def _status(options: Options) -> int:
    store = options.store_path()
    _tell_of_hidden(store)
    for path in journal_files(store):
        try:
            row = _status_row(path)
        except FileNotFoundError:  # drained since it was listed
            continue
        except OSError as error:
            row = {"file": path.name, "state": "unreadable", "error": str(error)}
        options.report(row, "  ".join(map(plain, row.values())))
    return 0


journal = Group(
    "look into the journals of a store",
    "Inspect the journals of a store as they are, without draining them.",
    {"actions": {"dump": _dump, "status": _status}},
)


def _tell_of_hidden(store: Path) -> None:
    for path, problem in hidden_journals(store):
        warn(f"{plain(path)} is not shown: {plain(problem)}")


def _status_row(path: Path) -> dict[str, Any]:
    segment = SegmentReader.open(path)
    items = list(segment)
    return {
        "file": path.name,
        "state": segment.state,
        "records": sum(isinstance(item, Entry) for item in items),
        "damaged": sum(isinstance(item, Damage) for item in items),
        "lost": sum(sum(steps.values()) for steps in segment.losses.values()),
        "bytes": len(segment.data),
        **_origin(segment),
    }


def _origin(segment: SegmentReader) -> dict[str, Any]:
    return {"file": segment.path.name, **{name: segment.meta.get(name) for name in ("project", "experiment")}}


def _describe(segment: SegmentReader, item: Entry | Damage) -> dict[str, Any]:
    if isinstance(item, Damage):
        where = {"offset": item.offset, "bytes": item.size_bytes, "reason": item.reason}
        return {"record": "damage", **_origin(segment), **where}
    return {**_fields(item.record), **_origin(segment), "offset": item.offset}


def _fields(record: Record) -> dict[str, Any]:
    fields: dict[str, Any] = {"record": record.__struct_config__.tag}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if name == "coordinates":
            fields.update(read_coordinates(value).coordinates._asdict())
        elif name.endswith("trajectory_id"):
            fields[name] = value.hex() if value else None
        elif isinstance(value, msgspec.Raw):
            fields[name] = to_json(decode_value(value))
        elif isinstance(value, msgspec.Struct):
            fields[name] = msgspec.structs.asdict(value)
        else:
            fields[name] = value
    if isinstance(record, Blob):
        fields["data"] = f"{len(record.data)} bytes"
    return fields
