"""Groups of trajectories, which lose their payloads whole or not at all: the one choice behind `prune` and `retain`.

A group is all rollouts of one sample in one step of one run, and what was recorded for them together. What was begun
inside a trajectory belongs to its group; a trajectory without a sample is a group of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

Row = Mapping[str, Any]
"""A row of `Store.trajectories`, with `parent_trajectory_id` if it was begun inside another, or of `record_rows`."""

WAITING = "waiting"
"""Why a group is left alone for now: one of its trajectories runs, is not in the store yet, or lacks its reward."""


class Group(NamedTuple):
    """Trajectories that stay together."""

    sample: tuple[Any, ...]
    roots: list[Row]
    """Those that were not begun inside another: the rollouts."""
    rows: list[Row]
    """All of them."""

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(row["trajectory_id"] for row in self.rows)

    def is_going_on(self, undrained: Container[str]) -> bool:
        return any(row["status"] == "running" or row["trajectory_id"] in undrained for row in self.rows)


class Choice(NamedTuple):
    """What becomes of each trajectory."""

    groups: list[frozenset[str]]
    """The groups that lose their payloads."""
    keep: dict[str, str]
    """Why each other trajectory is kept."""

    @property
    def drop(self) -> set[str]:
        return set().union(*self.groups)


def choose_groups(
    groups: Iterable[Group], why_kept: Callable[[Group], str | None], *, undrained: Container[str] = ()
) -> Choice:
    """Choose among groups; those that are still going on are left alone.

    Args:
        groups: From `groups_of`.
        why_kept: Says of a group why it is kept; None if it is not.
        undrained: Trajectories of which the store does not have everything yet.
    """
    choice = Choice([], {})
    for group in groups:
        why = WAITING if group.is_going_on(undrained) else why_kept(group)
        if why is None:
            choice.groups.append(group.ids)
        else:
            choice.keep.update(dict.fromkeys(group.ids, why))
    return choice


def groups_of(rows: Iterable[Row]) -> list[Group]:
    """The groups of these trajectories."""
    rows = list(rows)
    by_id = {row["trajectory_id"]: row for row in rows}
    groups: dict[tuple[Any, ...], Group] = {}
    for row in rows:
        root = row if row.get("is_group") else _root(row, by_id)
        sample = (str(root["sample_index"]),) if root["sample_index"] is not None else (None, root["trajectory_id"])
        key = (root["project"], root["experiment"], root.get("run"), root["step"], root["validate"], *sample)
        group = groups.setdefault(key, Group(sample, [], []))
        group.rows.append(row)
        if row is root and not row.get("is_group"):
            group.roots.append(row)
    return list(groups.values())


def _root(row: Row, by_id: Mapping[str, Row]) -> Row:
    """The trajectory that this one was begun in, as far out as they are known."""
    passed = {row["trajectory_id"]}
    while True:
        outer = by_id.get(row.get("parent_trajectory_id") or "")
        if outer is None or outer["trajectory_id"] in passed:
            return row
        row = outer
        passed.add(row["trajectory_id"])


def parents_in(parts: Iterable[Path]) -> dict[str, str | None]:
    """The trajectories that are in the store, each with the one it was begun in."""
    parents: dict[str, str | None] = {}
    for part in parts:
        rows = pq.read_table(part, columns=["trajectory_id", "parent_trajectory_id"], partitioning=None)
        parents.update(zip(rows["trajectory_id"].to_pylist(), rows["parent_trajectory_id"].to_pylist()))
    return parents
