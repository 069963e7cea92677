"""The SQL of listings. Trajectories are counted by step first, then read from the steps that a page lies in.

So a page of a large store opens few files, and the count says too how much is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from rolltrace.query.columns import GROUP_HEADERS, TRAJECTORY_COLUMNS, TRAJECTORY_HEADERS
from rolltrace.query.filters import compile_where
from rolltrace.query.result import IS_INT, Result
from rolltrace.query.scope import OlderRuns, Scope, choose_runs, conditions_of, order_of, whole
from rolltrace.query.values import Row
from rolltrace.query.views import GROUP_COLUMNS, GROUP_KEY, SAME_GROUP, ZERO_VARIANCE

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store
    from rolltrace.query.scope import Scope


EXPERIMENTS = """
SELECT project, experiment,
    coalesce(sum(trajectories) FILTER (NOT superseded), 0)::BIGINT AS trajectories,
    count(DISTINCT step) AS steps,
    max(step) AS last_step,
    sum(running)::BIGINT AS running,
    min(start_ns) AS start_ns,
    max(last_ns) AS end_ns,
    count(DISTINCT coalesce(run, '')) AS runs,
    coalesce(sum(trajectories) FILTER (superseded), 0)::BIGINT AS superseded
FROM _steps GROUP BY project, experiment ORDER BY start_ns, project, experiment
"""

RUNS = """
SELECT project, experiment, run,
    sum(trajectories)::BIGINT AS trajectories,
    count(DISTINCT step) AS steps,
    min(step) AS first_step,
    max(step) AS last_step,
    sum(running)::BIGINT AS running,
    coalesce(sum(trajectories) FILTER (superseded), 0)::BIGINT AS superseded,
    min(start_ns) AS start_ns,
    max(last_ns) AS end_ns
FROM _steps t WHERE {where} GROUP BY project, experiment, run ORDER BY project, experiment, start_ns
"""

STEPS = f"""
SELECT t.project, t.experiment, t.step, t.validate,
    sum(t.trajectories)::BIGINT AS trajectories,
    count(t.sample_index) AS samples,
    sum(t.errors)::BIGINT AS errors,
    sum(t.running)::BIGINT AS running,
    sum(t.reward_sum) / nullif(sum(t.scored), 0) AS reward_mean,
    min(t.reward_min) AS reward_min,
    max(t.reward_max) AS reward_max,
    sum(t.scored)::BIGINT AS scored,
    CASE WHEN sum(t.scored) = 0 OR sum(t.judged) > 0 THEN sum(t.passed)::BIGINT END AS passed,
    CASE WHEN sum(t.judged) > 0 THEN sum(t.passed) / sum(t.scored) END AS pass_rate,
    count(*) FILTER (t.zero_variance) / nullif(count(*) FILTER (t.scored > 1 AND t.sample_index IS NOT NULL), 0)
        AS zero_variance_share,
    sum(t.turns) / sum(t.trajectories) AS turns_mean,
    min(t.start_ns) AS start_ns,
    max(t.end_ns) AS end_ns,
    t.run,
    {{pass_rule}} AS pass_rule
FROM (
    SELECT {", ".join(GROUP_KEY)}, superseded, count(*) AS trajectories,
        count(*) FILTER (status = 'error') AS errors, count(*) FILTER (status = 'running') AS running,
        count(reward) AS scored, sum(reward) AS reward_sum, min(reward) AS reward_min, max(reward) AS reward_max,
        count(*) FILTER (_passed) AS passed, count(_passed) AS judged, sum(turns) AS turns,
        min(t.start_ns) AS start_ns, max(t.start_ns) AS newest_ns, max(t.end_ns) AS end_ns,
        sample_index IS NOT NULL AND {ZERO_VARIANCE} AS zero_variance
    FROM _judged t WHERE {{where}} GROUP BY {", ".join(GROUP_KEY)}, superseded
) t
GROUP BY t.project, t.experiment, t.step, t.validate, t.run
ORDER BY max(max(t.newest_ns)) OVER (PARTITION BY t.project, t.experiment), t.project, t.experiment,
    t.step NULLS LAST, t.validate, min(t.start_ns)
"""
"""By groups first, which tell how many samples there are and which of them teach nothing."""

HISTORY = f"""
SELECT {", ".join((*GROUP_COLUMNS, IS_INT))} FROM _groups t WHERE {{where}}
ORDER BY project, experiment, step NULLS LAST, validate
"""

LIVE = """
SELECT t.trajectory_id, t.project, t.experiment, t.step, t.sample_index, t.rollout_n, t.validate, t.name,
    greatest(? - t.start_ns, 0) / 1e9 AS age_s,
    o.current_op,
    CASE WHEN o.op_start_ns IS NOT NULL THEN greatest(? - o.op_start_ns, 0) / 1e9 END AS op_age_s,
    t.turns, t.tool_calls, t.worker, t._is_int
