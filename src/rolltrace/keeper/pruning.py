"""What `rolltrace store prune` and `rm` take, and what that would cost: looked up first, so that somebody can say no.

Filters mean what they mean in a listing: of each step the newest run, unless they ask about runs. Age and size are
about all runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from rolltrace._amounts import age_sec, size_of
from rolltrace.keeper.groups import Choice, Group, Row, choose_groups, groups_of, read_summaries
from rolltrace.keeper.pending import unsent
from rolltrace.query import Store
from rolltrace.tables import TABLE_SCHEMAS, Place, TableStore, address_in, find_prunable


class Foreseen(NamedTuple):
    """What would go."""

    trajectories: int
    """Those that have something to lose."""
    groups: int
    bytes: int
    """About how much smaller the store would be."""


class Plan(NamedTuple):
    """What `rolltrace store prune` would do, for somebody to agree to."""

    chosen: dict[Place, set[str]]
    """The trajectories of groups that lose their payloads."""
    running: int
    """How many others are left alone, because their groups are going on."""
    foreseen: Foreseen
    unsent: int
    """How many of these a backend is still to be given: it would get them without payloads."""


def plan_pruning(
    store: Store,
    *,
    where: str | None = None,
    older_than: str | None = None,
    max_size: str | None = None,
    whole: bool = False,
) -> Plan:
    """What goes by one of `where`, `older_than` and `max_size`, and what that would cost. Changes nothing.

    Raises:
        FilterError, ConfigError: it cannot be understood.
    """
    store.refresh()
    tables = TableStore(address_in(store.path))
    rows = read_summaries(tables)
    choice = _choose(store, tables, rows, where, older_than, max_size)
    chosen = by_place(rows, choice.drop)
    foreseen = foresee(store.path, choice.groups, chosen, whole=whole)
    return Plan(chosen, len(choice.keep), foreseen, len(choice.drop & unsent(store)) if choice.groups else 0)


class Removal(NamedTuple):
    """What `rolltrace store rm` would delete."""

    chosen: dict[Place, set[str]]
    whole: dict[str, str]
    """The project, experiment or run that goes whole."""
    running: int
    """How many trajectories are still running, and left alone."""


def plan_removal(store: Path, ids: Collection[str], whole: Mapping[str, str] = MappingProxyType({})) -> Removal:
    """Those of these trajectories that can be deleted now. Changes nothing.

    Args:
        store: The store.
        ids: The trajectories.
        whole: The project, experiment or run that goes whole: with what was recorded for its groups.
    """
    rows = [
        row
        for row in read_summaries(TableStore(address_in(store)))
        if row["trajectory_id"] in ids or (whole and all(row[name] == value for name, value in whole.items()))
    ]
    ended = {row["trajectory_id"] for row in rows if row["status"] != "running"}
    running = len(rows) - len(ended)
    return Removal(by_place(rows, ended), {} if running else dict(whole), running)


def by_place(rows: Collection[Row], ids: Collection[str]) -> dict[Place, set[str]]:
    """Where some of these trajectories are."""
    places: dict[Place, set[str]] = {}
    for row in rows:
        if row["trajectory_id"] in ids:
            places.setdefault(_place(row), set()).add(row["trajectory_id"])
    return places


def foresee(
    store: Path, groups: Collection[frozenset[str]], chosen: Mapping[Place, Collection[str]], *, whole: bool
) -> Foreseen:
    """What pruning these groups would remove; `chosen` has their trajectories by place."""
    losing = find_prunable(TableStore(address_in(store)), chosen, whole=whole)
    ids = losing.ids
    return Foreseen(len(ids), sum(not ids.isdisjoint(group) for group in groups), losing.bytes)


def _choose(
    store: Store,
    tables: TableStore,
    rows: list[Row],
    where: str | None,
    older_than: str | None,
    max_size: str | None,
) -> Choice:
    if where is not None:
        ids = set(store.trajectories(where=where).arrow()["trajectory_id"].to_pylist())
        return _choose_groups(rows, lambda group: not ids.isdisjoint(group.ids))
    if older_than is not None:
        limit_ns = time.time_ns() - round(age_sec("--older-than", older_than) * 1e9)
        return _choose_groups(rows, lambda group: all(_end_ns(row) < limit_ns for row in group.rows))
    places = _above_size(tables, rows, size_of("--max-size", max_size))
    return _choose_groups(rows, lambda group: _place(group.rows[0]) in places)


def _above_size(tables: TableStore, rows: list[Row], limit: int) -> set[Place]:
    """The steps that ended first, until what is left is below the limit."""
    ends: dict[Place, int] = {}
    for row in rows:
        ends[_place(row)] = max(_end_ns(row), ends.get(_place(row), 0))
    sizes: dict[Place, int] = {}
    for schema in TABLE_SCHEMAS:
        for file in tables.files(schema.name):
            sizes[file.place] = sizes.get(file.place, 0) + file.size_bytes
    left = sum(sizes.values())
    places: set[Place] = set()
    for place in sorted(ends, key=ends.__getitem__):
        if left <= limit:
            break
        places.add(place)
        left -= sizes.get(place, 0)
    return places


def _choose_groups(rows: list[Row], is_meant: Callable[[Group], bool]) -> Choice:
    """Those of the groups that are meant which are not going on."""
    return choose_groups([group for group in groups_of(rows) if is_meant(group)], lambda group: None)


def _place(row: Row) -> Place:
    return Place(row["project"], row["experiment"], row["step"])


def _end_ns(row: Row) -> Any:
    return row["end_ns"] or row["start_ns"] or 0
