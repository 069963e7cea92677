"""Questions about groups: the SQL behind `Store.groups`, and what was recorded for whole groups
(`rollout_trace_group`), read as trajectories are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rolltrace.query.columns import GROUP_FILTER_HEADERS, GROUP_HEADERS, TRAJECTORY_COLUMNS
from rolltrace.query.filters import compile_where
from rolltrace.query.model.lists import GroupRecord
from rolltrace.query.model.rows import short_name, typed
from rolltrace.query.result import IS_INT, Result
from rolltrace.query.scope import (
    OlderRuns,
    choose_runs,
    conditions_of,
    numbers_of_rollouts,
    order_of,
    resolve_rule,
    whole,
)
from rolltrace.query.values import Row
from rolltrace.query.views import GROUP_COLUMNS, GROUP_KEY, SAME_GROUP, STEP_KEY, chosen, pass_columns, with_rule

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store
    from rolltrace.query.scope import Scope

_ORDER = "project,experiment,step,validate,sample_index"
_NOTHING: Row = {
    **dict.fromkeys(TRAJECTORY_COLUMNS), "turns": 0, "tool_calls": 0, "tool_errors": 0, "flags": [], "labels": [],
    "superseded": False, "is_group": True,
}  # fmt: skip
"""What a record of a group has none of."""
_OLDER_ATTEMPT = f"""EXISTS (
    SELECT 1 FROM _steps s WHERE s.superseded AND s.run IS NOT DISTINCT FROM t.run
    AND {" AND ".join(f"s.{name} IS NOT DISTINCT FROM t.{name}" for name in STEP_KEY)}
)"""
_OPS = """
SELECT trajectory_id, count(*) AS ops, count(*) FILTER (status = 'error') AS errors FROM ops
WHERE trajectory_id IN (SELECT unnest(?::VARCHAR[])) GROUP BY trajectory_id
"""


def record_rows(store: Store, conditions: str, values: Sequence[Any], step: int | None = None) -> list[Row]:
    """The rows of records `t`, as the listing has rows of trajectories, with `is_group`."""
    sql = f"SELECT * FROM _group_records t WHERE {conditions} ORDER BY start_ns, trajectory_id"
    return [{**_NOTHING, **row} for row in store._ask(sql, values, step, plain=True)]


def records_in(store: Store, scope: Scope) -> list[Row]:
    """The rows of the records of the groups of a scope, the oldest first.

    A filter of the scope is about trajectories and is not asked here: a record belongs to its group as a whole.
    """
    conditions, values = conditions_of(
        project=scope.project, experiment=scope.experiment, step=scope.step, sample_index=scope.sample_index,
        validate=scope.validate, run=scope.run,
    )  # fmt: skip
    if scope.run is None and not scope.all_runs:
        conditions += f" AND NOT {_OLDER_ATTEMPT}"
    return record_rows(store, conditions, values, None if scope.step is None else whole("step", scope.step))


def group_record_list(store: Store, scope: Scope) -> list[GroupRecord]:
    """The records of the groups of a scope, the oldest first: the columns of `group_records`, `ops` and `errors`."""
    return with_ops(store, records_in(store, scope), scope.step)


def with_ops(store: Store, records: list[Row], step: int | None) -> list[GroupRecord]:
    """Records, each with how many ops it has."""
    ids = [record["trajectory_id"] for record in records]
    counts = {row["trajectory_id"]: row for row in store._ask(_OPS, [ids], step)} if ids else {}
    return [
        typed(
            GroupRecord,
            {"ops": 0, "errors": 0, **record, **counts.get(record["trajectory_id"], {}),
             "name": short_name(record["name"])},
        )
        for record in records
    ]  # fmt: skip


def list_groups(
    store: Store, scope: Scope, *, order: str | None, limit: int | None, k: int | Sequence[int] | None
) -> Result:
    """The groups of a scope; the other arguments are those of `Store.groups`."""
    conditions, values = conditions_of(
        "g", step=scope.step, sample_index=scope.sample_index, experiment=scope.experiment, project=scope.project,
        validate=scope.validate,
    )  # fmt: skip
    chances = pass_columns(numbers_of_rollouts(k))
    # Under the name of the view: a filter looks into it several times, and `group.pass_rate` means this rule too.
    before, parameters = ["groups AS MATERIALIZED (SELECT * FROM _groups)"], list[Any]()
    predicate = None
    if scope.where is not None:
        predicate = compile_where(scope.where, GROUP_FILTER_HEADERS)
        more, matching_rows = chosen("true", predicate.sql, views=("latest_scores", "passes"))
        before += [*more, f"matching AS (SELECT DISTINCT {', '.join(GROUP_KEY)} FROM {matching_rows})"]
        parameters += predicate.parameters
        conditions += f" AND EXISTS (SELECT 1 FROM matching t WHERE {SAME_GROUP})"
    rule = resolve_rule(store, scope.term, scope.threshold, project=scope.project, experiment=scope.experiment)
    once, parameters = f"WITH {', '.join(with_rule(rule, before))} ", [*parameters, *values]
    runs = choose_runs("g", scope.run, scope.all_runs, () if predicate is None else predicate.fields)
    columns = [f"g.{name}" for name in (*GROUP_COLUMNS, IS_INT)]
    columns += [f'{sql} AS "{name}"' for name, sql in chances.items()]
    ordered = order_of(order or _ORDER, "groups", (*GROUP_COLUMNS, *chances), GROUP_KEY, GROUP_HEADERS)
    paging = "" if limit is None else f" LIMIT {whole('limit', limit)}"
    step = None if scope.step is None else whole("step", scope.step)
    answer = store._ask(
        f"{once}SELECT * FROM (SELECT {', '.join(columns)} FROM groups g WHERE {conditions} AND {runs.sql}) t "
        f"ORDER BY {ordered}{paging}",
        [*parameters, *runs.parameters],
        step,
        plain=step is not None,
    )
    unfiltered = replace(scope, where=None, term=None, threshold=None)
    if runs.hides and unfiltered.older_runs(store).trajectories:
        older = "SELECT coalesce(sum(size), 0)::BIGINT AS n, count(DISTINCT coalesce(run, '')) AS runs FROM groups g"
        (row,) = store._ask(f"{once}{older} WHERE {conditions} AND superseded", parameters, step, plain=True)
        answer.older_runs = OlderRuns(row["n"], row["runs"])
    return store._paged(store._explained(answer, "groups", unfiltered, predicate), limit, 0)
