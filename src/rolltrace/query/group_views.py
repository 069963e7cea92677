"""What all rollouts of one sample in one step have in common, as SQL.

Missing rewards are left out of everything but `size`. Which of the others passed is decided in `query.passes`. NaN is
no number that could be best or worst, and SQL has no deviation of NaN and infinity: it fails. So `std` is of the finite
rewards, while `mean`, `min`, `max` and `spread` show that something is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from rolltrace.query.score_views import IS_ROLLOUT

GROUP_KEY = ("project", "experiment", "step", "sample_index", "validate", "run")
GROUP_COLUMNS = (
    *GROUP_KEY, "size", "scored", "mean", "std", "min", "max", "spread", "best", "worst", "passed", "pass_rate",
    "zero_variance", "response_tokens_mean", "response_tokens_min", "response_tokens_max", "turns_mean",
    "duration_s_max", "flags", "errors", "superseded", "pass_rule",
)  # fmt: skip
"""The columns of `groups`, in order."""
RECORD_COLUMNS = (
    "trajectory_id", *GROUP_KEY, "name", "status", "error", "start_ns", "end_ns", "tags", "worker"
)  # fmt: skip
"""The stored columns of `group_records`, in order."""

SAME_GROUP = " AND ".join(f"g.{name} IS NOT DISTINCT FROM t.{name}" for name in GROUP_KEY)
"""Joins a group `g` to a trajectory `t` of it."""

_RANKED = "FILTER (reward IS NOT NULL AND NOT isnan(reward))"
_FIRST = "rollout_n, start_ns, trajectory_id"


SAMPLE_NUMBER = "CASE WHEN regexp_matches(sample_index, '^-?[0-9]+$') THEN TRY_CAST(sample_index AS BIGINT) END"
"""A sample as a number, which sorts as one: 2 before 10. Null where it is another text."""

ZERO_VARIANCE = "count(reward) > 1 AND coalesce(isfinite(min(reward)) AND min(reward) = max(reward), false)"
"""Two rewards or more, all the same."""


PASSED = "CASE WHEN count(reward) = 0 OR count(_passed) > 0 THEN count(*) FILTER (_passed) END"
"""How many passed; null if none of those that have a reward has a verdict."""

_GROUPS = f"""
SELECT *, CASE WHEN scored > 0 THEN passed / scored END AS pass_rate
FROM (
    SELECT
        {", ".join(GROUP_KEY)},
        count(*) AS size,
        count(reward) AS scored,
        avg(reward) AS mean,
        stddev_pop(reward) FILTER (isfinite(reward)) AS std,
        min(reward) AS min,
        max(reward) AS max,
        max(reward) - min(reward) AS spread,
        first(trajectory_id ORDER BY reward DESC, {_FIRST}) {_RANKED} AS best,
        first(trajectory_id ORDER BY reward, {_FIRST}) {_RANKED} AS worst,
        {PASSED} AS passed,
        {ZERO_VARIANCE} AS zero_variance,
        avg(response_tokens) AS response_tokens_mean,
        min(response_tokens) AS response_tokens_min,
        max(response_tokens) AS response_tokens_max,
        avg(turns) AS turns_mean,
        max(duration_s) AS duration_s_max,
        list_sort(list_distinct(flatten(list(flags)))) AS flags,
        count(*) FILTER (status = 'error') AS errors,
        bool_or(superseded) AS superseded,
        any_value(pass_rule) AS pass_rule,
        bool_and(_is_int) AS _is_int
    FROM _judged WHERE sample_index IS NOT NULL AND {IS_ROLLOUT}
    GROUP BY {", ".join(GROUP_KEY)}
)
"""


def pass_at(k: int) -> str:
    """SQL of pass@k: the chance that one of k rollouts passes, drawn from those of a group `g` that have a reward.

    The estimator without bias, 1 - C(n-c, k) / C(n, k), as a product that stays between 0 and 1. Null if k > n.
    """
    missed = f"list_aggregate([1 - {k} / i for i in range(g.scored - g.passed + 1, g.scored + 1)], 'product')"
    return f"CASE WHEN g.scored >= {k} THEN 1 - coalesce({missed}, 1) END"


def pass_columns(ks: Sequence[int]) -> dict[str, str]:
    """Name of the column -> its SQL."""
    return {f"pass@{k}": pass_at(k) for k in ks}


_RECORDS = f"""
SELECT {", ".join(RECORD_COLUMNS)}, duration_s, sample_number IS NOT NULL AS _is_int
FROM _stored_group_records WHERE start_ns IS NOT NULL
"""
"""What was recorded for a whole group: no rollout, under an id of its own."""

GROUP_VIEWS = {
    "_groups": _GROUPS,
    "groups": f"SELECT {', '.join(GROUP_COLUMNS)}, {SAMPLE_NUMBER} AS sample_number FROM _groups",
    "_group_records": _RECORDS,
    "group_records": "SELECT * EXCLUDE (_is_int) FROM _group_records",
}
