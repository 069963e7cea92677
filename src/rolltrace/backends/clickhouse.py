"""`clickhouse`: trajectories and their ops as rows of two tables of a ClickHouse server.

A repeat replaces: both tables are ReplacingMergeTree, whose key holds our ids, and the views that people read are
FINAL, so that a row which was sent twice is seen once, merged or not. The ops of a batch are inserted before its
trajectories: whoever sees a trajectory sees all of it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from rolltrace.backends.backend import Refused, convert_each
from rolltrace.backends.values import strict_json
from rolltrace.errors import BackendError, OutageError
from rolltrace.query import COLUMNS, Op, Score, Trajectory

DEFAULT_URL = "http://localhost:8123"
DEFAULT_DATABASE = "rolltrace"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CODE = re.compile(r"\bcode:? (\d+)\b", re.IGNORECASE)
_NOBODY_CAN_WAIT_FOR = {
    "164": "the user may only read",
    "192": "the user is not known",
    "193": "the password is wrong",
    "194": "a password is required",
    "497": "the user lacks a privilege: CREATE, SELECT, INSERT and ALTER on the database",
    "516": "authentication failed: set CLICKHOUSE_USER and CLICKHOUSE_PASSWORD",
}  # fmt: skip
"""Codes of errors that somebody has to do something about -> what."""
_TIMEOUT_SEC = 60


class _Column(NamedTuple):
    """A column, and where its values come from."""

    name: str
    type: str
    value: Callable[[Any], Any]


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
)


class _OpRow(NamedTuple):
    trajectory: Trajectory
    op: Op
    parent_id: int | None


def _of_trajectory(name: str, kind: str) -> Callable[[_OpRow], Any]:
    value = _attribute(name, kind)
    return lambda row: value(row.trajectory)


def _of_op(name: str) -> Callable[[_OpRow], Any]:
    return lambda row: getattr(row.op, name)


def _of_tokens(name: str) -> Callable[[_OpRow], list[Any]]:
    return lambda row: (getattr(row.op.tokens, name) if row.op.tokens is not None else None) or []


_PLACE = ("trajectory_id", "project", "experiment", "step", "sample_index", "rollout_n", "validate", "run")
OP_COLUMNS = (
    *(
        _Column(
            column.name,
            "String" if column.name in _KEYS else _TYPES[column.kind],
            _of_trajectory(column.name, column.kind),
        )
        for column in COLUMNS
        if column.name in _PLACE
    ),
    _Column("op_id", "Int64", _of_op("op_id")),
    _Column("parent_id", "Nullable(Int64)", lambda row: row.parent_id),
    *(_Column(name, "LowCardinality(String)", _of_op(name)) for name in ("name", "kind", "status")),
    _Column("start_ns", "Int64", _of_op("start_ns")),
    _Column("end_ns", "Nullable(Int64)", _of_op("end_ns")),
    *(_Column(name, "Nullable(String)", _of_op(name)) for name in ("error", "traceback", "finish_reason", "worker")),
    *(
        _Column(name, "Nullable(Int64)", _of_op(name))
        for name in ("policy_version", "prompt_tokens", "response_tokens", "cached_tokens", "reasoning_tokens")
    ),
    _Column("inputs", "String", lambda row: strict_json(row.op.inputs)),
    _Column("outputs", "String", lambda row: strict_json(row.op.outputs)),
    *(_Column(name, "Nullable(String)", _of_op(name)) for name in ("prompt_text", "response_text")),
    *(_Column(name, "Array(Int32)", _of_tokens(name)) for name in ("prompt_ids", "response_ids")),
    _Column("logprobs", "Array(Float32)", _of_tokens("logprobs")),
    _Column("response_mask", "Array(Int8)", _of_tokens("response_mask")),
)
_VERSION = "_version"
"""When a row was sent: the newest of a key counts."""

_STEP = "coalesce(step, -1)"
_TABLES = {
    "trajectory_rows": (TRAJECTORY_COLUMNS, f"(project, experiment, {_STEP}, trajectory_id)"),
    "op_rows": (OP_COLUMNS, f"(project, experiment, {_STEP}, trajectory_id, op_id)"),
}
_VIEWS = {
    "trajectories": "SELECT * EXCEPT (_version) FROM {database}.trajectory_rows FINAL",
    "spans": "SELECT * EXCEPT (_version) FROM {database}.op_rows FINAL",
    "latest_scores": "SELECT trajectory_id, project, experiment, step, name, value, label, terms, author, time_ns "
    "FROM (SELECT * EXCEPT (name) FROM {database}.trajectory_rows FINAL) "
    "ARRAY JOIN score_names AS name, score_values AS value, score_labels AS label, "
    "score_terms AS terms, score_authors AS author, score_times_ns AS time_ns",
}


class ClickHouseBackend:
    """Writes to one database of a server, which it makes if need be. See docs/howto/clickhouse.md."""

    def __init__(self) -> None:
        self._url = os.environ.get("CLICKHOUSE_URL") or DEFAULT_URL
        self._database = os.environ.get("CLICKHOUSE_DATABASE") or DEFAULT_DATABASE
        if not _NAME.fullmatch(self._database):
            raise BackendError(f"CLICKHOUSE_DATABASE must be a plain name such as rolltrace, not {self._database!r}")
        self._client: Client | None = None

    def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
        """Write the rows of each, those of its ops first."""
        refused: dict[str, str] = {}
        rows = [each for _, each in convert_each(trajectories, _rows_of, refused)]
        self._insert("op_rows", OP_COLUMNS, [row for _, ops in rows for row in ops])
        self._insert("trajectory_rows", TRAJECTORY_COLUMNS, [row for row, _ in rows])
        return [Refused(*each) for each in refused.items()]

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        """Write the rows of trajectories anew, with their newest scores; their ops have not changed."""
        self._insert(
            "trajectory_rows", TRAJECTORY_COLUMNS, [_values(TRAJECTORY_COLUMNS, each) for each in trajectories]
        )

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    def _insert(self, table: str, columns: Sequence[_Column], rows: list[list[Any]]) -> None:
        if not rows:
            return
        version = time.time_ns()
        try:
            client = self._connected()
            client.insert(
                table,
                [[*row, version] for row in rows],
                column_names=[*(column.name for column in columns), _VERSION],
                column_type_names=[*(column.type for column in columns), "UInt64"],
                database=self._database,
                settings={"async_insert": 0},  # when it returns, the rows are there
            )
        except ClickHouseError as fault:
            raise self._explained(fault) from fault

    def _connected(self) -> Client:
        if self._client is None:
            client = clickhouse_connect.get_client(
                dsn=self._url,
                username=os.environ.get("CLICKHOUSE_USER") or None,
                password=os.environ.get("CLICKHOUSE_PASSWORD") or "",
                autogenerate_session_id=False,
                connect_timeout=10,
                send_receive_timeout=_TIMEOUT_SEC,
            )
            for statement in statements(self._database):
                client.command(statement)
            self._client = client
        return self._client

    def _explained(self, fault: ClickHouseError) -> Exception:
        """The error, as one that somebody has to do something about, or as an outage."""
        code = _CODE.search(str(fault))
        what = _NOBODY_CAN_WAIT_FOR.get(code[1]) if code is not None else None
        if what is not None:
            return BackendError(f"ClickHouse at {_without_password(self._url)}: {what} ({str(fault)[:300]})")
        return OutageError(f"ClickHouse at {_without_password(self._url)}: {str(fault)[:500]}")


def statements(database: str) -> list[str]:
    """What makes the database, its tables and its views, and adds columns that an older release did not have."""
    made = [f"CREATE DATABASE IF NOT EXISTS {database}"]
    for name, (columns, key) in _TABLES.items():
        every = [*(f"{column.name} {column.type}" for column in columns), f"{_VERSION} UInt64"]
        made.append(
            f"CREATE TABLE IF NOT EXISTS {database}.{name} ({', '.join(every)}) "
            f"ENGINE = ReplacingMergeTree(_version) ORDER BY {key}"
        )
        added = ", ".join(f"ADD COLUMN IF NOT EXISTS {column}" for column in every)
        made.append(f"ALTER TABLE {database}.{name} {added}")
    made += [
        f"CREATE OR REPLACE VIEW {database}.{name} AS {sql.format(database=database)}" for name, sql in _VIEWS.items()
    ]
    return made


def _rows_of(trajectory: Trajectory) -> tuple[list[Any], list[list[Any]]]:
    ops = [row for op in trajectory.ops for row in _op_rows(trajectory, op, None)]
    return _values(TRAJECTORY_COLUMNS, trajectory), [_values(OP_COLUMNS, row) for row in ops]


def _op_rows(trajectory: Trajectory, op: Op, parent_id: int | None) -> list[_OpRow]:
    children = [row for child in op.children for row in _op_rows(trajectory, child, op.op_id)]
    return [_OpRow(trajectory, op, parent_id), *children]


def _values(columns: Sequence[_Column], row: Any) -> list[Any]:
    return [column.value(row) for column in columns]


def _without_password(url: str) -> str:
    return re.sub(r"//[^@/]*@", "//", url)
