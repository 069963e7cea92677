"""The documented views, as SQL over the tables of the store (`tables.columns`).

    trajectories    one row per trajectory
    messages, ops, transitions, scores, notes, flags, losses, runs, blobs       the tables
    spans           ops with the tokens of model calls beside them
    tokens          prompt and response ids, logprobs and mask of the model calls that have any
    latest_scores   the newest value of each score of a trajectory (query/score_views.py)
    labels          what people say of trajectories and turns now: labels and notes
    unmatched_scores                    those of trajectories that nobody traced, or that are not known yet
    passes          which rollouts passed, and what that means (query/passes.py)
    groups          all rollouts of one sample in one step together (query/group_views.py)
    group_records   what was recorded for a whole group, and is no rollout

A score has the id and coordinates of its trajectory, however it was given. Names that begin with `_` are ours: they may
change. `_listing` reads small columns only, and `ops` no tokens: a question that needs none pays for none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rolltrace.pass_rule import Experiment, PassRule
from rolltrace.query.columns import TRAJECTORY_COLUMNS
from rolltrace.query.group_views import SAMPLE_NUMBER
from rolltrace.query.passes import pass_views
from rolltrace.query.score_views import SCORE_VIEWS
from rolltrace.query.step_rows import STEP_VIEWS
from rolltrace.query.transition_views import TRANSITION_VIEWS
from rolltrace.tables import TABLE_SCHEMAS, Place, sql_literal

_READ = re.compile(r"\b(?:from|join)\s+\"?([a-z_]+)")
_ASKS_WHAT_THERE_IS = re.compile(r"\b(?:show|describe|information_schema|duckdb_\w+|sqlite_master|pg_\w+)\b")
_SCHEMAS = {schema.name: schema for schema in TABLE_SCHEMAS}

_LISTING = f"""
SELECT {", ".join(TRAJECTORY_COLUMNS)},
    sample_number IS NOT NULL AS _is_int, branch, terms, records, open_ops, last_ns, scored_ns
FROM _rows
"""
_PEOPLES_TRAJECTORIES = f"""
SELECT {", ".join(TRAJECTORY_COLUMNS)}, {SAMPLE_NUMBER} AS sample_number,
    terms, task, answer
FROM _rows
"""
_PARENTS = "trajectory_id, traceback, parent_trajectory_id, parent_op_id, start_ns, end_ns"
_TOKEN_COLUMNS = """t.ids AS tokens, t.logprobs, t.mask AS response_mask, t.tokenizer, t.text, t.prompt_chars,
    t.piece_chars"""
_SPANS = f"""
SELECT o.*, {_TOKEN_COLUMNS}
FROM ops o LEFT JOIN _tokens t ON t.trajectory_id = o.trajectory_id AND t.op_id = o.op_id
"""
_PEOPLES_SPANS = f"""
SELECT * REPLACE ({SAMPLE_NUMBER} AS sample_number),
    CASE WHEN prompt_tokens IS NOT NULL THEN tokens[1:prompt_tokens] END AS prompt_ids,
    CASE WHEN response_tokens IS NOT NULL THEN tokens[coalesce(prompt_tokens, 0) + 1:] END AS response_ids,
    CASE WHEN prompt_tokens IS NOT NULL THEN substring(text, 1, prompt_chars) END AS prompt_text,
    CASE WHEN response_tokens IS NOT NULL THEN substring(text, prompt_chars + 1) END AS response_text,
    json_extract(payload, '$.inputs')::VARCHAR AS inputs,
    json_extract(payload, '$.outputs')::VARCHAR AS outputs
FROM _spans
"""
"""One column on disk, for the compression; two for people."""
_TOKENS = """
SELECT trajectory_id, project, experiment, step, op_id, name, start_ns, policy_version, prompt_ids, response_ids,
    logprobs, response_mask