FROM _listing t LEFT JOIN (
    SELECT trajectory_id, arg_max(name, start_ns) AS current_op, max(start_ns) AS op_start_ns
    FROM ops WHERE status = 'running' GROUP BY trajectory_id
) o USING (trajectory_id)
WHERE t.status = 'running' ORDER BY t.start_ns
"""

LOSSES = """
SELECT project, experiment, step, worker, reason, sum(count)::BIGINT AS count
FROM losses GROUP BY ALL ORDER BY project, experiment, step NULLS LAST, reason, worker
"""

UNMATCHED_SCORES = """
SELECT trajectory_id, project, experiment, step, sample_index, rollout_n, validate, name, value, label, reason, terms,
    time_ns, worker, run, sample_number IS NOT NULL AS _is_int
FROM unmatched_scores ORDER BY time_ns, worker
"""

BY_CHOICE = frozenset({"sample_limit", "pruned_payload", "pruned_whole", "retention"})
"""Reasons that somebody chose: a limit of samples, `rolltrace store prune`, a retention policy."""

LOST = f"(SELECT * FROM losses WHERE reason NOT IN ({', '.join(repr(each) for each in sorted(BY_CHOICE))}))"
"""The rows of `losses` that nobody asked for, to be selected from."""

_USUAL_ORDER = "project,experiment,step,validate,sample_index,rollout_n,start_ns"
"""Within experiments, the newest of which comes last."""
_LAST_ORDER = ("start_ns", "trajectory_id")
_MAX_SHORT_ROWS = 1_000
_COUNTS = """
SELECT t.project, t.experiment, t.step, t.validate, t.run, t.superseded AND {hides} AS is_hidden, count(*) AS n,
    max(CASE WHEN NOT (t.superseded AND {hides}) THEN max(t.start_ns) END) OVER (PARTITION BY t.project, t.experiment)
        AS newest_ns
FROM {rows} GROUP BY t.project, t.experiment, t.step, t.validate, t.run, t.superseded
ORDER BY newest_ns, t.project, t.experiment, t.step NULLS LAST, t.validate
"""
"""How many rows each step has, in the usual order, and how many of older runs are left out."""
_COLUMNS = ", ".join(f"t.{name}" for name in (*TRAJECTORY_COLUMNS, IS_INT))


def list_trajectories(
    store: Store,
    scope: Scope,
    *,
    order: str | None = None,
    limit: int | None = None,
    offset: int = 0,
    last: int | None = None,
    also: str = "true",
) -> Result:
    """The trajectories of a scope that meet the condition `also` too; the other arguments are those of
    `Store.trajectories`."""
    ordered = order_of(order or _USUAL_ORDER, "trajectories", TRAJECTORY_COLUMNS, _LAST_ORDER, TRAJECTORY_HEADERS)
    limit, last = (None if each is None else whole(name, each) for name, each in (("limit", limit), ("last", last)))
    offset = whole("offset", offset or 0)
    steps, older_runs = _count_by_step(store, scope, also)
    total = sum(step["n"] for step in steps)
    if order is not None and last is None:
        answer = _sort(store, scope, also, ordered, "" if limit is None else f"LIMIT {limit}", offset, limit)
    else:
        if last is not None:
            end = max(0, total - offset)
            begin = max(0, end - last)
        else:
            begin = min(offset, total)
            end = total if limit is None else min(total, begin + limit)
        answer = _cut(store, scope, also, steps, None if order is None else ordered, limit, begin, end)
    answer.older_runs = older_runs
    answer._count = lambda: total
    answer._has_tags = True
    return answer


def _count_by_step(store: Store, scope: Scope, also: str) -> tuple[list[Row], OlderRuns]:
    """The steps that have rows, in the usual order, and what is left out."""
    hides = scope.hides_older_runs
    every = replace(scope, all_runs=True) if hides else scope
    rows = every.selected(also).ask(store, _COUNTS.replace("{hides}", str(hides).lower()))
    hidden = [row for row in rows if row["is_hidden"]]
    steps: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        if not row["is_hidden"]:
            key = row["project"], row["experiment"], row["step"], row["validate"]
            steps.setdefault(key, {**row, "n": 0})["n"] += row["n"]
    return list(steps.values()), OlderRuns(sum(row["n"] for row in hidden), len({row["run"] or "" for row in hidden}))


def _cut(
    store: Store,
    scope: Scope,
    also: str,
    steps: list[Row],
    ordered: str | None,
    limit: int | None,
    begin: int,
    end: int,
) -> Result:
    """The rows from `begin` to `end` in the usual order, or these sorted again in another one."""
    chosen, first, passed = list[Row](), 0, 0
    for step in steps:
        if passed < end and passed + step["n"] > begin:
            first = first if chosen else passed
            chosen.append(step)
        passed += step["n"]
    ages = {(step["project"], step["experiment"]): step["newest_ns"] for step in chosen}
    values = ", ".join(["(?, ?, ?)"] * len(ages)) or "(NULL, NULL, NULL)"
    usual = order_of(_USUAL_ORDER, "trajectories", TRAJECTORY_COLUMNS, _LAST_ORDER)
    sql = (
        f"SELECT t.* FROM (SELECT {_COLUMNS} FROM {{rows}}) t "
        f"JOIN (VALUES {values}) ages(project, experiment, newest_ns) USING (project, experiment) "
        f"ORDER BY newest_ns, {usual} LIMIT {end - begin} OFFSET {begin - first}"
    )
    if ordered is not None or limit is not None:
        resorted = "" if ordered is None else f" ORDER BY {ordered}"
        sql = f"SELECT t.* FROM ({sql}) t{resorted}{'' if limit is None else f' LIMIT {limit}'}"
    question = scope.selected(also).complete(sql, *(each for place, age in ages.items() for each in (*place, age)))
    return store._ask(*question, store.scope_of(chosen), plain=end - begin <= _MAX_SHORT_ROWS)


def _sort(store: Store, scope: Scope, also: str, ordered: str, paging: str, offset: int, limit: int | None) -> Result:
    """Rows in an order of one's own. A few of many are found by the columns that sort them, and then read whole."""
    selected = scope.selected(also)
    page = f"{paging} OFFSET {offset}"
    if limit is None or limit > _MAX_SHORT_ROWS:
        question = selected.complete(f"SELECT {_COLUMNS} FROM {{rows}} ORDER BY {ordered} {page}")
        return store._ask(*question, selected.step)
    keys = selected.ask(
        store, f"SELECT t.trajectory_id, t.project, t.experiment, t.step FROM {{rows}} ORDER BY {ordered} {page}"
    )
    return store._ask(
        f"SELECT {_COLUMNS} FROM _listing t WHERE trajectory_id IN (SELECT unnest(?::VARCHAR[])) ORDER BY {ordered}",
        [[key["trajectory_id"] for key in keys]],
        store.scope_of(keys),
        plain=True,
    )


