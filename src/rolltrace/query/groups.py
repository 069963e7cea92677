"""Questions about groups: the SQL behind `Store.groups`, and what was recorded for whole groups
(`rollout_trace_group`), read as trajectories are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace.pass_rule import PassRule
from rolltrace.query.columns import GROUP_FILTER_HEADERS, GROUP_HEADERS, TRAJECTORY_COLUMNS
from rolltrace.query.filters import Predicate, compile_where
from rolltrace.query.model.lists import GroupRecord
from rolltrace.query.model.rows import short_name, typed
from rolltrace.query.result import IS_INT
from rolltrace.query.scope import RunChoice, choose_runs, conditions_of, numbers_of_rollouts, order_of, whole
from rolltrace.query.values import Row
from rolltrace.query.views import GROUP_COLUMNS, GROUP_KEY, SAME_GROUP, STEP_KEY, chosen, pass_columns, with_rule

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store
    from rolltrace.query.scope import Scope
    from rolltrace.query.trajectory import Trajectory

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


def records_where(store: Store, conditions: str, values: Sequence[Any], step: int | None) -> list[Trajectory]:
    """The records that meet some conditions, the oldest first."""
    from rolltrace.query.trajectory import read_whole  # whoever lists groups needs no trajectory

    return [each.trajectory for each in read_whole(store, record_rows(store, conditions, values, step), step)]


def record_rows(store: Store, conditions: str, values: Sequence[Any], step: int | None = None) -> list[Row]:
    """The rows of records, as the listing has rows of trajectories, with `is_group`."""
    sql = f"SELECT * FROM _group_records t WHERE {conditions} ORDER BY start_ns, trajectory_id"
    return [{**_NOTHING, **row} for row in store._ask(sql, values, step, plain=True)]


def records_of(records: list[Trajectory], rollouts: Sequence[Row]) -> list[Trajectory]:
    """Those records that belong to the runs of these rollouts; all of them if there are no rollouts."""
    runs = {(row["project"], row["experiment"], row["validate"], row["run"]) for row in rollouts}
    return [each for each in records if not runs or (each.project, each.experiment, each.validate, each.run) in runs]


def group_record_list(store: Store, scope: Scope) -> list[GroupRecord]:
    """The records of the groups of a scope, the oldest first: the columns of `group_records`, `ops` and `errors`.

    A filter of the scope is about trajectories and is not asked here: a record belongs to its group as a whole.
    """
    conditions, values = conditions_of(
        project=scope.project, experiment=scope.experiment, step=scope.step, sample_index=scope.sample_index,
        validate=scope.validate, run=scope.run,
    )  # fmt: skip
    if scope.run is None and not scope.all_runs:
        conditions += f" AND NOT {_OLDER_ATTEMPT}"
    step = None if scope.step is None else whole("step", scope.step)
    return records_with_ops(store, conditions, values, step)


def records_with_ops(store: Store, conditions: str, values: list[object], step: int | None) -> list[GroupRecord]:
    """The records `t` that meet some conditions."""
    records = record_rows(store, conditions, values, step)
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


class GroupQuestion(NamedTuple):
    """The SQL of `Store.groups`, and of what it leaves out."""

    sql: str
    parameters: list[Any]
    older_sql: str
    """How many trajectories of how many older runs it leaves out."""
    older_parameters: list[Any]
    runs: RunChoice
    predicate: Predicate | None


def group_question(
    conditions: str,
    values: list[Any],
    *,
    where: str | None,
    order: str | None,
    limit: int | None,
    rule: PassRule | None,
    k: int | Sequence[int] | None,
    run: str | None,
    all_runs: bool,
) -> GroupQuestion:
    """The groups that meet some conditions, on a group `g`; the other arguments are those of `Store.groups`."""
    chances = pass_columns(numbers_of_rollouts(k))
    # Under the name of the view: a filter looks into it several times, and `group.pass_rate` means this rule too.
    before, parameters = ["groups AS MATERIALIZED (SELECT * FROM _groups)"], list[Any]()
    predicate = None
    if where is not None:
        predicate = compile_where(where, GROUP_FILTER_HEADERS)
        more, matching_rows = chosen("true", predicate.sql, views=("latest_scores", "passes"))
        before += [*more, f"matching AS (SELECT DISTINCT {', '.join(GROUP_KEY)} FROM {matching_rows})"]
        parameters += predicate.parameters
        conditions += f" AND EXISTS (SELECT 1 FROM matching t WHERE {SAME_GROUP})"
    before = with_rule(rule, before)
    runs = choose_runs("g", run, all_runs, () if predicate is None else predicate.fields)
    columns = [f"g.{name}" for name in (*GROUP_COLUMNS, IS_INT)]
    columns += [f'{sql} AS "{name}"' for name, sql in chances.items()]
    ordered = order_of(order or _ORDER, "groups", (*GROUP_COLUMNS, *chances), GROUP_KEY, GROUP_HEADERS)
    paging = "" if limit is None else f" LIMIT {whole('limit', limit)}"
    sql = (
        f"WITH {', '.join(before)} SELECT * FROM ("
        f"SELECT {', '.join(columns)} FROM groups g WHERE {conditions} AND {runs.sql}) t ORDER BY {ordered}{paging}"
    )
    older = (
        f"WITH {', '.join(before)} SELECT coalesce(sum(size), 0)::BIGINT AS n, "
        f"count(DISTINCT coalesce(run, '')) AS runs FROM groups g WHERE {conditions} AND superseded"
    )
    parameters = [*parameters, *values]
    return GroupQuestion(sql, [*parameters, *runs.parameters], older, parameters, runs, predicate)
