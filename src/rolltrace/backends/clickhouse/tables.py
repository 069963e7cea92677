"""The tables of a ClickHouse database and the views that people read; which values of a trajectory go where.

Every table is a ReplacingMergeTree whose key holds our ids, and the views are FINAL: a row that was sent twice is seen
once, merged or not. Steps and notes have no ids, so their key is their place in the trajectory; a view of them shows
those that were sent last, so that one of which there are fewer now leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rolltrace.backends.values import strict_json
from rolltrace.query import COLUMNS, Op, Score, Trajectory


class _Row(NamedTuple):
    """What one row is of: a trajectory, or an op, a step or a note in it."""

    trajectory: Trajectory
    value: Any = None
    parent_id: int | None = None
    """Of an op."""
    position: int = 0
    """Of a step or a note."""


class _Column(NamedTuple):
    """A column, and where its values come from."""

    name: str
    type: str
    value: Callable[[_Row], Any]
    default: str = ""
    """What rows have that an older release sent."""


_TYPES = {
    "integer": "Nullable(Int64)", "number": "Nullable(Float64)", "text": "Nullable(String)", "bool": "Bool",
    "sample": "Nullable(String)", "texts": "Array(String)", "tags": "String",
}  # fmt: skip
_KEYS = ("project", "experiment", "trajectory_id")
"""Columns of the key, which are never null."""
_PLACE = ("trajectory_id", "project", "experiment", "step", "sample_index", "rollout_n", "validate", "run")


def _of_trajectory(name: str, kind: str) -> _Column:
    def value(row: _Row) -> Any:
        own = getattr(row.trajectory, name)
        if kind == "tags":
            return strict_json(own or {})
        if kind == "sample":
            return None if own is None else str(own)
        return bool(own) if kind == "bool" else own

    return _Column(name, "String" if name in _KEYS else _TYPES[kind], value)


def _of_scores(name: str, kind: str, value: Callable[[Score], Any], default: str = "") -> _Column:
    """A list with an item for each score that counts: the newest of a name, and each label that somebody gives now."""

    def values(row: _Row) -> list[Any]:
        newest = {score.name: score for score in row.trajectory.scores if score.author is None}
        return [value(score) for score in (*newest.values(), *row.trajectory.given_labels)]

    return _Column(name, f"Array({kind})", values, default)


def _read(name: str) -> Callable[[_Row], Any]:
    return lambda row: getattr(row.value, name)


def _of(kind: str, *names: str) -> list[_Column]:
    return [_Column(name, kind, _read(name)) for name in names]


def _json_of(*names: str) -> list[_Column]:
    def read(name: str) -> Callable[[_Row], str]:
        return lambda row: strict_json(getattr(row.value, name))

    return [_Column(name, "String", read(name)) for name in names]


def _of_tokens(name: str, kind: str) -> _Column:
    def values(row: _Row) -> list[Any]:
        tokens = row.value.tokens
        return (None if tokens is None else getattr(tokens, name)) or []

    return _Column(name, f"Array({kind})", values)


_AS_MANY_NULLS = "arrayMap(name -> NULL, score_names)"
"""The lists of scores are joined, so they are of one length."""
TRAJECTORY_COLUMNS = (
    *(_of_trajectory(column.name, column.kind) for column in COLUMNS),
    _of_trajectory("is_group", "bool"),
    _of_scores("score_names", "String", lambda score: score.name),
    _of_scores("score_values", "Nullable(Float64)", lambda score: score.value),
    _of_scores("score_labels", "Nullable(String)", lambda score: score.label),
    _of_scores("score_terms", "String", lambda score: strict_json(score.terms or {})),
    _of_scores("score_authors", "Nullable(String)", lambda score: score.author),
    _of_scores("score_times_ns", "Int64", lambda score: score.time_ns),
    _of_scores("score_reasons", "Nullable(String)", lambda score: score.reason, _AS_MANY_NULLS),
    _of_scores("score_op_ids", "Nullable(Int64)", lambda score: score.op_id, _AS_MANY_NULLS),
)
_PLACE_COLUMNS = tuple(column for column in TRAJECTORY_COLUMNS if column.name in _PLACE)
OP_COLUMNS = (
    *_PLACE_COLUMNS,
    *_of("Int64", "op_id"),
    _Column("parent_id", "Nullable(Int64)", lambda row: row.parent_id),
    *_of("LowCardinality(String)", "name", "kind", "status"),
    *_of("Int64", "start_ns"),
    *_of("Nullable(Int64)", "end_ns"),
    *_of("Nullable(String)", "error", "traceback", "finish_reason", "worker"),
    *_of("Nullable(Int64)", "policy_version", "prompt_tokens", "response_tokens", "cached_tokens", "reasoning_tokens"),
    *_json_of("inputs", "outputs"),
    *_of("Nullable(String)", "prompt_text", "response_text"),
    _of_tokens("prompt_ids", "Int32"),
    _of_tokens("response_ids", "Int32"),
    _of_tokens("logprobs", "Float32"),
    _of_tokens("response_mask", "Int8"),
)
_POSITION_COLUMNS = (
    *_PLACE_COLUMNS,
    _Column("position", "Int64", lambda row: row.position),
    *_of("Nullable(Int64)", "op_id"),
    *_of("Int64", "time_ns"),
)
TRANSITION_COLUMNS = (
    *_POSITION_COLUMNS,
    *_of("Nullable(Float64)", "reward"),
    *_of("Nullable(Bool)", "episode_done"),
    *_of("Nullable(String)", "stop_reason"),
    _Column("backfill", "Bool", lambda row: bool(row.value.backfill)),
    *_of("Bool", "amends"),
    *_of("Nullable(Int64)", "turn"),
    *_json_of("trace", "fields", "earlier"),
)
NOTE_COLUMNS = (
    *_POSITION_COLUMNS,
    *_of("LowCardinality(String)", "event"),
    _Column("text", "Nullable(String)", lambda row: row.value.text if row.value.event == "note" else None),
    *_json_of("body"),
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
    rows = {
        "op_rows": list(_op_rows(trajectory, trajectory.ops, None)),
        "transition_rows": [_Row(trajectory, step, position=at) for at, step in enumerate(trajectory.transitions)],
        "note_rows": [_Row(trajectory, note, position=at) for at, note in enumerate(trajectory.notes)],
        "trajectory_rows": [_Row(trajectory)],
    }
    return {table: [_values(table, row) for row in each] for table, each in rows.items()}


def trajectory_row(trajectory: Trajectory) -> list[Any]:
    """The row of the trajectory itself."""
    return _values("trajectory_rows", _Row(trajectory))


def _op_rows(trajectory: Trajectory, ops: Sequence[Op], parent_id: int | None) -> Iterator[_Row]:
    for op in ops:
        yield _Row(trajectory, op, parent_id)
        yield from _op_rows(trajectory, op.children, op.op_id)


def _values(table: str, row: _Row) -> list[Any]:
    columns, _ = TABLES[table]
    return [column.value(row) for column in columns]