Listing = Literal["experiments", "steps", "groups", "trajectories"]
_SUMS = "count(*) AS trajectories, avg(t.reward) FILTER (isfinite(t.reward)) AS reward_mean"
_FIGURES = {
    "experiments": f"t.project, t.experiment, count(DISTINCT t.step) AS steps, {_SUMS}",
    "steps": f"t.project, t.experiment, t.step, t.validate, {_SUMS}",
}
"""These are no views of their own: their main figures, from their trajectories."""


def listing_sql(listing: Listing, scope: Scope, order: str | None = None) -> str:
    """The statement that gives the rows of a listing, its values and its filter written out.

    With a filter, groups are those that hold such a trajectory, as in `group_page`.

    Example:
        >>> print(listing_sql("trajectories", Scope(step=3, where="reward < 0.5 and flag = 'truncated'"), "-reward"))
        SELECT t.*
        FROM trajectories t
        WHERE t.step = 3
          AND NOT t.superseded
          AND (t.reward < 0.5 AND len([one_flag FOR one_flag IN t.flags IF one_flag = 'truncated']) > 0)
        ORDER BY t."reward" DESC NULLS LAST

    Raises:
        FilterError: the filter cannot be understood.
        QueryError: there is no such column to sort by.
    """
    if listing in _FIGURES:
        place, values = conditions_of(project=scope.project, experiment=scope.experiment)
        tests = [_filled(place, values), "NOT t.superseded"]
        return _statement(f"SELECT {_FIGURES[listing]}\nFROM trajectories t", tests, "ALL", group="\nGROUP BY ALL")
    conditions, values = scope.conditions()
    predicate = compile_where(scope.where)
    runs = choose_runs("t", scope.run, scope.all_runs, predicate.fields)
    tests = [
        _filled(conditions, values),
        _filled(runs.sql, runs.parameters),
        _filled(predicate.sql, predicate.parameters),
    ]
    if listing == "trajectories":
        ordered = order and order_of(order, listing, TRAJECTORY_COLUMNS, (), TRAJECTORY_HEADERS)
        return _statement("SELECT t.*\nFROM trajectories t", tests, ordered)
    ordered = order and order_of(order, listing, GROUP_COLUMNS, (), GROUP_HEADERS)
    matching = f"SELECT 1 FROM trajectories t WHERE {SAME_GROUP} AND {' AND '.join(_needed(tests))}"
    return _statement(f"SELECT t.*\nFROM (SELECT * FROM groups g WHERE EXISTS ({matching})) t", [], ordered)


def _statement(select: str, tests: Sequence[str], ordered: str | None, group: str = "") -> str:
    needed = _needed(tests)
    where = "\nWHERE " + "\n  AND ".join(needed) if needed else ""
    return select + where + group + (f"\nORDER BY {ordered}" if ordered else "") + "\n"


def _needed(tests: Sequence[str]) -> list[str]:
    """Those that leave something out."""
    return [test.removeprefix("true AND ") for test in tests if test != "true"]


def _filled(sql: str, parameters: Sequence[Any]) -> str:
    """SQL of ours, in which no text has a `?`, with its values in place."""
    first, *rest = sql.split("?")
    return first + "".join(f"{_literal(value)}{after}" for value, after in zip(parameters, rest, strict=True))


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return f"'{value}'::DOUBLE"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value).replace("'", "''")
    return f"'{text}'"
