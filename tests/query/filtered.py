"""Four trajectories in a database, and what a filter finds of them."""

from __future__ import annotations

import json
from typing import Any

import duckdb

from rolltrace.query.filters import compile_where

NAN = float("nan")
TABLES = """
    CREATE TABLE trajectories (
        trajectory_id VARCHAR, project VARCHAR, experiment VARCHAR, step BIGINT, sample_index VARCHAR, rollout_n BIGINT,
        validate BOOLEAN, name VARCHAR, status VARCHAR, error VARCHAR, start_ns BIGINT, end_ns BIGINT,
        duration_s DOUBLE, turns BIGINT, tool_calls BIGINT, tool_errors BIGINT, prompt_tokens BIGINT,
        response_tokens BIGINT, reward DOUBLE, policy_version_min BIGINT, policy_version_max BIGINT, worker VARCHAR,
        flags VARCHAR[], tags VARCHAR, advantage DOUBLE, fate VARCHAR, fate_reason VARCHAR, staleness BIGINT,
        run VARCHAR, superseded BOOLEAN, trained_step BIGINT, labels VARCHAR[], terms MAP(VARCHAR, DOUBLE));
    CREATE TABLE spans (trajectory_id VARCHAR, name VARCHAR, kind VARCHAR, inputs VARCHAR, outputs VARCHAR,
        text VARCHAR, payload VARCHAR AS (coalesce(inputs, '') || coalesce(outputs, '')));
    CREATE VIEW ops AS SELECT trajectory_id, name, kind FROM spans;
    CREATE TABLE _transitions (trajectory_id VARCHAR, trace VARCHAR);
    CREATE TABLE latest_scores (trajectory_id VARCHAR, name VARCHAR, value DOUBLE, label VARCHAR, terms VARCHAR,
        author VARCHAR);
    CREATE TABLE passes (trajectory_id VARCHAR, passed BOOLEAN);
    CREATE TABLE groups (
        project VARCHAR, experiment VARCHAR, step BIGINT, sample_index VARCHAR, validate BOOLEAN, size BIGINT,
        mean DOUBLE, std DOUBLE, min DOUBLE, max DOUBLE, spread DOUBLE, scored BIGINT, passed BIGINT,
        pass_rate DOUBLE, zero_variance BOOLEAN, response_tokens_mean DOUBLE, response_tokens_min BIGINT,
        response_tokens_max BIGINT, turns_mean DOUBLE, duration_s_max DOUBLE, errors BIGINT, run VARCHAR);
"""
# Four rollouts: 1 went well, 2 was cut, 3 raised, and 4 still runs, so that most of it is missing.
TRAJECTORY_ROWS: list[list[Any]] = [
    [
        *("1", "math", "run-1", 1, "3", 0, False, "agent", "ok", None, 1700000000000000001, 1700000009000000000),
        *(9.0, 2, 1, 0, 100, 50, 1.0, 7, 7, "host-1", ["repeats"]),
        json.dumps({"level": "hard", "n": 3, "ok": True, "odd name": "x", "a/b~c": 1.5, "none": None}),
        *(0.5, "trained", None, 0, "job-1", False, 4, ["note"]),
    ],
    [
        *("2", "math", "run-1", 1, "3", 1, False, "agent", "ok", None, 1700000000000000002, 1700000004000000000),
        *(4.0, 9, 8, 3, 900, 80, 0.25, 7, 8, "host-1", ["truncated", "tool_error"]),
        json.dumps({"level": "easy", "n": "12", "ok": False, "bad": {"$float": "nan"}}),
        *(-0.5, "filtered", "too LONG", 3, "job-1", False, None, []),
    ],
    [
        *("3", "math", "run-2", 2, "10", 0, True, "Agent X", "error", "ValueError: it's \\ Bad", 5, 6),
        *(1e-9, 1, 0, 0, 10, 0, NAN, 9, 9, "host-2", []),
        json.dumps({"level": "hard", "n": 2.5, "list": ["p", "q"]}),
        *(NAN, None, None, None, "job-2", True, None, ["note"]),
    ],
    ["4", None, None, None, "uuid-7", None, None, None, "running", *[None] * 23],
]
SPAN_ROWS: list[list[Any]] = [
    ["1", "generate", "llm", '{"prompt":"Find the CERTIFICATE"}', '"say \\"hi\\"\\nbye"', None],
    ["1", "search", "tool", '"q"', '"\\\\frac{1}{2}"', None],
    ["2", "generate", "llm", '"中文 ÄÖ"', None, None],
    ["2", "browse", "tool", None, '"certificate"', None],
    ["3", "search", "llm", "null", None, 'Decoded 词元 "as is"'],
]
SCORE_ROWS: list[list[Any]] = [
    ["1", "acc", 1.0, None, None, None],
    ["2", "acc", 0.5, None, '{"format": 9.0}', None],
    ["2", "acc/odd name", 2.0, None, None, None],
    ["3", "acc", NAN, None, None, None],
    ["1", "note", None, "Reward hack?", None, "Ann"],
    ["3", "note", None, "fine", None, None],
    ["1", "reward", 1.0, None, '{"format": 0.2, "a/b~c": 1.5}', None],
    ["2", "reward", 0.25, None, '{"format": {"$float": "nan"}}', None],
    ["3", "reward", 0.5, None, None, None],
]
TERMS = {"1": "{'format': 0.2, 'a/b~c': 1.5}", "2": "{'format': 'nan'::DOUBLE}"}
"""Of the rewards, as the table of trajectories has them."""
GROUP_ROWS: list[list[Any]] = [
    [
        "math",
        "run-1",
        1,
        "3",
        False,
        2,
        0.625,
        0.375,
        0.25,
        1.0,
        0.75,
        2,
        1,
        0.5,
        False,
        65.0,
        50,
        80,
        5.5,
        9.0,
        0,
        "job-1",
    ],
    ["math", "run-2", 2, "10", True, 1, NAN, NAN, NAN, NAN, NAN, 1, 0, 0.0, True, 0.0, 0, 0, 1.0, 1e-9, 1, "job-2"],
    [None, None, None, "uuid-7", None, 1, *[None] * 5, 0, 0, None, False, *[None] * 3, 0.0, None, 0, None],
]


def filled() -> duckdb.DuckDBPyConnection:
    """A database with these rows, in the tables that a filter is made for."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(TABLES)
    tables = {"trajectories": TRAJECTORY_ROWS, "spans": SPAN_ROWS, "latest_scores": SCORE_ROWS, "groups": GROUP_ROWS}
    for table, rows in tables.items():
        terms = ", NULL" if table == "trajectories" else ""
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))}{terms})", rows)
    for trajectory_id, terms in TERMS.items():
        connection.execute(f"UPDATE trajectories SET terms = MAP {terms} WHERE trajectory_id = '{trajectory_id}'")
    return connection


def found(database: duckdb.DuckDBPyConnection, where: str) -> str:
    """The ids that a filter finds, as one string."""
    sql, parameters, *_ = compile_where(where)
    assert sql.count("?") == len(parameters)
    rows = database.execute(f"SELECT t.trajectory_id FROM trajectories t WHERE {sql}", parameters).fetchall()
    return "".join(sorted(row[0] for row in rows))
