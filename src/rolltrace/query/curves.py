"""Numbers over the training steps: all figures of one experiment (`step_series`), or values of any (`curves_of`).

One NaN would make the mean of a step NaN, and leave a hole in its curve: figures here are over the finite numbers.
Training and validation are apart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace.errors import QueryError
from rolltrace.pass_rule import PassMeaning, PassRule
from rolltrace.query.columns import TRAJECTORY_HEADERS
from rolltrace.query.filters import compile_where
from rolltrace.query.listing import LOST
from rolltrace.query.scope import OlderRuns, Row, Scope, pass_meanings, resolve_rule
from rolltrace.query.sql_store import unknown_name
from rolltrace.query.views import GROUP_KEY, IS_ROLLOUT, PASSED, SAME_GROUP, TRUNCATED, ZERO_VARIANCE, judged_select
from rolltrace.tables import sql_literal

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

_FINITE = "FILTER (isfinite(reward))"
_FIGURES = {
    "run": "arg_max(run, start_ns)",
    "start_ns": "min(start_ns)",
    "end_ns": "max(end_ns)",
    "trajectories": "count(*)",
    "samples": "count(DISTINCT sample_index)",
    "errors": "count(*) FILTER (status = 'error')",
    "running": "count(*) FILTER (status = 'running')",
    "reward_mean": f"avg(reward) {_FINITE}",
    "reward_p10": f"quantile_cont(reward, 0.1) {_FINITE}",
    "reward_p90": f"quantile_cont(reward, 0.9) {_FINITE}",
    "reward_min": f"min(reward) {_FINITE}",
    "reward_max": f"max(reward) {_FINITE}",
    "rewards_not_finite": "count(*) FILTER (NOT isfinite(reward))",
    "pass_rate": f"{PASSED} / nullif(count(reward), 0)",
    "response_tokens_p50": "quantile_cont(response_tokens, 0.5)",
    "response_tokens_p95": "quantile_cont(response_tokens, 0.95)",
    "turns_mean": "avg(turns)",
    "tool_calls_mean": "avg(tool_calls)",
    "tool_error_rate": "sum(tool_errors) / nullif(sum(tool_calls), 0)",
    "truncated_share": f"avg(list_contains(flags, '{TRUNCATED}')::INT)",
    "duration_s_p50": "quantile_cont(duration_s, 0.5)",
    "duration_s_p95": "quantile_cont(duration_s, 0.95)",
    "duration_s_max": "max(duration_s)",
    "staleness_mean": "avg(staleness)",
}
"""Of the trajectories of one step."""
_STEPS = f"""
SELECT step, validate, {", ".join(f"{sql} AS {name}" for name, sql in _FIGURES.items())},
    to_json(list_aggregate(flatten(list(flags)), 'histogram'))::VARCHAR AS flags
FROM ({{judged}}) GROUP BY step, validate ORDER BY step NULLS LAST
"""
_ZERO_VARIANCE = f"""
SELECT step, validate, avg(zero_variance::INT) FILTER (scored > 1) AS share FROM (
    SELECT step, validate, count(reward) AS scored, {ZERO_VARIANCE} AS zero_variance
    FROM {{rows}} AND sample_index IS NOT NULL AND {IS_ROLLOUT} GROUP BY {", ".join(GROUP_KEY)}
) GROUP BY step, validate
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
    selected = scope.selected()
    steps = selected.ask(store, _STEPS.format(judged=_judged(store, rule)))
    shares = {_key(row): row["share"] for row in selected.ask(store, _ZERO_VARIANCE)}
    lost = {_key(row): row["n"] for row in store._ask(_LOST, [project, experiment], plain=True)}
    terms: dict[str, dict[Any, float]] = {}
    for row in selected.ask(store, _TERMS):
        terms.setdefault(row["term"], {})[_key(row)] = row["mean"]
    flags: dict[str, dict[Any, int]] = {}
    for row in steps:
        for flag, count in json.loads(row["flags"] or "{}").items():
            flags.setdefault(flag, {})[_key(row)] = count
    finite = [row for row in steps if row["reward_min"] is not None]

    def columns(validate: bool) -> Columns:
        rows = [row for row in steps if row["validate"] == validate]
        keys = [_key(row) for row in rows]
        return {
            **{name: [row[name] for row in rows] for name in ("step", *_FIGURES)},
            "zero_variance_share": [shares.get(key) for key in keys],
            "flags": _by_name(dict(sorted(flags.items())), keys, 0),
            "terms": _by_name(terms, keys, None),
            "lost": [lost.get(key, 0) for key in keys],
        }

    return StepSeries(
        columns(False),
        columns(True),
        (min(row["reward_min"] for row in finite), max(row["reward_max"] for row in finite)) if finite else None,
        next(iter(pass_meanings(store, project=project, experiment=experiment, asked=rule)), None),
        scope.older_runs(store),
    )


