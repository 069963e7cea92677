"""A listing as one SELECT over the documented views, to be asked again with `Store.sql` or `rolltrace sql`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from rolltrace.query.arguments import conditions_of, order_of
from rolltrace.query.columns import GROUP_HEADERS, TRAJECTORY_COLUMNS, TRAJECTORY_HEADERS
from rolltrace.query.filters import compile_where
from rolltrace.query.group_views import GROUP_COLUMNS, SAME_GROUP
from rolltrace.query.runs import choose_runs
from rolltrace.query.scope import Scope

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
    conditions, values = conditions_of(
        project=scope.project, experiment=scope.experiment, step=scope.step, sample_index=scope.sample_index,
        validate=scope.validate,
    )  # fmt: skip
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
