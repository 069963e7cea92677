"""An experiment over its steps, as columns: what a chart needs.

One NaN would make the mean of a step NaN, and leave a hole in its curve: figures here are over the finite rewards, and
how many are not finite is a column of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rolltrace.query.questions import LOST
from rolltrace.query.runs import OlderRuns, choose_runs
from rolltrace.query.scope import Scope

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

TRUNCATED = "cut_by_length"
"""The flag that makes a trajectory a truncated one."""

_FINITE = "FILTER (isfinite(reward))"
_STEPS = f"""
SELECT step, validate, arg_max(run, start_ns) AS run,
    min(start_ns) AS start_ns, max(end_ns) AS end_ns,
    count(*) AS trajectories,
    count(DISTINCT sample_index) AS samples,
    count(*) FILTER (status = 'error') AS errors,
    count(*) FILTER (status = 'running') AS running,
    avg(reward) {_FINITE} AS reward_mean,
    quantile_cont(reward, 0.1) {_FINITE} AS reward_p10,
    quantile_cont(reward, 0.9) {_FINITE} AS reward_p90,
    min(reward) {_FINITE} AS reward_min,
    max(reward) {_FINITE} AS reward_max,
    count(*) FILTER (NOT isfinite(reward)) AS rewards_not_finite,
    count(*) FILTER (reward > 0 AND NOT isnan(reward)) / nullif(count(reward), 0) AS pass_rate,
    quantile_cont(response_tokens, 0.5) AS response_tokens_p50,
    quantile_cont(response_tokens, 0.95) AS response_tokens_p95,
    avg(turns) AS turns_mean,
    avg(tool_calls) AS tool_calls_mean,
    sum(tool_errors) / nullif(sum(tool_calls), 0) AS tool_error_rate,
    avg(list_contains(flags, '{TRUNCATED}')::INT) AS truncated_share,
    quantile_cont(duration_s, 0.5) AS duration_s_p50,
    quantile_cont(duration_s, 0.95) AS duration_s_p95,
    max(duration_s) AS duration_s_max,
    avg(staleness) AS staleness_mean
FROM {{rows}} GROUP BY step, validate ORDER BY step NULLS LAST
"""
_ZERO_VARIANCE = """
SELECT step, validate, avg(zero_variance::INT) FILTER (scored > 1) AS share FROM _groups g
WHERE project = ? AND experiment = ? AND {runs} GROUP BY step, validate
"""
_FLAGS = """
SELECT step, validate, flag, count(*) AS n FROM (SELECT step, validate, unnest(flags) AS flag FROM {rows})
GROUP BY ALL ORDER BY flag
"""
_TERMS = """
SELECT step, validate, term, avg(value) AS mean FROM (
    SELECT step, validate, unnest(json_keys(terms)) AS term,
        TRY_CAST(json_extract_string(terms, '/' || replace(replace(term, '~', '~0'), '/', '~1')) AS DOUBLE) AS value
    FROM (
        SELECT t.step, t.validate, x.terms FROM selected t JOIN latest_scores x USING (trajectory_id)
        WHERE x.name = 'reward' AND x.terms IS NOT NULL
    )
) WHERE value IS NOT NULL GROUP BY ALL ORDER BY term
"""
_LOST = f"""
SELECT step, coalesce(validate, false) AS validate, sum(count)::BIGINT AS n FROM {LOST}
WHERE project = ? AND experiment = ? GROUP BY ALL
"""
Columns = dict[str, Any]
"""Name -> one value per step; `terms` and `flags` are name -> values."""


@dataclass(frozen=True)
class StepSeries:
    """What `step_series` gives."""

    training: Columns
    validation: Columns
    reward_range: tuple[float, float] | None
    """Smallest and largest finite reward of all steps."""
    older_runs: OlderRuns


def step_series(
    store: Store, *, project: str, experiment: str, run: str | None = None, all_runs: bool = False
) -> StepSeries:
    """An experiment over its steps, training and validation apart: counts, rewards and their terms, lengths, flags."""
    scope = Scope(project=project, experiment=experiment, run=run, all_runs=all_runs)
    selected = scope.selected()
    steps = selected.ask(store, _STEPS)
    runs = choose_runs("g", run, all_runs)
    groups = store._ask(_ZERO_VARIANCE.format(runs=runs.sql), [project, experiment, *runs.parameters])
    shares = {_key(row): row["share"] for row in groups}
    flags = _by_name(selected.ask(store, _FLAGS), "flag", "n")
    terms = _by_name(selected.ask(store, _TERMS), "term", "mean")
    lost = {_key(row): row["n"] for row in store._ask(_LOST, [project, experiment])}
    least = [row["reward_min"] for row in steps if row["reward_min"] is not None]
    most = [row["reward_max"] for row in steps if row["reward_max"] is not None]

    def columns(validate: bool) -> Columns:
        rows = [row for row in steps if row["validate"] == validate]
        keys = [_key(row) for row in rows]
        return {
            **{name: [row[name] for row in rows] for name in _COLUMNS},
            "zero_variance_share": [shares.get(key) for key in keys],
            "flags": _columns(flags, keys, 0),
            "terms": _columns(terms, keys, None),
            "lost": [lost.get(key, 0) for key in keys],
        }

    reward_range = (min(least), max(most)) if least else None
    return StepSeries(columns(False), columns(True), reward_range, scope.older_runs(store))


_COLUMNS = (
    "step", "run", "start_ns", "end_ns", "trajectories", "samples", "errors", "running", "reward_mean", "reward_p10",
    "reward_p90", "reward_min", "reward_max", "rewards_not_finite", "pass_rate", "response_tokens_p50",
    "response_tokens_p95", "turns_mean", "tool_calls_mean", "tool_error_rate", "truncated_share", "duration_s_p50",
    "duration_s_p95", "duration_s_max", "staleness_mean",
)  # fmt: skip
"""One value per step each."""


def _key(row: dict[str, Any]) -> tuple[int | None, bool]:
    return row["step"], row["validate"]


def _by_name(rows: list[dict[str, Any]], name: str, value: str) -> dict[str, dict[Any, Any]]:
    by_name: dict[str, dict[Any, Any]] = {}
    for row in rows:
        by_name.setdefault(row[name], {})[_key(row)] = row[value]
    return by_name


def _columns(by_name: dict[str, dict[Any, Any]], keys: list[Any], missing: Any) -> dict[str, list[Any]]:
    """Those that some of the steps have."""
    some = {name: values for name, values in by_name.items() if any(key in values for key in keys)}
    return {name: [values.get(key, missing) for key in keys] for name, values in some.items()}
