"""The view `transitions`, as SQL: environment steps as the newest word about them says.

An amendment is a row of the table (`_transitions`), and no row of the view: what it gives stands in the step that it
means. `query.transitions` does the same with rows in Python, and keeps the history. One difference is left: of further
fields that are objects, SQL replaces those keys that are given, as of metrics and logs.
"""

from __future__ import annotations

from rolltrace.query.database import duckdb

_COLUMNS = ("reward", "episode_done", "stop_reason")

_PAIR = "(said, more) ->" if duckdb.__version__.startswith("1.2.") else "lambda said, more:"
"""How a function of two begins: DuckDB knows the one spelling since 1.3, and the other one until 2.0."""


def _newest(column: str) -> str:
    """The newest value given, in a struct: null is a value too. Of a pruned amendment only those not null are known."""
    has_value = f"json_exists(l.fields, '$.{column}') OR l.{column} IS NOT NULL"
    return f"arg_max({{'said': l.{column}}}, l.time_ns) FILTER ({has_value}) AS {column}"


_TRANSITIONS = f"""
WITH late AS MATERIALIZED (
    SELECT trajectory_id, time_ns, turn, fields, {", ".join(_COLUMNS)} FROM _transitions WHERE amends
), numbered AS (
    SELECT trajectory_id, time_ns, worker,
        row_number() OVER of_trajectory - 1 AS number,
        lead(time_ns) OVER of_trajectory AS next_ns,
        count(*) OVER (PARTITION BY trajectory_id) AS steps
    FROM _transitions SEMI JOIN late USING (trajectory_id) WHERE amends IS NOT TRUE AND backfill IS NOT TRUE
    WINDOW of_trajectory AS (PARTITION BY trajectory_id ORDER BY time_ns, worker)
), amended AS (
    SELECT n.trajectory_id, n.time_ns, n.worker,
        list(l.fields ORDER BY l.time_ns) FILTER (l.fields IS NOT NULL) AS given,
        {", ".join(map(_newest, _COLUMNS))}
    FROM late l JOIN numbered n ON n.trajectory_id = l.trajectory_id AND CASE
        WHEN l.turn IS NULL THEN n.time_ns <= l.time_ns AND coalesce(n.next_ns > l.time_ns, true)
        ELSE n.number = l.turn + CASE WHEN l.turn < 0 THEN n.steps ELSE 0 END
    END
    GROUP BY n.trajectory_id, n.time_ns, n.worker
)
SELECT t.* EXCLUDE (amends, turn) REPLACE (
    {", ".join(f"CASE WHEN a.{name} IS NULL THEN t.{name} ELSE a.{name}.said END AS {name}" for name in _COLUMNS)},
    CASE
        WHEN a.given IS NULL THEN t.fields
        ELSE list_reduce(
            list_prepend(coalesce(t.fields, '{{}}'), a.given), {_PAIR} json_merge_patch(said, more)
        )
    END AS fields
)
FROM _transitions t LEFT JOIN amended a
    ON a.trajectory_id = t.trajectory_id AND a.time_ns = t.time_ns AND a.worker = t.worker AND t.backfill IS NOT TRUE
WHERE t.amends IS NOT TRUE
"""

TRANSITION_VIEWS = {"transitions": _TRANSITIONS}
"""Over `_transitions`, as they are stored."""
