"""The view `_steps`: what all trajectories of one step and run have in common.

A row is of one step, of training or validation, of one run, and of trajectories that a newer run has superseded or of
others. DuckDB computes only the columns that a question reads.
"""

from __future__ import annotations

from rolltrace.query.runs import STEP_KEY

TRUNCATED = "cut_by_length"
"""The flag that makes a trajectory a truncated one."""
_COLUMNS = {
    "trajectories": "count(*)",
    "running": "count(*) FILTER (status = 'running')",
    "interrupted": "count(*) FILTER (status = 'interrupted')",
    "start_ns": "min(start_ns)",
    "newest_ns": "max(start_ns)",
    "last_ns": "max(coalesce(end_ns, start_ns))",
    "finite_mean": "avg(reward) FILTER (isfinite(reward))",
    "finite_min": "min(reward) FILTER (isfinite(reward))",
    "finite_max": "max(reward) FILTER (isfinite(reward))",
    "flags": "to_json(list_aggregate(flatten(list(flags)), 'histogram'))::VARCHAR",
}
_KEY = ", ".join((*STEP_KEY, "run", "superseded"))
STEP_VIEWS = {
    "_steps": f"SELECT {_KEY}, {', '.join(f'{sql} AS {name}' for name, sql in _COLUMNS.items())} "
    f"FROM _listing GROUP BY {_KEY}"
}
