"""The rows of `Store.trajectories`: counted by step first, then read from the steps that a page lies in.

So a page of a large store opens few files, and the count says too how much is left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace.query.arguments import order_of, whole
from rolltrace.query.columns import TRAJECTORY_COLUMNS, TRAJECTORY_HEADERS
from rolltrace.query.result import IS_INT, Result
from rolltrace.query.runs import NO_OLDER_RUNS, OlderRuns
from rolltrace.query.values import Row

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store
    from rolltrace.query.scope import Scope

_USUAL_ORDER = "project,experiment,step,validate,sample_index,rollout_n,start_ns"
"""Within experiments, the newest of which comes last."""
_LAST_ORDER = ("start_ns", "trajectory_id")
_MAX_SHORT_ROWS = 1_000
_COUNTS = """
SELECT t.project, t.experiment, t.step, t.validate, t.run, t.superseded, count(*) AS n, max(t.start_ns) AS newest_ns
FROM {rows} GROUP BY ALL
"""
_COLUMNS = ", ".join(f"t.{name}" for name in (*TRAJECTORY_COLUMNS, IS_INT))


class _Counted(NamedTuple):
    """The steps that have rows, in the usual order, and what is left out."""

    steps: list[Row]
    older_runs: OlderRuns

    @property
    def total(self) -> int:
        return sum(step["n"] for step in self.steps)


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
    counted = _count(store, scope, also)
    if order is not None and last is None:
        answer = _sort(store, scope, also, ordered, "" if limit is None else f"LIMIT {limit}", offset, limit)
    else:
        answer = _cut(store, scope, also, counted, None if order is None else ordered, limit, offset, last)
    answer.older_runs = counted.older_runs
    answer._count = lambda: counted.total
    answer._has_tags = True
    return answer


def _count(store: Store, scope: Scope, also: str) -> _Counted:
    every = replace(scope, all_runs=True) if scope.hides_older_runs else scope
    rows = every.selected(also).ask(store, _COUNTS)
    hidden = [row for row in rows if scope.hides_older_runs and row["superseded"]]
    older = OlderRuns(sum(row["n"] for row in hidden), len({row["run"] or "" for row in hidden}))
    steps: dict[tuple[Any, ...], Row] = {}
    newest: dict[tuple[str, str], int] = {}
    for row in rows:
        if not (scope.hides_older_runs and row["superseded"]):
            experiment = row["project"], row["experiment"]
            newest[experiment] = max(newest.get(experiment, 0), row["newest_ns"])
            step = steps.setdefault((*experiment, row["step"], row["validate"]), {**row, "n": 0})
            step["n"] += row["n"]
    for step in steps.values():
        step["newest_ns"] = newest[step["project"], step["experiment"]]
    return _Counted(sorted(steps.values(), key=_place), older if hidden else NO_OLDER_RUNS)


def _place(step: Row) -> tuple[Any, ...]:
    number = step["step"]
    experiment = step["newest_ns"], step["project"], step["experiment"]
    return (*experiment, number is None, number or 0, step["validate"])


def _cut(
    store: Store,
    scope: Scope,
    also: str,
    counted: _Counted,
    ordered: str | None,
    limit: int | None,
    offset: int,
    last: int | None,
) -> Result:
    """Some rows in the usual order, or sorted again in another one."""
    total = counted.total
    if last is not None:
        end = max(0, total - offset)
        begin = max(0, end - last)
    else:
        begin = min(offset, total)
        end = total if limit is None else min(total, begin + limit)
    chosen, first, passed = list[Row](), 0, 0
    for step in counted.steps:
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
