"""Reads what `export_jsonl` wrote. Trajectories keep their ids, unless they are put into another experiment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import xxhash

from rolltrace.drain import take_columns
from rolltrace.exchange.draft import ImportedPlace, ImportedRow, row
from rolltrace.exchange.export_jsonl import OP_COLUMNS, VERSION
from rolltrace.exchange.fields import Malformed, objects, pick, text
from rolltrace.exchange.importer import LineReader, Source
from rolltrace.exchange.source_lines import Line
from rolltrace.query import amendments_of
from rolltrace.record import FLAGS, NOTES, SCORES, SPANS, TRAJECTORIES, TRANSITIONS

_EVENTS = {"transitions": TRANSITIONS, "scores": SCORES, "notes": NOTES, "findings": FLAGS}
_ID = re.compile(r"[0-9a-f]{32}")


def reader(source: Source) -> LineReader:
    """A reader of records, one a line."""
    target = source.target

    def read(record: dict[str, Any], line: Line) -> list[ImportedRow]:
        version = record.get("rolltrace")
        if not isinstance(version, int):
            raise Malformed('not a record of `rolltrace export jsonl`: it has no "rolltrace": 1')
        if version > VERSION:
            raise Malformed(f"written by a newer rolltrace (version {version}); upgrade: pip install -U rolltrace")
        place = ImportedPlace.read(record, target.project, target.experiment, validate=target.validate)
        own_id, worker = _moved(record.get("trajectory_id"), record, place), text(record, "worker") or place.worker
        place = place._replace(trajectory_id=own_id, worker=worker)
        columns = [column.name for column in TRAJECTORIES.columns if column.name not in place.columns()]
        own = {name: record.get(name) for name in columns}
        own["status"] = _status(record)
        parent = record.get("parent_trajectory_id")
        own["parent_trajectory_id"] = None if parent is None else _moved(parent, record, place)
        if not isinstance(own["name"], str) or not isinstance(own["start_ns"], int):
            raise Malformed("name and start_ns are missing")
        rows = [row(TRAJECTORIES, place, own), *_spans(objects(record, "ops"), place)]
        for name, table in _EVENTS.items():
            events = objects(record, name)
            rows += [row(table, place, event) for event in (_told(events) if table is TRANSITIONS else events)]
        return rows

    return read


def _moved(trajectory_id: Any, record: dict[str, Any], place: ImportedPlace) -> str:
    """The id itself, or in another experiment an id of its own: there it is another trajectory."""
    if not isinstance(trajectory_id, str) or not _ID.fullmatch(trajectory_id):
        raise Malformed(f"a trajectory id is 32 hexadecimal digits, not {trajectory_id!r:.60}")
    if (place.project, place.experiment) == (record.get("project"), record.get("experiment")):
        return trajectory_id
    return xxhash.xxh3_128_hexdigest(repr((trajectory_id, place.project, place.experiment)).encode())


def _spans(ops: list[dict[str, Any]], place: ImportedPlace) -> Iterator[ImportedRow]:
    waiting: list[tuple[int | None, dict[str, Any]]] = [(None, op) for op in ops]
    while waiting:
        parent_id, op = waiting.pop()
        inputs, result = op.get("inputs"), op.get("outputs")
        columns = take_columns(inputs, result)  # and puts a word in the place of what it takes
        columns |= pick(op, *OP_COLUMNS)
        columns |= {"parent_id": parent_id, "inputs": inputs, "outputs": result, "status": _status(op)}
        if not isinstance(op.get("op_id"), int) or not isinstance(op.get("name"), str):
            raise Malformed("an op has no op_id or no name")
        if not isinstance(op.get("start_ns"), int):
            raise Malformed(f"the op {op['name']!r:.60} has no start_ns")
        yield row(SPANS, place, columns)
        waiting += [(op["op_id"], child) for child in objects(op, "children")]


def _told(transitions: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What was said, as it was said: a step that was amended is a step and what was said later."""
    turn = -1
    for step in transitions:
        turn += not step.get("backfill") and not step.get("amends")
        first, *later = amendments_of(step)
        yield first
        yield from ({**each, "turn": turn} for each in later)


def _status(record: dict[str, Any]) -> Any:
    """What was running when it was exported is not running here."""
    return "interrupted" if record.get("status") == "running" else record.get("status", "ok")
