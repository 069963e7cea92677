"""The tables of a ClickHouse database and the views that people read; which values of a trajectory go where.

Every table is a ReplacingMergeTree whose key holds our ids, and the views are FINAL: a row that was sent twice is seen
once, merged or not. Steps and notes have no ids, so their key is their place in the trajectory; a view of them shows
those that were sent last, so that one of which there are fewer now leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rolltrace.backends.values import strict_json
from rolltrace.query import COLUMNS, Note, Op, Score, Trajectory, Transition


class _Column(NamedTuple):
    """A column, and where its values come from."""

    name: str
    type: str
    value: Callable[[Any], Any]
    default: str = ""
    """What rows have that an older release sent."""


_TYPES = {
    "integer": "Nullable(Int64)", "number": "Nullable(Float64)", "text": "Nullable(String)", "bool": "Bool",
    "sample": "Nullable(String)", "texts": "Array(String)", "tags": "String",
}  # fmt: skip
_KEYS = ("project", "experiment", "trajectory_id")
"""Columns of the key, which are never null."""


def _attribute(name: str, kind: str) -> Callable[[Trajectory], Any]:
    if kind == "tags":
        return lambda trajectory: strict_json(getattr(trajectory, name) or {})
    if kind == "sample":
        return lambda trajectory: None if (sample := getattr(trajectory, name)) is None else str(sample)
    if kind == "bool":
        return lambda trajectory: bool(getattr(trajectory, name))
    return lambda trajectory: getattr(trajectory, name)


def _of_scores(value: Callable[[Score], Any]) -> Callable[[Trajectory], list[Any]]:
    return lambda trajectory: [value(score) for score in _scores(trajectory)]


def _scores(trajectory: Trajectory) -> list[Score]:
    """Those that count: the newest of a name, and each label that somebody gives it now."""
    newest = {score.name: score for score in trajectory.scores if score.author is None}
    return [*newest.values(), *trajectory.given_labels]


_AS_MANY_NULLS = "arrayMap(name -> NULL, score_names)"
"""The lists of scores are joined, so they are of one length."""
TRAJECTORY_COLUMNS = (
    *(
        _Column(
            column.name,
            "String" if column.name in _KEYS else _TYPES[column.kind],
            _attribute(column.name, column.kind),
        )
        for column in COLUMNS
    ),
    _Column("is_group", "Bool", lambda trajectory: trajectory.is_group),
    _Column("score_names", "Array(String)", _of_scores(lambda score: score.name)),
    _Column("score_values", "Array(Nullable(Float64))", _of_scores(lambda score: score.value)),
    _Column("score_labels", "Array(Nullable(String))", _of_scores(lambda score: score.label)),
    _Column("score_terms", "Array(String)", _of_scores(lambda score: strict_json(score.terms or {}))),
    _Column("score_authors", "Array(Nullable(String))", _of_scores(lambda score: score.author)),
    _Column("score_times_ns", "Array(Int64)", _of_scores(lambda score: score.time_ns)),
    _Column("score_reasons", "Array(Nullable(String))", _of_scores(lambda score: score.reason), _AS_MANY_NULLS),
    _Column("score_op_ids", "Array(Nullable(Int64))", _of_scores(lambda score: score.op_id), _AS_MANY_NULLS),
)


class _Part(NamedTuple):
    """An op, a step or a note, and whose it is."""

    trajectory: Trajectory
    value: Any
    parent_id: int | None = None
    """Of an op."""
    position: int = 0
    """Of a step or a note."""


def _of_trajectory(name: str, kind: str) -> Callable[[_Part], Any]:
    value = _attribute(name, kind)
    return lambda part: value(part.trajectory)


def _of(name: str) -> Callable[[_Part], Any]:
    return lambda part: getattr(part.value, name)


def _json_of(name: str) -> Callable[[_Part], str]:
    return lambda part: strict_json(getattr(part.value, name))


def _of_tokens(name: str) -> Callable[[_Part], list[Any]]:
    return lambda part: (getattr(part.value.tokens, name) if part.value.tokens is not None else None) or []


_PLACE = ("trajectory_id", "project", "experiment", "step", "sample_index", "rollout_n", "validate", "run")
_PLACE_COLUMNS = tuple(
    _Column(
        column.name,
        "String" if column.name in _KEYS else _TYPES[column.kind],
        _of_trajectory(column.name, column.kind),
    )
    for column in COLUMNS
    if column.name in _PLACE
)
OP_COLUMNS = (
    *_PLACE_COLUMNS,
    _Column("op_id", "Int64", _of("op_id")),
    _Column("parent_id", "Nullable(Int64)", lambda part: part.parent_id),
    *(_Column(name, "LowCardinality(String)", _of(name)) for name in ("name", "kind", "status")),
    _Column("start_ns", "Int64", _of("start_ns")),
    _Column("end_ns", "Nullable(Int64)", _of("end_ns")),
    *(_Column(name, "Nullable(String)", _of(name)) for name in ("error", "traceback", "finish_reason", "worker")),
    *(
        _Column(name, "Nullable(Int64)", _of(name))
        for name in ("policy_version", "prompt_tokens", "response_tokens", "cached_tokens", "reasoning_tokens")
    ),
    *(_Column(name, "String", _json_of(name)) for name in ("inputs", "outputs")),
    *(_Column(name, "Nullable(String)", _of(name)) for name in ("prompt_text", "response_text")),
    *(_Column(name, "Array(Int32)", _of_tokens(name)) for name in ("prompt_ids", "response_ids")),
    _Column("logprobs", "Array(Float32)", _of_tokens("logprobs")),
    _Column("response_mask", "Array(Int8)", _of_tokens("response_mask")),
)
_POSITION_COLUMNS = (
    *_PLACE_COLUMNS,
    _Column("position", "Int64", lambda part: part.position),
    _Column("op_id", "Nullable(Int64)", _of("op_id")),
    _Column("time_ns", "Int64", _of("time_ns")),
)
TRANSITION_COLUMNS = (
    *_POSITION_COLUMNS,
    _Column("reward", "Nullable(Float64)", _of("reward")),
    _Column("episode_done", "Nullable(Bool)", _of("episode_done")),
    _Column("stop_reason", "Nullable(String)", _of("stop_reason")),
    _Column("backfill", "Bool", lambda part: bool(part.value.backfill)),
    _Column("amends", "Bool", _of("amends")),
    _Column("turn", "Nullable(Int64)", _of("turn")),
    *(_Column(name, "String", _json_of(name)) for name in ("trace", "fields", "earlier")),
)
NOTE_COLUMNS = (
    *_POSITION_COLUMNS,
    _Column("event", "LowCardinality(String)", _of("event")),
    _Column("text", "Nullable(String)", lambda part: part.value.text if part.value.event == "note" else None),
    _Column("body", "String", _json_of("body")),
)
VERSION = "_version"
"""When a row was sent: the newest of a key counts."""

_STEP = "coalesce(step, -1)"
_KEY = f"project, experiment, {_STEP}, trajectory_id"
TABLES = {
    "op_rows": (OP_COLUMNS, f"({_KEY}, op_id)"),
    "transition_rows": (TRANSITION_COLUMNS, f"({_KEY}, position)"),
    "note_rows": (NOTE_COLUMNS, f"({_KEY}, position)"),
    "trajectory_rows": (TRAJECTORY_COLUMNS, f"({_KEY})"),
}
"""Name -> columns and key, in the order in which they are written: whoever sees a trajectory sees all of it."""
_SENT_LAST = (
    "SELECT * EXCEPT (_version) FROM {{database}}.{table} FINAL WHERE (trajectory_id, _version) IN "
    "(SELECT trajectory_id, max(_version) FROM {{database}}.{table} GROUP BY trajectory_id)"
)
_VIEWS = {
    "trajectories": "SELECT * EXCEPT (_version) FROM {database}.trajectory_rows FINAL",
    "spans": "SELECT * EXCEPT (_version) FROM {database}.op_rows FINAL",
    "transitions": _SENT_LAST.format(table="transition_rows"),
    "notes": _SENT_LAST.format(table="note_rows"),
    "latest_scores": "SELECT trajectory_id, project, experiment, step, name, value, label, terms, author, time_ns, "
    "reason, op_id "
    "FROM (SELECT * EXCEPT (name) FROM {database}.trajectory_rows FINAL) "
    "ARRAY JOIN score_names AS name, score_values AS value, score_labels AS label, "
    "score_terms AS terms, score_authors AS author, score_times_ns AS time_ns, "
    "score_reasons AS reason, score_op_ids AS op_id",
}


def statements(database: str) -> list[str]:
    """What makes the database, its tables and its views, and adds columns that an older release did not have."""
    queries = [f"CREATE DATABASE IF NOT EXISTS {database}"]
    for name, (columns, key) in TABLES.items():
        every = [*map(_declaration, columns), f"{VERSION} UInt64"]
        queries.append(
            f"CREATE TABLE IF NOT EXISTS {database}.{name} ({', '.join(every)}) "
            f"ENGINE = ReplacingMergeTree(_version) ORDER BY {key}"
        )
        added = ", ".join(f"ADD COLUMN IF NOT EXISTS {column}" for column in every)
        queries.append(f"ALTER TABLE {database}.{name} {added}")
    queries += [
        f"CREATE OR REPLACE VIEW {database}.{name} AS {sql.format(database=database)}" for name, sql in _VIEWS.items()
    ]
    return queries


def _declaration(column: _Column) -> str:
    return f"{column.name} {column.type}{f' DEFAULT {column.default}' if column.default else ''}"


def rows_of(trajectory: Trajectory) -> dict[str, list[list[Any]]]:
    """The rows of a trajectory, by table."""
    parts: dict[str, list[Any]] = {
        "op_rows": [part for op in trajectory.ops for part in _op_parts(trajectory, op, None)],
        "transition_rows": _in_order(trajectory, trajectory.transitions),
        "note_rows": _in_order(trajectory, trajectory.notes),
        "trajectory_rows": [trajectory],
    }
    return {table: [values_of(TABLES[table][0], part) for part in each] for table, each in parts.items()}


def _op_parts(trajectory: Trajectory, op: Op, parent_id: int | None) -> list[_Part]:
    children = [part for child in op.children for part in _op_parts(trajectory, child, op.op_id)]
    return [_Part(trajectory, op, parent_id), *children]


def _in_order(trajectory: Trajectory, events: Sequence[Transition | Note]) -> list[_Part]:
    return [_Part(trajectory, event, position=at) for at, event in enumerate(events)]


def values_of(columns: Sequence[_Column], row: Any) -> list[Any]:
    return [column.value(row) for column in columns]
