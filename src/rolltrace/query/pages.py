"""The question behind `Store.trajectories`: which rows, in which order, which page of them.

The rows are chosen and sorted by few columns, and the others are read for the page alone, from the steps that it lies
in. In the usual order `_steps` tells which these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rolltrace.pass_rule import PassRule
from rolltrace.query.arguments import order_of
from rolltrace.query.columns import TRAJECTORY_COLUMNS
from rolltrace.query.filters import Predicate
from rolltrace.query.passes import with_rule
from rolltrace.query.result import IS_INT
from rolltrace.query.runs import RunChoice
from rolltrace.query.views import NEWEST, Chosen, chosen

DEFAULT_ORDER = f"{NEWEST},project,experiment,step,validate,sample_index,rollout_n,start_ns"
"""The newest experiment last."""
LAST_ORDER = ("start_ns", "trajectory_id")
_STEP_ORDER = "_newest_ns, project, experiment, step NULLS LAST, validate"

_SHORT = 1_000

Row = dict[str, Any]


class Wanted(NamedTuple):
    """Which trajectories."""

    conditions: str
    values: list[Any]
    runs: RunChoice
    predicate: Predicate
    step: int | None
    rule: PassRule | None = None
    """What pass means in the predicate, instead of what is stored."""

    def matching(self) -> Chosen:
        """As pieces of SQL."""
        before, matching = chosen(f"{self.conditions} AND {self.runs.sql}", self.predicate.sql)
        return Chosen(with_rule(self.rule, before), matching)


class PageBounds(NamedTuple):
    """Which of them, in which order."""

    ordered: str
    limit: int | None
    offset: int
    last: int | None

    @property
    def is_short(self) -> bool:
        """Whether it can only have few rows."""
        return min(_SHORT if each is None else each for each in (self.limit, self.last)) < _SHORT


class Cut(NamedTuple):
    """The steps that have a page, the page within these, and the age of their experiments."""

    steps: list[Row]
    page: PageBounds
    newest: list[tuple[str, str, int]]
    total: int
    """How many rows all pages have together."""


class PageQuestion(NamedTuple):
    """SQL and parameters of the rows of a listing."""

    ctes: list[str]
    """Among them `hits`, all that match, and `page`, those of them that are shown."""
    order: str
    values: list[Any]

    def whole_rows(self) -> tuple[str, list[Any]]:
        """Every column of each row, in one question: for many rows."""
        shown = ", ".join(f"t.{name}" for name in (*TRAJECTORY_COLUMNS, IS_INT))
        select = f"SELECT {shown} FROM _listing t JOIN page USING (trajectory_id) ORDER BY {self.order}"
        return f"WITH {', '.join(self.ctes)} {select}", self.values

    def keys(self) -> tuple[str, list[Any]]:
        """The ids and places of the rows, and how many match: `rows_of` reads a few rows from a few steps then."""
        select = (
            "SELECT t.trajectory_id, t.project, t.experiment, t.step, (SELECT count(*) FROM hits) AS n "
            f"FROM hits t JOIN page USING (trajectory_id) ORDER BY {self.order}"
        )
        return f"WITH {', '.join(self.ctes)} {select}", self.values


def rows_of(keys: Sequence[Row]) -> tuple[str, list[Any]]:
    """SQL and parameters of the rows of these trajectories, in their order."""
    shown = ", ".join(f"t.{name}" for name in (*TRAJECTORY_COLUMNS, IS_INT))
    sql = (
        f"SELECT {shown} FROM _listing t JOIN (SELECT unnest(?::VARCHAR[]) AS trajectory_id, "
        "unnest(?::BIGINT[]) AS place) page USING (trajectory_id) ORDER BY page.place"
    )
    return sql, [[key["trajectory_id"] for key in keys], list(range(len(keys)))]


def listing_question(
    wanted: Wanted, page: PageBounds, newest: Iterable[tuple[str, str, int]] | None = None
) -> PageQuestion:
    """The question; `newest`: of each experiment, when its newest trajectory began, if that is known."""
    before, matching = wanted.matching()
    values = [*wanted.values, *wanted.runs.parameters, *wanted.predicate.parameters]
    if newest is None:
        ages = "SELECT project, experiment, max(start_ns) AS newest FROM hits GROUP BY ALL"
    else:
        begun = list(newest)
        ages = f"SELECT * FROM (VALUES {', '.join(['(?, ?, ?)'] * len(begun))}) n(project, experiment, newest)"
        if not begun:
            ages = "SELECT NULL::VARCHAR AS project, NULL::VARCHAR AS experiment, 0 AS newest LIMIT 0"
        values += [each for row in begun for each in row]
    usual = order_of(DEFAULT_ORDER, "trajectories", (*TRAJECTORY_COLUMNS, NEWEST), LAST_ORDER)
    sorted_by = sorted(
        {name for name in TRAJECTORY_COLUMNS if f"t.{name}" in f"{usual} {page.ordered}".replace('"', "")}
    )
    columns = ", ".join(f"t.{name}" for name in sorted_by if name != "trajectory_id")
    hits = f"SELECT t.trajectory_id, {columns} FROM {matching}"
    sql = f"SELECT t.trajectory_id, n.newest AS {NEWEST} FROM hits t JOIN ages n USING (project, experiment)"
    if page.last is not None:
        place = f"count(*) OVER () - row_number() OVER (ORDER BY {usual}) - {page.offset}".replace(
            f't."{NEWEST}"', "n.newest"
        )
        sql += f" QUALIFY {place} BETWEEN 0 AND {page.last - 1}"
    inner_order = page.ordered.replace(f't."{NEWEST}"', "n.newest")
    paging = "" if page.limit is None else f" ORDER BY {inner_order} LIMIT {page.limit}"
    paging += f" OFFSET {page.offset}" if page.offset and page.last is None else ""
    if page.offset and page.last is None and page.limit is None:
        paging = f" ORDER BY {inner_order}{paging}"
    ctes = [*before, f"hits AS MATERIALIZED ({hits})", f"ages AS ({ages})", f"page AS MATERIALIZED ({sql}{paging})"]
    return PageQuestion(ctes, page.ordered.replace(f't."{NEWEST}"', f"page.{NEWEST}"), values)


def steps_question(wanted: Wanted) -> tuple[str, list[Any]]:
    """The steps that have such trajectories, and how many, in the usual order."""
    where = f"{wanted.conditions} AND {wanted.runs.sql}"
    return (
        f"SELECT project, experiment, step, validate, sum(trajectories)::BIGINT AS n, "
        f"max(max(newest_ns)) OVER (PARTITION BY project, experiment) AS {NEWEST} FROM _steps t "
        f"WHERE {where} GROUP BY project, experiment, step, validate ORDER BY {_STEP_ORDER}",
        [*wanted.values, *wanted.runs.parameters],
    )


def cut_steps(steps: list[Row], page: PageBounds) -> Cut:
    """The steps, in the usual order, that have the rows of a page."""
    total = sum(row["n"] for row in steps)
    if page.last is not None:
        end = max(0, total - page.offset)
        begin = max(0, end - page.last)
    else:
        begin = min(page.offset, total)
        end = total if page.limit is None else min(total, begin + page.limit)
    chosen, first, at = list[Row](), 0, 0
    for row in steps:
        if at < end and at + row["n"] > begin:
            if not chosen:
                first = at
            chosen.append(row)
        at += row["n"]
    ages = {(row["project"], row["experiment"]): row[NEWEST] for row in chosen}
    within = PageBounds(page.ordered, end - begin, begin - first, None)
    if page.last is not None and page.limit is not None:
        within = within._replace(limit=min(page.limit, end - begin))
    return Cut(chosen, within, [(*place, age) for place, age in ages.items()], total)


def count_question(wanted: Wanted) -> tuple[str, list[Any]]:
    """How many trajectories."""
    before, matching = wanted.matching()
    once = f"WITH {', '.join(before)} " if before else ""
    values = [*wanted.values, *wanted.runs.parameters, *wanted.predicate.parameters]
    return f"{once}SELECT count(*) AS n FROM {matching}", values
