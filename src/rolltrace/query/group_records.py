"""Records of whole groups (`rollout_trace_group`) as lists show them: without payloads, with their number of ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rolltrace.query.arguments import conditions_of, whole
from rolltrace.query.runs import STEP_KEY
from rolltrace.query.scope import Row, Scope

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

_OLDER_ATTEMPT = f"""EXISTS (
    SELECT 1 FROM _steps s WHERE s.superseded AND s.run IS NOT DISTINCT FROM t.run
    AND {" AND ".join(f"s.{name} IS NOT DISTINCT FROM t.{name}" for name in STEP_KEY)}
)"""
_OPS = """
SELECT trajectory_id, count(*) AS ops, count(*) FILTER (status = 'error') AS errors FROM ops
WHERE trajectory_id IN (SELECT unnest(?::VARCHAR[])) GROUP BY trajectory_id
"""


def group_record_list(store: Store, scope: Scope) -> list[Row]:
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


def records_with_ops(store: Store, conditions: str, values: list[object], step: int | None) -> list[Row]:
    """The records `t` that meet some conditions."""
    sql = f"SELECT * FROM _group_records t WHERE {conditions} ORDER BY start_ns, trajectory_id"
    records = store._ask(sql, values, step).rows()
    if not records:
        return []
    ids = [record["trajectory_id"] for record in records]
    counts = {row["trajectory_id"]: row for row in store._ask(_OPS, [ids], step)}
    nothing = {"ops": 0, "errors": 0}
    return [{**record, **nothing, **counts.get(record["trajectory_id"], {})} for record in records]
