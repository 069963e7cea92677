"""The documented views, as SQL, and which Parquet parts stand behind them.

    trajectories    one row per trajectory, from its own row or, outside any `rollout_trace_attr`, from its top op
    spans, transitions, scores, notes, losses, flags, texts      the tables of the store (record/tables.py)
    tokens          the token columns of the ops that have any
    latest_scores   the newest value of each score of a trajectory (query/score_views.py)
    unmatched_scores                    those of trajectories that nobody traced, or that are not known yet
    groups          all rollouts of one sample in one step together (query/group_views.py)

Each table is a view over its parts and over the live rows of the journals; a score has the id and coordinates of its
trajectory, however it was given. Names that begin with `_` are ours: they may change. The views of a listing read small
columns only: no inputs, outputs or token lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rolltrace.query.group_views import GROUP_VIEWS
from rolltrace.query.runs import SAME_STEP, SUPERSEDED, newest_runs
from rolltrace.query.score_views import (
    IS_MEANT,
    IS_NEWEST,
    SCORE_VIEWS,
    SHOWN,
    SHOWN_SCORES,
    newest_shown,
    with_id,
    with_late,
    without_coordinates,
)
from rolltrace.record.tables import FLAGS, LOSSES, SCORES, SPANS, TABLES, TEXTS, TIMES, TRAJECTORIES, WHERE, Table
from rolltrace.store import table_of

TRAJECTORY_COLUMNS = (
    "trajectory_id", "project", "experiment", "step", "sample_index", "rollout_n", "validate", "name", "status",
    "error", "start_ns", "end_ns", "duration_s", "turns", "tool_calls", "tool_errors", "prompt_tokens",
    "response_tokens", "reward", "policy_version_min", "policy_version_max", "flags", "tags", "worker", "advantage",
    "fate", "fate_reason", "staleness", "run", "superseded",
)  # fmt: skip
"""The columns of `trajectories`, in order."""

LISTED = (TRAJECTORIES, SPANS, SCORES, FLAGS)
"""The tables that a listing is made of."""

_SHARED = ", ".join(f"s.{column.name}" for column in (*WHERE, *TIMES) if column.name != "traceback")
_LISTING = f"""
WITH own AS (
    SELECT * FROM _active_trajectories
    QUALIFY row_number() OVER (PARTITION BY trajectory_id ORDER BY end_ns IS NULL, end_ns DESC, start_ns) = 1
), loose AS (
    SELECT {_SHARED}, s.name
    FROM _active_spans s ANTI JOIN _active_trajectories USING (trajectory_id)
    QUALIFY row_number() OVER (PARTITION BY trajectory_id ORDER BY parent_id IS NOT NULL, start_ns) = 1
), every AS (
    SELECT *, {IS_MEANT} AS _is_meant, {IS_NEWEST} AS _is_newest FROM (
        SELECT * EXCLUDE (traceback, parent_op_id) FROM own
        UNION ALL BY NAME
        SELECT * FROM loose
    )
), newest AS ({newest_runs("every")}), calls AS (
    SELECT
        trajectory_id,
        count(*) FILTER (kind = 'llm') AS turns,
        count(*) FILTER (kind = 'tool') AS tool_calls,
        count(*) FILTER (kind = 'tool' AND status = 'error') AS tool_errors,
        arg_max(prompt_tokens, start_ns) FILTER (kind = 'llm') AS prompt_tokens,
        sum(response_tokens) FILTER (kind = 'llm') AS response_tokens,
        min(policy_version) AS policy_version_min,
        max(policy_version) AS policy_version_max
    FROM _active_spans GROUP BY trajectory_id
)
SELECT
    trajectory_id, every.project, every.experiment, every.step, sample_index, rollout_n, every.validate, name, status,
    error, start_ns, end_ns,
    (end_ns - start_ns) / 1e9 AS duration_s,
    coalesce(turns, 0) AS turns,
    coalesce(tool_calls, 0) AS tool_calls,
    coalesce(tool_errors, 0) AS tool_errors,
    prompt_tokens,
    response_tokens::BIGINT AS response_tokens,
    policy_version_min, policy_version_max,
    coalesce(found.flags, []::VARCHAR[]) AS flags,
    tags, worker,
    {", ".join(shown.column for shown in SHOWN)},
    every.step - policy_version_min AS staleness,
    run,
    {SUPERSEDED} AS superseded,
    sample_is_int AS _is_int,
    _is_meant, _is_newest,
    {", ".join(f"_{name}_at" for name in SHOWN_SCORES)}
FROM every
JOIN newest ON {SAME_STEP}
LEFT JOIN calls USING (trajectory_id)
LEFT JOIN ({newest_shown(f"({with_id('_active_scores', 'every')})")}) USING (trajectory_id)
LEFT JOIN (
    SELECT trajectory_id, list_sort(list(DISTINCT flag)) AS flags FROM _active_flags GROUP BY trajectory_id
) found USING (trajectory_id)
"""
"""`prompt_tokens` is the prompt of the last model call, `response_tokens` the sum over all of them."""

_SPANS = """
SELECT *,
    CASE WHEN prompt_tokens IS NOT NULL THEN tokens[:prompt_tokens] END AS prompt_ids,
    CASE WHEN response_tokens IS NOT NULL THEN tokens[coalesce(prompt_tokens, 0) + 1:] END AS response_ids,
    CASE WHEN prompt_tokens IS NOT NULL THEN substring(text, 1, prompt_chars) END AS prompt_text,
    CASE WHEN response_tokens IS NOT NULL THEN substring(text, prompt_chars + 1) END AS response_text,
    json_extract(payload, '$.inputs')::VARCHAR AS inputs,
    json_extract(payload, '$.outputs')::VARCHAR AS outputs