def _judged(store: Store, rule: PassRule | None) -> str:
    return judged_select(store._engine.pass_rules, rule, "(SELECT t.* FROM {rows})")


def _key(row: Row) -> tuple[int | None, bool]:
    return row["step"], row["validate"]


def _by_name(values: dict[str, dict[Any, Any]], keys: list[Any], missing: Any) -> dict[str, list[Any]]:
    """Those that some of the steps have."""
    some = {name: of_steps for name, of_steps in values.items() if any(key in of_steps for key in keys)}
    return {name: [of_steps.get(key, missing) for key in keys] for name, of_steps in some.items()}


_COLUMNS = (
    "reward", "advantage", "turns", "tool_calls", "tool_errors", "prompt_tokens", "response_tokens", "duration_s",
    "staleness", "policy_version_min", "policy_version_max",
)  # fmt: skip
"""The columns of trajectories of which a mean says something."""
_KEYED = ("flag.", "term.", "score.")
_HEADERS = {header: name for header, name in TRAJECTORY_HEADERS.items() if name in _COLUMNS}
TERMS = "terms"
"""Stands for all terms of the reward."""
VALUES = ("reward", "pass", "flat", "tokens", "prompt_tokens", "turns", "tools", "took", "errors", "flags")
"""What most people look at; `flag.NAME`, `term.NAME`, `score.NAME` and further columns are understood too."""
_CURVES = """
SELECT project, experiment, {run} validate, step, avg(number) AS mean, stddev_pop(number) AS std, count(*) AS n
FROM (SELECT *, value::DOUBLE AS number FROM ({source})) WHERE step IS NOT NULL AND isfinite(number)
GROUP BY ALL ORDER BY step
"""
_CURVE_KEYS = """
SELECT t.project, t.experiment, t.run, t.validate, count(*) FILTER (t.step IS NULL) AS without_step,
    min(t.step) AS step, min(t.start_ns) AS start_ns, max(t.start_ns) AS newest_ns
FROM {rows} GROUP BY ALL
"""


class Point(NamedTuple):
    """The value in one step."""

    step: int
    mean: float
    std: float
    n: int
    """How many trajectories, or of `flat` groups, have the value."""


class Curve(NamedTuple):
    """One value of one experiment over its steps."""

    value: str
    project: str
    experiment: str
    run: str | None
    """Which run, where all were asked for; else None, because each step has its own newest run."""
    validate: bool
    points: list[Point]


class Curves(NamedTuple):
    """The answer of `curves_of`."""

    curves: list[Curve]
    without_step: int
    """Trajectories that belong to no step, and therefore to no curve."""
    older_runs: OlderRuns
    passing: list[PassMeaning]
    """What `pass` means in these experiments, if it is among the values."""