FROM spans WHERE prompt_ids IS NOT NULL OR response_ids IS NOT NULL
"""

_DERIVED = {
    "_listing": _LISTING,
    "_trajectories": f"SELECT {_PARENTS} FROM _rows UNION ALL SELECT {_PARENTS} FROM _stored_group_records",
    **SCORE_VIEWS,
    **TRANSITION_VIEWS,
    **STEP_VIEWS,
    "_spans": _SPANS,
    "_spans_with_text": "SELECT * FROM _spans",
    "spans": _PEOPLES_SPANS,
    "trajectories": _PEOPLES_TRAJECTORIES,
    "tokens": _TOKENS,
}
"""Views over other views."""

VIEWS = (
    "trajectories", "messages", "ops", "spans", "tokens", "transitions", "scores", "notes", "losses", "flags", "runs",
    "blobs", "latest_scores", "labels", "unmatched_scores", "passes", "groups", "group_records",
)  # fmt: skip
"""The documented ones."""

STORED = {
    "trajectories": "_rows", "group_records": "_stored_group_records", "tokens": "_tokens", "scores": "_scores",
    "transitions": "_transitions",
}  # fmt: skip
"""Tables that people see through another view -> under which name they are seen as they are stored."""

MESSAGE_ROWS = "_message_rows"
"""The rows of `messages` as they are stored, partial ones too: a search through all text has nothing to reduce."""

MakeSql = Callable[[], str]
ReadTable = Callable[[str], str]
"""Gives SQL, in parentheses, of the rows of a table."""


class Chosen(NamedTuple):
    """The trajectories `t` that meet some conditions, in two pieces of SQL."""

    before: list[str]
    """What stands in a WITH before the SELECT: name AS (...)."""
    after: str
    """What stands behind its FROM."""


def chosen(conditions: str, predicate: str, views: Sequence[str] = ("latest_scores", "passes", "groups")) -> Chosen:
    """Those that meet plain conditions and a filter's predicate.

    A predicate that looks into ops, scores and groups several times is kept apart from the plain conditions, and the
    views that it looks into are computed once: 50 conditions on scores took DuckDB 2.0 85 s to plan, and take 0.2 s
    like this.
    """
    if predicate.count("EXISTS (") < 2:
        return Chosen([], f"_listing t WHERE {conditions} AND ({predicate})")
    before = [f"{name} AS MATERIALIZED (SELECT * FROM _{name})" for name in views if f"FROM {name} " in predicate]
    before.append(f"candidates AS MATERIALIZED (SELECT * FROM _listing t WHERE {conditions})")
    return Chosen(before, f"candidates t WHERE {predicate}")


def make_views(
    read: ReadTable, places: Iterable[Place], pass_rules: Mapping[Experiment, PassRule]
) -> dict[str, str | MakeSql]:
    """Name -> SQL of every view, or what gives it. Each is made when a question asks for it: a table that no question
    reads is not even opened."""

    def select(table: str) -> MakeSql:
        # Of a trajectory that has nothing but scores or flags so far, nobody knows what it is.
        condition = " WHERE start_ns IS NOT NULL" if table == "trajectories" else ""
        return lambda: f"SELECT * FROM {read(table)}{condition}"

    tables = {STORED.get(name, name): select(name) for name in (*_SCHEMAS, MESSAGE_ROWS)}
    return {**tables, "_places": lambda: _list_places(places), **_DERIVED, **pass_views(pass_rules)}


def _list_places(places: Iterable[Place]) -> str:
    """The steps that have files, which no file needs to be read for."""
    rows = [f"({', '.join(map(sql_literal, place))})" for place in places] or ["(NULL, NULL, NULL)"]
    columns = "project::VARCHAR AS project, experiment::VARCHAR AS experiment, step::BIGINT AS step"
    values = f"(VALUES {', '.join(rows)}) places(project, experiment, step)"
    return f"SELECT {columns} FROM {values} WHERE project IS NOT NULL"


def names_in(sql: str, views: Iterable[str]) -> list[str]:
    """The views that a statement reads, as far as that can be seen."""
    text = sql.lower()
    if _ASKS_WHAT_THERE_IS.search(text):
        return list(views)
    known = frozenset(views)
    return [name for name in dict.fromkeys(_READ.findall(text)) if name in known]
