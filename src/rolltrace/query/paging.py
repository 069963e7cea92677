"""Listings page by page. A page begins after a certain row, so what is added or pruned meanwhile shifts nothing."""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from rolltrace.errors import QueryError
from rolltrace.pass_rule import PassMeaning
from rolltrace.query.columns import GROUP_HEADERS, TRAJECTORY_COLUMNS, TRAJECTORY_HEADERS
from rolltrace.query.filters import compile_where
from rolltrace.query.result import IS_INT
from rolltrace.query.scope import NO_OLDER_RUNS, OlderRuns, Row, Scope, order_of, whole
from rolltrace.query.views import GROUP_COLUMNS, GROUP_KEY, IS_ROLLOUT, TRUNCATED

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

CELL_COLUMNS = (
    "trajectory_id",
    "rollout_n",
    "reward",
    "status",
    "flags",
    "labels",
    "response_tokens",
    "turns",
    "duration_s",
)
_TRAJECTORY_ORDER = "project,experiment,step,validate,sample_index,rollout_n,start_ns"
_GROUP_ORDER = "project,experiment,step,validate,sample_index"


@dataclass(frozen=True)
class Page:
    """Some rows of a listing."""

    rows: list[Row]
    total: int
    """How many rows all pages have together."""
    next: str | None
    """Give it as `after` to get the next page; None on the last."""
    older_runs: OlderRuns = NO_OLDER_RUNS
    notices: list[str] = field(default_factory=list)
    """Names in the filter that nothing in the store has, most likely misspelt."""
    totals: Row = field(default_factory=dict)
    """Of groups: figures over all pages."""
    passing: list[PassMeaning] = field(default_factory=list)
    """Of groups: what pass means in their experiments."""


_GROUPS = f"""
SELECT g.* FROM _groups g JOIN (
    SELECT DISTINCT {", ".join(GROUP_KEY)} FROM selected WHERE sample_index IS NOT NULL
) k ON {" AND ".join(f"g.{name} IS NOT DISTINCT FROM k.{name}" for name in GROUP_KEY)}
"""
_TOTALS = """
SELECT count(*) AS groups, coalesce(sum(size), 0)::BIGINT AS trajectories,
    sum(mean * scored) FILTER (isfinite(mean) AND validate = shown) /
        nullif(sum(scored) FILTER (isfinite(mean) AND validate = shown), 0) AS reward_mean,
    avg(zero_variance::INT) FILTER (scored > 1 AND validate = shown) AS zero_variance_share
FROM matching, (SELECT bool_and(validate) AS shown FROM matching)
"""
"""Rewards are those of training, so that they can be followed over the steps; of validation if there is no other."""


def trajectory_page(
    store: Store, scope: Scope, *, order: str | None = None, after: str | None = None, limit: int = 200
) -> Page:
    """A page of the trajectories of a scope, as `Store.trajectories` has them.

    Raises:
        FilterError: the filter cannot be understood.
        QueryError: there is no such column to sort by, or `after` is not from a page.
    """
    ordered = order_of(
        order or _TRAJECTORY_ORDER, "trajectories", TRAJECTORY_COLUMNS, ("start_ns", "trajectory_id"),
        TRAJECTORY_HEADERS,
    )  # fmt: skip
    columns = (*TRAJECTORY_COLUMNS, IS_INT)
    return _page(store, scope, "SELECT * FROM selected", columns, ordered, ("trajectory_id",), after, limit)


def group_page(
    store: Store, scope: Scope, *, order: str | None = None, after: str | None = None, limit: int = 200
) -> Page:
    """A page of the groups of a scope, as `Store.groups` has them, each with `cells`: a row for each rollout.

    With a filter, these are the groups that hold such a trajectory; their figures and cells are of all rollouts.

    Raises:
        FilterError: the filter cannot be understood.
        QueryError: there is no such column to sort by, or `after` is not from a page.
    """
    passing = scope.passing(store)
    ordered = order_of(order or _GROUP_ORDER, "groups", GROUP_COLUMNS, GROUP_KEY, GROUP_HEADERS)
    page = _page(store, scope, _GROUPS, (*GROUP_COLUMNS, IS_INT), ordered, GROUP_KEY, after, limit)
    _add_cells(store, scope, page.rows)
    (totals,) = scope.selected().ask(store, _TOTALS, before=(f"matching AS ({_GROUPS})",))
    return replace(page, totals=totals, passing=passing)


