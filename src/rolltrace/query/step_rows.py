"""The view `_steps`: what all trajectories of one step and run have in common, as numbers that can be added up.

Means and quantiles among them cannot: they are of the row alone, for a chart whose points are rows.

Questions about experiments, runs and steps are answered from it. A row is of one step, of training or validation, of
one run, and of trajectories that a newer run has superseded or of others. Summaries hold these rows for settled steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rolltrace.pass_rule import NOT_CHOSEN
from rolltrace.query.group_views import GROUP_KEY, ZERO_VARIANCE
from rolltrace.query.runs import STEP_KEY

STEP_ROW_KEY = (*STEP_KEY, "run", "superseded")
TRUNCATED = "cut_by_length"
"""The flag that makes a trajectory a truncated one."""
_FINITE = "FILTER (isfinite(reward))"


class _Column(NamedTuple):
    name: str
    type: str
    sql: str


_COLUMNS = (
    _Column("project", "VARCHAR", "t.project"),
    _Column("experiment", "VARCHAR", "t.experiment"),
    _Column("step", "BIGINT", "t.step"),
    _Column("validate", "BOOLEAN", "t.validate"),
    _Column("run", "VARCHAR", "t.run"),
    _Column("superseded", "BOOLEAN", "t.superseded"),
    _Column("trajectories", "BIGINT", "count(*)"),
    _Column("samples", "BIGINT", "count(DISTINCT sample_index)"),
    _Column("errors", "BIGINT", "count(*) FILTER (status = 'error')"),
    _Column("running", "BIGINT", "count(*) FILTER (status = 'running')"),
    _Column("scored", "BIGINT", "count(reward)"),
    _Column("reward_sum", "DOUBLE", "sum(reward)"),
    _Column("reward_min", "DOUBLE", "min(reward)"),
    _Column("reward_max", "DOUBLE", "max(reward)"),
    _Column("passed", "BIGINT", f"count(*) FILTER {NOT_CHOSEN.sql('reward')}"),
    _Column("rated_groups", "BIGINT", "any_value(g.rated)"),
    _Column("flat_groups", "BIGINT", "any_value(g.flat)"),
    _Column("turns", "BIGINT", "sum(turns)"),
    _Column("start_ns", "BIGINT", "min(start_ns)"),
    _Column("newest_ns", "BIGINT", "max(start_ns)"),
    _Column("end_ns", "BIGINT", "max(end_ns)"),
    _Column("last_ns", "BIGINT", "max(coalesce(end_ns, start_ns))"),
    _Column("interrupted", "BIGINT", "count(*) FILTER (status = 'interrupted')"),
    _Column("finite_mean", "DOUBLE", f"avg(reward) {_FINITE}"),
    _Column("finite_p10", "DOUBLE", f"quantile_cont(reward, 0.1) {_FINITE}"),
    _Column("finite_p90", "DOUBLE", f"quantile_cont(reward, 0.9) {_FINITE}"),
    _Column("finite_min", "DOUBLE", f"min(reward) {_FINITE}"),
    _Column("finite_max", "DOUBLE", f"max(reward) {_FINITE}"),
    _Column("not_finite", "BIGINT", "count(*) FILTER (NOT isfinite(reward))"),
    _Column("response_tokens_p50", "DOUBLE", "quantile_cont(response_tokens, 0.5)"),
    _Column("response_tokens_p95", "DOUBLE", "quantile_cont(response_tokens, 0.95)"),
    _Column("tool_calls", "BIGINT", "sum(tool_calls)"),
    _Column("tool_errors", "BIGINT", "sum(tool_errors)"),
    _Column("truncated", "BIGINT", f"count(*) FILTER (list_contains(flags, '{TRUNCATED}'))"),
    _Column("duration_s_p50", "DOUBLE", "quantile_cont(duration_s, 0.5)"),
    _Column("duration_s_p95", "DOUBLE", "quantile_cont(duration_s, 0.95)"),
    _Column("duration_s_max", "DOUBLE", "max(duration_s)"),
    _Column("staleness_mean", "DOUBLE", "avg(staleness)"),
    _Column("flags", "VARCHAR", "to_json(list_aggregate(flatten(list(flags)), 'histogram'))"),
)
_SAME = " AND ".join(f"g.{name} IS NOT DISTINCT FROM t.{name}" for name in STEP_ROW_KEY)


def step_rows(listing: str) -> str:
    """SQL of the rows of `_steps` for the trajectories of a listing."""
    columns = ", ".join(f"({column.sql})::{column.type} AS {column.name}" for column in _COLUMNS)
    key = ", ".join(STEP_ROW_KEY)
    return f"""
SELECT {columns}
FROM {listing} t LEFT JOIN (
    SELECT {key}, count(*) FILTER (scored > 1) AS rated, count(*) FILTER (scored > 1 AND zero_variance) AS flat
    FROM (
        SELECT {", ".join(GROUP_KEY)}, superseded, count(reward) AS scored, {ZERO_VARIANCE} AS zero_variance
        FROM {listing} WHERE sample_index IS NOT NULL GROUP BY {", ".join(GROUP_KEY)}, superseded
    ) GROUP BY {key}
) g ON {_SAME}
GROUP BY {", ".join(f"t.{name}" for name in STEP_ROW_KEY)}
"""


NAMES = tuple(column.name for column in _COLUMNS)


class Statement(NamedTuple):
    """SQL and the values of its `?`."""

    sql: str
    parameters: list[Any]


def is_sound(rows: Iterable[Sequence[Any]]) -> bool:
    """Whether values that a file holds are such rows."""
    return all(len(row) == len(_COLUMNS) and all(map(_fits, row, _COLUMNS)) for row in rows)


def _fits(value: Any, column: _Column) -> bool:
    if value is None or column.type == "VARCHAR":
        return value is None or isinstance(value, str)
    if column.type == "BIGINT":
        return type(value) is int and -(2**63) <= value < 2**63
    return type(value) is bool if column.type == "BOOLEAN" else type(value) in (int, float)


def given_rows(rows: Iterable[Sequence[Any]]) -> Statement:
    """The SELECT that gives these rows of `_steps`, as summaries have them: the columns in their order."""
    values = list(map(list, zip(*rows))) or [[] for _ in _COLUMNS]
    items = []
    for at, column in enumerate(_COLUMNS):
        if any(value != value for value in values[at]):  # DuckDB 1 takes NaN in a list for NULL
            values[at] = [None if value is None else repr(value) for value in values[at]]
            items.append(f"unnest(?::VARCHAR[])::{column.type} AS {column.name}")
        else:
            items.append(f"unnest(?::{column.type}[]) AS {column.name}")
    return Statement(f"SELECT {', '.join(items)}", values)
