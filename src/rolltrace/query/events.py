"""What was recorded about a trajectory besides its ops: scores, transitions, notes, findings. One type for each.

Each is also a mapping of its fields, as the rows of the tables are: `score.value` and `score["value"]` are the same,
and `dict(score)` is the row.

Transitions are read as they were recorded, pointers followed, and what was said later put in its place. A back-fill
goes to the last step before it. It fills what that step left empty and changes nothing: what differs is kept in the
list `fields["backfill"]` of the step. A back-fill with no step before it stands alone.

An amendment replaces what it gives, metrics and logs key by key; a key that it gives as None is taken away. What was
there is kept in the list `earlier` of the step, oldest first: an object with `time_ns`, when it was replaced, and each
value that it replaced. An amendment of a step that is not there stands alone, with `amends`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rolltrace.query.values import Row
from rolltrace.record import LITERAL, POINTER

_COLUMNS = ("reward", "episode_done", "stop_reason")
_MERGED = ("metrics", "logs")
_BESIDE = "backfill"


class _Fields(Mapping[str, Any]):
    """A dataclass that can be read as a mapping of its fields."""

    __dataclass_fields__: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dataclass_fields__)

    def __len__(self) -> int:
        return len(self.__dataclass_fields__)


@dataclass(frozen=True, eq=False)
class Score(_Fields):
    """One value that was given under a name; the newest of a name counts."""

    name: str
    """reward, advantage, fate, note, or any other."""
    value: float | None
    """The number; None if it is a label."""
    terms: dict[str, Any] | None = None
    time_ns: int = 0
    label: str | None = None
    """Text instead of a number: a fate, a label, a note."""
    reason: str | None = None
    trained_step: int | None = None
    """Of a fate: the step that trained on the trajectory."""
    author: str | None = None
    """Of a label or note: who gave it."""
    op_id: int | None = None
    """Of a label or note on a turn: its op."""

    @property
    def shown(self) -> float | str | None:
        """The label, or else the number."""
        return self.value if self.label is None else self.label


@dataclass(frozen=True, eq=False)
class Transition(_Fields):
    """One environment step."""

    op_id: int | None
    time_ns: int
    trace: Any
    """prompt, policy_response, reward_data, env_state, extra, as far as they were recorded."""
    reward: float | None = None
    fields: dict[str, Any] | None = None
    """Everything else that was recorded: metrics, logs, ..."""
    episode_done: bool | None = None
    """None if that was not recorded."""
    stop_reason: str | None = None
    backfill: bool | None = None
    """It was added after the rollout, and no step was recorded before it."""
    amends: bool = False
    """It changes a step that is not there."""
    turn: int | None = None
    earlier: list[dict[str, Any]] = field(default_factory=list)
    """What amendments replaced, the oldest first: `time_ns`, when, and each value as it was before."""


@dataclass(frozen=True, eq=False)
class Note(_Fields):
    """A note, or a change of tags."""

    event: str
    op_id: int | None
    time_ns: int
    body: Any
    """Of a note: `text` and `fields`. Of a change of tags: the tags."""

    @property
    def text(self) -> str:
        """The text of a note."""
        return str(self.body.get("text", "")) if isinstance(self.body, dict) else str(self.body)

    @property
    def fields(self) -> dict[str, Any]:
        """What was recorded with the text of a note, such as its author."""
        fields = self.body.get("fields") if isinstance(self.body, dict) else None
        return fields if isinstance(fields, dict) else {}


@dataclass(frozen=True, eq=False)
class Finding(_Fields):
    """A problem that a check found."""

    flag: str
    """Its name, as in `Trajectory.flags`."""
    op_id: int | None
    """The op that has it; None if it is the trajectory's."""
    time_ns: int
    detail: Any


def labels_of(scores: list[Score]) -> list[Score]:
    """What people say now: of each name, author and place the newest, oldest first, without what was taken back."""
    newest = {(score.name, score.author, score.op_id): score for score in scores if score.author is not None}
    return sorted((each for each in newest.values() if each.label is not None), key=lambda each: each.time_ns)


def human_notes(notes: list[Note], scores: list[Score]) -> list[Note]:
    """All notes in their order: those made during the rollout, and the scores named `note` that were given later.

    An author's note on the same trajectory or turn takes the place of the one before; without an author all are shown.
    """
    shown_scores = [score for score in scores if score.author is None and score.shown is not None] + labels_of(scores)
    given_later = [
        Note("note", score.op_id, score.time_ns, {"text": score.shown, "fields": _fields_of(score)})
        for score in shown_scores
        if score.name == "note"
    ]
    recorded = [note for note in notes if note.event == "note"]
    return sorted([*recorded, *given_later], key=lambda note: note.time_ns)


def _fields_of(note: Score) -> dict[str, Any]:
    return {"reason": note.reason} if note.author is None else {"author": note.author}


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
