"""What `rolltrace prune` and `rolltrace rm` take, and what pruning would cost: looked up first, so that somebody can
say no.

Filters mean what they mean in a listing: of each step the newest run, unless they ask about runs. Age and size are
about all runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import pyarrow.compute as pc
import pyarrow.parquet as pq

from rolltrace._amounts import age_sec, size_of
from rolltrace.errors import StoreError
from rolltrace.keeper.groups import Choice, Group, Row, choose_groups, groups_of, parents_in
from rolltrace.keeper.pending import unsent
from rolltrace.query import Store, record_rows
from rolltrace.record import SPANS, TRAJECTORIES
from rolltrace.store import SCORE_KEY, Partition, list_parts, prunable, table_of

_TRIES = 5
T = TypeVar("T")


class Foreseen(NamedTuple):
    """What would go."""

    trajectories: int
    """Those that have something to lose."""
    groups: int
    bytes: int
    """About how much smaller the store would be."""


class Plan(NamedTuple):
    """What `rolltrace prune` would do, for somebody to agree to."""

    choice: Choice
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

    def look() -> tuple[Choice, Foreseen]:
        choice = _choose(store, where, older_than, max_size)
        return choice, foresee(store.path, choice.groups, whole=whole)

    choice, foreseen = undisturbed(store.path, look)
    return Plan(choice, foreseen, len(choice.drop & unsent(store)) if choice.groups else 0)


class Removal(NamedTuple):
    """What `rolltrace rm` would delete."""

    steps: dict[Partition, set[str]]
    scores: set[tuple[Any, ...]]
    """The `SCORE_KEY` of each score that they have."""
    left_alone: int
    """How many trajectories are still running, or not drained yet."""


def plan_removal(store: Store, ids: Collection[str], whole: Mapping[str, Any] = MappingProxyType({})) -> Removal:
    """Those of these trajectories that can be deleted now, by step. Changes nothing.

    Args:
        store: The store.
        ids: The trajectories.
        whole: The project, experiment or run that goes whole: with what was recorded for its groups.
    """
    listing = undisturbed(store.path, lambda: _list(store))
    steps: dict[Partition, set[str]] = {}
    left_alone = 0
    for row in listing.rows:
        if row["trajectory_id"] in ids or (whole and all(row[name] == value for name, value in whole.items())):
            if row["status"] == "running" or row["trajectory_id"] in listing.undrained:
                left_alone += 1
            else:
                steps.setdefault(_partition(row), set()).add(row["trajectory_id"])
    chosen = sorted(set().union(*steps.values()))
    sql = f"SELECT {', '.join(SCORE_KEY)} FROM scores WHERE trajectory_id IN (SELECT unnest(?::VARCHAR[]))"
    scores = {tuple(row.values()) for row in store.sql(sql, [chosen])}
    return Removal(steps, scores, left_alone)


def _choose(store: Store, where: str | None, older_than: str | None, max_size: str | None) -> Choice:
    if where is not None:
        return matching(store, where)
    if older_than is not None:
        return ended_before(store, time.time_ns() - round(age_sec("--older-than", older_than) * 1e9))
    return above_size(store, size_of("--max-size", max_size))


def matching(store: Store, where: str) -> Choice:
    """The groups of what a filter finds."""
    ids = set(store.trajectories(where=where).arrow()["trajectory_id"].to_pylist())
    return _chosen(_list(store), lambda group: not ids.isdisjoint(group.ids))


def ended_before(store: Store, limit_ns: int) -> Choice:
    """The groups of which every trajectory had ended by then."""
    return _chosen(_list(store), lambda group: all(_end_ns(row) < limit_ns for row in group.rows))


def above_size(store: Store, limit: int) -> Choice:
    """All groups of the steps that ended first, until what is left is below the limit."""
    listing = _list(store)
    steps: dict[Partition, list[Row]] = {}
    for row in listing.rows:
        steps.setdefault(_partition(row), []).append(row)
    sizes = {step: sum(file.stat().st_size for file in step.folder(store.path).glob("*.parquet")) for step in steps}
    left = sum(sizes.values())
    chosen: set[Partition] = set()
    for step in sorted(steps, key=lambda step: max(map(_end_ns, steps[step]))):
        if left <= limit:
            break
        chosen.add(step)
        left -= sizes[step]
    return _chosen(listing, lambda group: _partition(group.rows[0]) in chosen)


def foresee(
    store: Path,
    groups: Collection[frozenset[str]],
    *,
    whole: bool,
    steps: Callable[[Path], bool] = lambda folder: True,
) -> Foreseen:
    """What pruning these groups would remove. The arguments are those of `store.prune`."""
    losing = prunable(store, set().union(*groups), whole=whole, steps=steps)
    ids = losing.ids
    return Foreseen(len(ids), sum(not ids.isdisjoint(group) for group in groups), losing.bytes)


def undisturbed(store: Path, look: Callable[[], T]) -> T:
    """The result of looking at parts, which others may merge and remove meanwhile: then once more."""
    for _ in range(_TRIES):
        try:
            return look()
        except FileNotFoundError:
            continue
    raise StoreError(f"the store {str(store)!r} changes all the time; try again later")


def _chosen(listing: _Listing, is_meant: Callable[[Group], bool]) -> Choice:
    """Those of the groups that are meant which are not going on."""
    meant = [group for group in groups_of(listing.rows) if is_meant(group)]
    return choose_groups(meant, lambda group: None, undrained=listing.undrained)


class _Listing(NamedTuple):
    """All trajectories of a store."""

    rows: list[Row]
    undrained: set[str]
    """Those that are in journals alone."""


def _list(store: Store) -> _Listing:
    parts = list_parts(store.path)
    parents = parents_in(part for part in parts if table_of(part) == TRAJECTORIES.name)
    rows: list[Row] = [
        {**row, "parent_trajectory_id": parents.get(row["trajectory_id"])}
        for row in (*store.trajectories(all_runs=True).rows(), *record_rows(store))
    ]
    undrained = {row["trajectory_id"] for row in rows}.difference(parents)
    if undrained:  # ops outside of any trajectory have no row of their own, and are in the store all the same
        for part in parts:
            if table_of(part) == SPANS.name:
                ids = pq.read_table(part, columns=["trajectory_id"], partitioning=None)["trajectory_id"]
                undrained.difference_update(pc.unique(ids).to_pylist())
    return _Listing(rows, undrained)


def _partition(row: Row) -> Partition:
    return Partition(row["project"], row["experiment"], row["step"])


def _end_ns(row: Row) -> Any:
    return row["end_ns"] or row["start_ns"]