def curves_of(
    store: Store, values: Sequence[str], *, term: str | None = None, threshold: float | None = None, **conditions: Any
) -> Curves:
    """The mean of each value in each step.

    Args:
        store: The store.
        values: Some of `VALUES`, `flag.NAME`, `term.NAME`, `score.NAME`, other columns with numbers, or `terms`.
            `pass` is the share of rollouts with a reward that passed, `flat` the share of groups in which all rewards
            are the same, `errors` and `flags` the share of trajectories with any.
        term, threshold: What pass means, as in `Store.groups`.
        **conditions: Those of `Store.trajectories`.

    Raises:
        QueryError: there is no such value.
        FilterError: the filter cannot be understood.
    """
    for value in values:
        _check(store, value)
    scope = Scope(**conditions)
    store._teller.tell_unknown(store.unknown_names(compile_where(scope.where)))
    place = {"project": scope.project, "experiment": scope.experiment}
    rule = resolve_rule(store, term, threshold, **place)
    run = "run," if scope.all_runs else ""
    places = scope.selected().ask(store, _CURVE_KEYS)
    keys = _order_curves(places, scope.all_runs)
    curves: list[Curve] = []
    for value in _expand(store, scope, values):
        points: dict[tuple[Any, ...], list[Point]] = {}
        of_groups = replace(scope, rollout_n=None) if value == "flat" else scope
        sql = _CURVES.replace("{run}", run).replace("{source}", _source(store, rule, value))
        for row in of_groups.selected().ask(store, sql):
            points.setdefault(_curve_key(row), []).append(Point(row["step"], row["mean"], row["std"], row["n"]))
        curves += [Curve(value, *key, points[key]) for key in keys if key in points]
    drawn = {(curve.project, curve.experiment) for curve in curves}
    passing = pass_meanings(store, **place, asked=rule) if "pass" in values else []
    meant = [meaning for meaning in passing if (meaning.project, meaning.experiment) in drawn]
    return Curves(curves, sum(place["without_step"] for place in places), scope.older_runs(store), meant)


def _order_curves(places: list[Row], all_runs: bool) -> list[tuple[str, str, str | None, bool]]:
    """What there may be curves of, in the order of listings: the newest experiment last."""
    newest: dict[tuple[str, str], int] = {}
    for row in places:
        experiment = row["project"], row["experiment"]
        newest[experiment] = max(newest.get(experiment, 0), row["newest_ns"])
    places = sorted(
        places,
        key=lambda row: (
            newest[row["project"], row["experiment"]], row["project"], row["experiment"],
            row["step"] is None, row["step"] or 0, row["validate"], row["start_ns"],
        ),
    )  # fmt: skip
    return list(dict.fromkeys(_curve_key(row if all_runs else {**row, "run": None}) for row in places))


def _curve_key(row: Row) -> tuple[str, str, str | None, bool]:
    return row["project"], row["experiment"], row.get("run"), row["validate"]


def _check(store: Store, value: str) -> None:
    if value in (*VALUES, *_COLUMNS, *_HEADERS, TERMS):
        return
    if value.startswith(_KEYED) and not value.endswith("."):
        if problem := unknown_name(store._ask, value):
            raise QueryError(f"cannot plot {value}: {problem}")
        return
    raise QueryError(
        f"there is no value {value!r} to plot; there are: {', '.join(VALUES)}, {TERMS}, term.NAME, score.NAME, "
        f"flag.NAME, {', '.join(name for name in _COLUMNS if name not in (*VALUES, *_HEADERS.values()))}"
    )


def _expand(store: Store, scope: Scope, values: Sequence[str]) -> list[str]:
    """The values, `terms` replaced by each term that occurs."""
    names: list[str] = []
    for value in values:
        if value == TERMS:
            rows = scope.selected().ask(store, "SELECT DISTINCT unnest(map_keys(t.terms)) AS term FROM {rows}")
            names += sorted(f"term.{row['term']}" for row in rows)
        else:
            names.append(value)
    return list(dict.fromkeys(names))


def _source(store: Store, rule: PassRule | None, value: str) -> str:
    """SQL: the trajectories of a scope, or of `flat` their groups, each with its `value`."""
    kind, _, rest = value.partition(".")
    name = sql_literal(rest)
    if value == "pass":
        return f"SELECT *, _passed AS value FROM ({_judged(store, rule)})"
    if value == "flat":
        of_scope = f"SEMI JOIN (SELECT t.* FROM {{rows}}) t ON {SAME_GROUP}"
        return f"SELECT g.*, g.zero_variance AS value FROM _groups g {of_scope} WHERE g.scored > 1"
    if kind == "score":
        newest = f"(SELECT trajectory_id, value FROM latest_scores WHERE name = {name})"
        return f"SELECT t.*, x.value FROM (SELECT t.* FROM {{rows}}) t JOIN {newest} x USING (trajectory_id)"
    column = {
        "term": f"t.terms[{name}]",
        "flag": f"list_contains(t.flags, {name})",
        "flags": "len(t.flags) > 0",
        "errors": "t.status = 'error'",
    }.get(kind, f"t.{_HEADERS.get(value, value)}")
    return f"SELECT t.*, {column} AS value FROM {{rows}}"
