"""The transitions of a trajectory as they were recorded: pointers followed, and what was said later put in its place.

A back-fill goes to the last step before it. It fills what that step left empty and changes nothing: what differs is
kept in the list `fields["backfill"]` of the step. A back-fill with no step before it stands alone.

An amendment replaces what it gives, metrics and logs key by key; a key that it gives as None is taken away. What was
there is kept in the list `earlier` of the step, oldest first: an object with `time_ns`, when it was replaced, and each
value that it replaced. An amendment of a step that is not there stands alone, with `amends`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rolltrace.record import LITERAL, POINTER

Row = dict[str, Any]
_COLUMNS = ("reward", "episode_done", "stop_reason")
_MERGED = ("metrics", "logs")
_BESIDE = "backfill"


class OpPayload(Protocol):
    """What a pointer may point to."""

    @property
    def inputs(self) -> Any: ...
    @property
    def outputs(self) -> Any: ...


def read_transitions(rows: list[Row], ops: Mapping[int, OpPayload]) -> list[Row]:
    """The rows of `transitions`, oldest first, with their JSON parsed. A pointer to an op that is gone stays."""
    steps: list[Row] = []
    alone: list[Row] = []
    waiting: list[tuple[int, Row]] = []
    for row in rows:
        row = {**row, "trace": _followed(row["trace"], ops), "amends": bool(row["amends"]), "earlier": []}
        turn = row.pop("turn")
        if row["amends"]:
            turn = len(steps) - 1 if turn is None else turn
            if 0 <= turn < len(steps):
                _amend(steps[turn], row)
            else:  # counted from the end, or by a clock that is behind that of the steps
                waiting.append((turn, row))
        elif not row["backfill"]:
            steps.append(row)
        elif steps:
            _fill(steps[-1], row)
        else:
            alone.append(row)
    for turn, row in waiting:
        if -len(steps) <= turn < len(steps):
            _amend(steps[turn], row)
        else:
            alone.append({**row, "turn": turn})
    return sorted([*steps, *alone], key=lambda row: row["time_ns"]) if alone else steps


def _amend(step: Row, late: Row) -> None:
    changes = late["fields"]
    if not isinstance(changes, dict):  # pruned: what has a column is still known
        changes = {name: late[name] for name in _COLUMNS if late[name] is not None}
    before: Row = {}
    fields = dict(step["fields"] or {})
    for name, value in changes.items():
        old_value = step[name] if name in _COLUMNS else fields.get(name)
        if name in _MERGED and isinstance(old_value, dict) and isinstance(value, dict):
            value = {key: item for key, item in {**old_value, **value}.items() if item is not None or key not in value}
        if not _same(old_value, value):
            before[name] = old_value
        if name in _COLUMNS:
            step[name] = late[name]
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
    step["fields"] = fields
    if before:
        step["earlier"].append({"time_ns": late["time_ns"], **before})


def amendments_of(step: Mapping[str, Any]) -> list[Row]:
    """A step that was read, as the rows that it was made of: what was recorded first, then each amendment."""
    earlier = step.get("earlier") or []
    if not earlier:
        return [dict(step)]
    first: Row = {**step, "fields": dict(step["fields"] or {})}
    late: list[Row] = []
    for entry in reversed(earlier):
        was = {name: value for name, value in entry.items() if name != "time_ns"}
        changes = {name: first["fields"].get(name, first.get(name)) for name in was}
        for name in _MERGED:
            if isinstance(changes.get(name), dict) and isinstance(was[name], dict):
                changes[name] = {**dict.fromkeys(was[name].keys() - changes[name].keys()), **changes[name]}
        columns = {name: first[name] if name in was else None for name in _COLUMNS}
        late.append({**columns, "time_ns": entry["time_ns"], "fields": changes, "amends": True, "backfill": False})
        for name, value in was.items():
            if name in _COLUMNS:
                first[name] = value
            if value is None:
                first["fields"].pop(name, None)
            else:
                first["fields"][name] = value
    return [first, *reversed(late)]


def _followed(trace: Any, ops: Mapping[int, OpPayload]) -> Any:
    """The trace with values in the place of pointers, which are its fields or the fields of those."""
    if not isinstance(trace, dict):
        return trace
    values: dict[str, Any] = {}
    for name, value in trace.items():
        if _is_pointer(value):
            values[name] = _target(value, ops, values)
            continue
        value = _unescaped(value)
        if isinstance(value, dict):
            inner = values[name] = {}
            for key, item in value.items():
                inner[key] = _target(item, ops, values) if _is_pointer(item) else _unescaped(item)
        else:
            values[name] = value
    return values


def _is_pointer(value: Any) -> bool:
    return _is_ours(value) and isinstance(value[POINTER].get("path"), list)


def _unescaped(value: Any) -> Any:
    return value[POINTER][LITERAL] if _is_ours(value) and value[POINTER].keys() == {LITERAL} else value


def _is_ours(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {POINTER} and isinstance(value[POINTER], dict)


def _target(pointer: Any, ops: Mapping[int, OpPayload], values: dict[str, Any]) -> Any:
    target = pointer[POINTER]
    try:
        at: Any = values
        if "op_id" in target:
            op = ops[target["op_id"]]
            at = {"inputs": op.inputs, "outputs": op.outputs}
        for key in target["path"]:
            at = at[key]
    except (KeyError, IndexError, TypeError):
        return pointer
    return pointer if at is None else at


def _fill(step: Row, late: Row) -> None:
    for name in _COLUMNS:
        if step[name] is None:
            step[name] = late[name]
    before = (step["fields"] or {}).get(_BESIDE, [])
    step["fields"], differs = _merged(step["fields"] or {}, late["fields"] or {})
    step["trace"], other = _merged(step["trace"], late["trace"])
    if other:
        differs["trace"] = other
    if differs:
        step["fields"][_BESIDE] = [*before, differs]


def _merged(mine: Any, theirs: Any) -> tuple[Any, Any]:
    """What the step says now, and what was said later and differs from it."""
    if mine is None or theirs is None:
        return (theirs if mine is None else mine), {}
    if not isinstance(mine, dict) or not isinstance(theirs, dict):
        return mine, {} if _same(mine, theirs) else theirs
    fresh = {name: value for name, value in theirs.items() if mine.get(name) is None}
    differs = {name: value for name, value in theirs.items() if name not in fresh and not _same(value, mine[name])}
    return {**mine, **fresh}, differs


def _same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))  # NaN is the same as NaN here
