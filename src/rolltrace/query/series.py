"""An experiment over its steps, as columns: what a chart needs.

One NaN would make the mean of a step NaN, and leave a hole in its curve: figures here are over the finite rewards, and
how many are not finite is a column of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rolltrace.pass_rule import PassMeaning, PassRule
from rolltrace.query.group_views import PASSED
from rolltrace.query.passes import pass_meanings, resolve_rule, with_rule
from rolltrace.query.questions import LOST
from rolltrace.query.runs import OlderRuns, choose_runs
from rolltrace.query.scope import Scope
from rolltrace.query.step_rows import TRUNCATED

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

_STEPS = """
SELECT step, validate, run, start_ns, end_ns, trajectories, samples, errors, running,
    finite_mean AS reward_mean,
    finite_p10 AS reward_p10,
    finite_p90 AS reward_p90,
    finite_min AS reward_min,
    finite_max AS reward_max,
    not_finite AS rewards_not_finite,
    passed / nullif(scored, 0) AS pass_rate,
    response_tokens_p50, response_tokens_p95,
    turns / trajectories AS turns_mean,
    tool_calls / trajectories AS tool_calls_mean,
    tool_errors / nullif(tool_calls, 0) AS tool_error_rate,
    truncated / trajectories AS truncated_share,
    duration_s_p50, duration_s_p95, duration_s_max, staleness_mean,
    flat_groups / nullif(rated_groups, 0) AS zero_variance_share,
    flags
FROM _judged_steps t WHERE project = ? AND experiment = ? AND {runs} ORDER BY step NULLS LAST
"""
_FINITE = "FILTER (isfinite(reward))"
_STEPS_OF_SEVERAL_RUNS = f"""
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
_PASS_RATES = f"""
SELECT step, validate, {PASSED} / nullif(count(reward), 0) AS share FROM _judged g
WHERE project = ? AND experiment = ? AND {{runs}} GROUP BY step, validate
"""
_FLAGS = """
SELECT step, validate, flag, count(*) AS n FROM (SELECT step, validate, unnest(flags) AS flag FROM {rows})
GROUP BY ALL ORDER BY flag
"""
_TERMS = """
SELECT step, validate, term, avg(value) AS mean FROM (
    SELECT step, validate, unnest(map_keys(terms)) AS term, unnest(map_values(terms)) AS value FROM {rows}
) WHERE isfinite(value) GROUP BY ALL ORDER BY term
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
    passing: PassMeaning | None
    """What `pass_rate` is the rate of; None if there are no trajectories."""
    older_runs: OlderRuns


def step_series(
    store: Store,
    *,
    project: str,
    experiment: str,
    run: str | None = None,
    all_runs: bool = False,
    term: str | None = None,
    threshold: float | None = None,
) -> StepSeries:
    """An experiment over its steps, training and validation apart: counts, rewards and their terms, lengths, flags.

    `term` and `threshold` say what `pass_rate` means, instead of what is stored with the experiment.
    """
    scope = Scope(project=project, experiment=experiment, run=run, all_runs=all_runs)
    rule = resolve_rule(store, term, threshold, project=project, experiment=experiment)
    steps = _steps(store, scope, rule)
    passing = next(iter(pass_meanings(store, project=project, experiment=experiment, asked=rule)), None)
    terms = _by_name(scope.selected().ask(store, _TERMS), "term", "mean")
    flags: dict[str, dict[Any, int]] = {}
    for row in steps:
        for flag, count in row["flags"].items():
            flags.setdefault(flag, {})[_key(row)] = count
    lost = {_key(row): row["n"] for row in store._ask(_LOST, [project, experiment], plain=True)}
    least = [row["reward_min"] for row in steps if row["reward_min"] is not None]
    most = [row["reward_max"] for row in steps if row["reward_max"] is not None]

    def columns(validate: bool) -> Columns:
        rows = [row for row in steps if row["validate"] == validate]
        keys = [_key(row) for row in rows]
        return {
            **{name: [row[name] for row in rows] for name in _COLUMNS},
            "flags": _columns({name: flags[name] for name in sorted(flags)}, keys, 0),
            "terms": _columns(terms, keys, None),
            "lost": [lost.get(key, 0) for key in keys],
        }

    reward_range = (min(least), max(most)) if least else None
    return StepSeries(columns(False), columns(True), reward_range, passing, scope.older_runs(store))


def _steps(store: Store, scope: Scope, rule: PassRule | None) -> list[dict[str, Any]]:
    """A row for each step, training and validation apart: those of `_steps`, if each is of one run alone."""
    runs = choose_runs("t", scope.run, scope.all_runs)
    place = [scope.project, scope.experiment]
    once = f"WITH {', '.join(with_rule(rule))} " if rule is not None else ""
    rows = store._ask(once + _STEPS.format(runs=runs.sql), [*place, *runs.parameters], plain=True).rows()
    if len({_key(row) for row in rows}) == len(rows):
        return [{**row, "flags": json.loads(row["flags"] or "{}")} for row in rows]
    selected = scope.selected()
    runs = choose_runs("g", scope.run, scope.all_runs)
    groups = store._ask(_ZERO_VARIANCE.format(runs=runs.sql), [*place, *runs.parameters])
    shares = {_key(row): row["share"] for row in groups}
    passed = store._ask(once + _PASS_RATES.format(runs=runs.sql), [*place, *runs.parameters])
    pass_rates = {_key(row): row["share"] for row in passed}
    flags: dict[Any, dict[str, int]] = {}
    for row in selected.ask(store, _FLAGS):
        flags.setdefault(_key(row), {})[row["flag"]] = row["n"]
    return [
        {
            **row,
            "pass_rate": pass_rates.get(_key(row)),
            "zero_variance_share": shares.get(_key(row)),
            "flags": flags.get(_key(row), {}),
        }
        for row in selected.ask(store, _STEPS_OF_SEVERAL_RUNS)
    ]


_COLUMNS = (
    "step", "run", "start_ns", "end_ns", "trajectories", "samples", "errors", "running", "reward_mean", "reward_p10",
    "reward_p90", "reward_min", "reward_max", "rewards_not_finite", "pass_rate", "response_tokens_p50",
    "response_tokens_p95", "turns_mean", "tool_calls_mean", "tool_error_rate", "truncated_share", "duration_s_p50",
    "duration_s_p95", "duration_s_max", "staleness_mean", "zero_variance_share",
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
