"""The views `_steps` and `_step_groups`: what all trajectories of one step and run have in common.

A row is of one step, of training or validation, of one run, and of trajectories that a newer run has superseded or of
others. Sums can be added up; means and quantiles are of the row alone, for a chart whose points are rows. DuckDB
computes only the columns that a question reads.
"""

from __future__ import annotations

from rolltrace.pass_rule import NOT_CHOSEN
from rolltrace.query.group_views import GROUP_KEY, ZERO_VARIANCE
from rolltrace.query.runs import STEP_KEY

STEP_ROW_KEY = (*STEP_KEY, "run", "superseded")
TRUNCATED = "cut_by_length"
"""The flag that makes a trajectory a truncated one."""
_FINITE = "FILTER (isfinite(reward))"

_COLUMNS = {
    "trajectories": "count(*)",
    "samples": "count(DISTINCT sample_index)",
    "errors": "count(*) FILTER (status = 'error')",
    "running": "count(*) FILTER (status = 'running')",
    "interrupted": "count(*) FILTER (status = 'interrupted')",
    "scored": "count(reward)",
    "reward_sum": "sum(reward)",
    "reward_min": "min(reward)",
    "reward_max": "max(reward)",
    "passed": f"count(*) FILTER {NOT_CHOSEN.sql('reward')}",
    "turns": "sum(turns)::BIGINT",
    "start_ns": "min(start_ns)",
    "newest_ns": "max(start_ns)",
    "end_ns": "max(end_ns)",
    "last_ns": "max(coalesce(end_ns, start_ns))",
    "finite_mean": f"avg(reward) {_FINITE}",
    "finite_p10": f"quantile_cont(reward, 0.1) {_FINITE}",
    "finite_p90": f"quantile_cont(reward, 0.9) {_FINITE}",
    "finite_min": f"min(reward) {_FINITE}",
    "finite_max": f"max(reward) {_FINITE}",
    "not_finite": "count(*) FILTER (NOT isfinite(reward))",
    "response_tokens_p50": "quantile_cont(response_tokens, 0.5)",
    "response_tokens_p95": "quantile_cont(response_tokens, 0.95)",
    "tool_calls": "sum(tool_calls)::BIGINT",
    "tool_errors": "sum(tool_errors)::BIGINT",
    "truncated": f"count(*) FILTER (list_contains(flags, '{TRUNCATED}'))",
    "duration_s_p50": "quantile_cont(duration_s, 0.5)",
    "duration_s_p95": "quantile_cont(duration_s, 0.95)",
    "duration_s_max": "max(duration_s)",
    "staleness_mean": "avg(staleness)",
    "flags": "to_json(list_aggregate(flatten(list(flags)), 'histogram'))::VARCHAR",
}
_KEY = ", ".join(STEP_ROW_KEY)
_STEPS = (
    f"SELECT {_KEY}, {', '.join(f'{sql} AS {name}' for name, sql in _COLUMNS.items())} FROM _listing GROUP BY {_KEY}"
)
_STEP_GROUPS = f"""
SELECT {_KEY}, count(*) FILTER (scored > 1) AS rated_groups,
    count(*) FILTER (scored > 1 AND zero_variance) AS flat_groups
FROM (
    SELECT {", ".join(GROUP_KEY)}, superseded, count(reward) AS scored, {ZERO_VARIANCE} AS zero_variance
    FROM _listing WHERE sample_index IS NOT NULL GROUP BY {", ".join(GROUP_KEY)}, superseded
) GROUP BY {_KEY}
"""

STEP_VIEWS = {"_steps": _STEPS, "_step_groups": _STEP_GROUPS}