FROM _spans_with_text
"""
"""One column on disk, for the compression; two for people."""

_LATE_TEXTS = """
SELECT s.* REPLACE (
    coalesce(s.text, x.text) AS text,
    coalesce(s.prompt_chars, x.prompt_chars) AS prompt_chars,
    coalesce(s.piece_chars, x.piece_chars) AS piece_chars
)
FROM _spans s LEFT JOIN texts x ON x.trajectory_id = s.trajectory_id AND x.op_id = s.op_id
"""

_TOKENS = """
SELECT trajectory_id, project, experiment, step, op_id, name, start_ns, policy_version, prompt_ids, response_ids,
    logprobs, response_mask
FROM spans WHERE prompt_ids IS NOT NULL OR response_ids IS NOT NULL
"""

ROWS = "_rows"
"""Under which name the engine registers the listing; `_listing` is this with late scores."""
LATE = "_late"
"""Under which name it registers the late scores of the parts, in the form of `newest_shown`, if there are any."""
_LATE_LIVE = "_late_live"

DROPPED = "_dropped"
"""The ids of trajectories that were begun and then not kept. The engine registers them, if there are any."""

_DERIVED = {
    **SCORE_VIEWS,
    "spans": _SPANS,
    "trajectories": f"SELECT {', '.join(TRAJECTORY_COLUMNS)} FROM _listing",
    **GROUP_VIEWS,
    "tokens": _TOKENS,
}
"""Views over other views, each after those that it reads."""

VIEWS = (
    "trajectories", "spans", "transitions", "scores", "notes", "losses", "flags", "texts", "tokens", "latest_scores",
    "unmatched_scores", "groups",
)  # fmt: skip
"""The documented ones."""


class Chosen(NamedTuple):
    """The trajectories `t` that meet some conditions, in two pieces of SQL."""

    before: list[str]
    """What stands in a WITH before the SELECT: name AS (...)."""
    after: str
    """What stands behind its FROM."""


def chosen(conditions: str, predicate: str, views: Sequence[str] = ("latest_scores", "groups")) -> Chosen:
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


NEWEST = "_newest_ns"
"""When the newest trajectory of the same experiment began, of those that were asked for: orders experiments by age."""


def with_newest(found: str) -> str:
    """What stands behind a FROM, with the column `NEWEST`."""
    return f"(SELECT t.*, max(t.start_ns) OVER (PARTITION BY t.project, t.experiment) AS {NEWEST} FROM {found}) t"


def live_name(table: str) -> str:
    """Under which name the live rows of a table are registered."""
    return f"_live_{table}"


def stored_name(table: Table) -> str:
    """Under which name a table is seen as it is stored; those with an underscore have a view for people."""
    return f"_{table.name}" if table in (TRAJECTORIES, SPANS, SCORES) else table.name


def listing_statements(active: list[Path]) -> Iterator[str]:
    """The statements that make `_active_listing`, over the parts of steps that are not settled."""
    for table in LISTED:
        yield f"CREATE TEMP VIEW _active_{table.name} AS {_select(table, active, False)}"
    yield f"CREATE TEMP VIEW _active_listing AS {_LISTING}"


def late_statement(parts: list[Path]) -> str:
    """The question whose answer the engine registers as `LATE`, over those of these parts that hold scores."""
    return newest_shown(without_coordinates(f"({_select(SCORES, parts, False)})"))


def statements(parts: list[Path], *, late: bool, late_live: bool, texts: bool, dropped: bool) -> Iterator[str]:
    """The statements that make all other views, over all parts. What there is none of costs no join.

    Args:
        parts: The parts.
        late: There are rows registered as `LATE`.
        late_live: There are live scores without coordinates.
        texts: There are live rows of `texts`.
        dropped: There are ids registered as `DROPPED`.
    """
    for table in TABLES:
        yield f"CREATE TEMP VIEW {stored_name(table)} AS {_select(table, parts, dropped)}"
    texts = texts or any(table_of(part) == TEXTS.name for part in parts)
    yield f"CREATE TEMP VIEW _spans_with_text AS {_LATE_TEXTS if texts else 'SELECT * FROM _spans'}"
    # The listing may be older than a drop. Each row is made of one trajectory, so it is right to leave it out here.
    listing = f"SELECT * FROM {ROWS}{_WITHOUT_DROPPED if dropped else ''}"
    if late:
        listing = with_late(f"({listing})", LATE)
    if late_live:
        yield f"CREATE TEMP VIEW {_LATE_LIVE} AS {newest_shown(without_coordinates(live_name(SCORES.name)))}"
        listing = with_late(f"({listing})", _LATE_LIVE)
    yield f"CREATE TEMP VIEW _listing AS {listing}"
    for name, select in _DERIVED.items():
        yield f"CREATE TEMP VIEW {name} AS {select}"


_WITHOUT_DROPPED = f" ANTI JOIN {DROPPED} USING (trajectory_id)"


def _select(table: Table, parts: list[Path], dropped: bool) -> str:
    """The rows of a table, live and stored, without those of dropped trajectories."""
    leave_out = _WITHOUT_DROPPED if dropped and table is not LOSSES else ""
    parts = [part for part in parts if table_of(part) == table.name]
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    live = f"SELECT {columns} FROM {live_name(table.name)}"
    if not parts:
        return live + leave_out
    # The live rows have every column, so one that no part has yet is there too, as null.
    files = ", ".join("'" + str(part).replace("'", "''") + "'" for part in parts)
    stored = f"SELECT * FROM read_parquet([{files}], union_by_name=true, hive_partitioning=false)"
    return f"SELECT {columns} FROM ({live} UNION ALL BY NAME {stored}){leave_out}"