def cell_of(row: Row) -> Row:
    """What a grid shows of one rollout, from its row of the listing."""
    return {**{name: row[name] for name in CELL_COLUMNS}, "truncated": TRUNCATED in row["flags"]}


def _page(
    store: Store, scope: Scope, sql: str, columns: Sequence[str], ordered: str, key: Sequence[str], after: str | None,
    limit: int,
) -> Page:  # fmt: skip
    begin, parameters = "0", list[Any]()
    if after is not None:
        place, parameters = read_key(after, len(key))
        same = " AND ".join(f"{name} IS NOT DISTINCT FROM ?" for name in key)
        # A row that is gone meanwhile leaves its place behind.
        begin = f"coalesce((SELECT _place FROM listed WHERE {same} LIMIT 1), {place})"
    limit = whole("limit", limit)
    names = ", ".join(f"t.{name}" for name in columns)
    places = f"row_number() OVER (ORDER BY {ordered}) AS _place, count(*) OVER () AS _total"
    rows = scope.selected().ask(
        store,
        f"SELECT l.* FROM listed l, (SELECT {begin} AS place) b "
        f"WHERE _place > b.place AND _place <= b.place + {limit} + 1 ORDER BY _place",
        *parameters,
        before=(f"listed AS MATERIALIZED (SELECT {names}, {places} FROM ({sql}) t)",),
    )
    rows, more = rows[:limit], len(rows) > limit
    next_page = write_key(rows[-1]["_place"], [rows[-1][name] for name in key]) if more else None
    total = max((row.pop("_total") for row in rows), default=0)
    for row in rows:
        del row["_place"]
    notices = store.unknown_names(compile_where(scope.where))
    return Page(rows, total, next_page, scope.older_runs(store), notices)


def _add_cells(store: Store, scope: Scope, groups: list[Row]) -> None:
    """The rollouts of each group under `cells`, those that no filter asked for too."""
    samples = list(dict.fromkeys(str(row["sample_index"]) for row in groups))
    columns = ", ".join(f"t.{name}" for name in dict.fromkeys((*GROUP_KEY, *CELL_COLUMNS, IS_INT)))
    every = replace(scope, where=None, run=None, all_runs=True).selected()
    marks = ", ".join("?" * len(samples)) or "NULL"
    cells: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in every.ask(
        store,
        f"SELECT {columns} FROM {{rows}} AND t.sample_index IN ({marks}) AND t.{IS_ROLLOUT} "
        "ORDER BY rollout_n NULLS LAST, start_ns",
        *samples,
    ):
        cells[tuple(row[name] for name in GROUP_KEY)].append(cell_of(row))
    for row in groups:
        row["cells"] = cells[tuple(row[name] for name in GROUP_KEY)]


def write_key(place: int, values: list[Any]) -> str:
    """The `next` of a page that ends with this row."""
    # As text, because a sample that was given as an int stands in the table as text.
    plain = [value if value is None or isinstance(value, bool) else str(value) for value in values]
    return base64.urlsafe_b64encode(msgspec.msgpack.encode([place, *plain])).decode().rstrip("=")


def read_key(text: str, count: int) -> tuple[int, list[Any]]:
    """The place and the key of the row after which a page begins."""
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        place, *values = msgspec.msgpack.decode(packed, type=list[int | str | bool | None])
        if type(place) is int and len(values) == count:
            return place, values
    except (ValueError, msgspec.MsgspecError):
        pass
    raise QueryError(f"{text[:40]!r} is not the `next` of a page; leave `after` out to begin with the first")
