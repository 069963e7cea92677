"""Which trajectories of a finished step lose their payloads: a pure function of their rows and the policy.

Groups are kept or dropped whole. What was begun inside a trajectory belongs to its group.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

import xxhash

from rolltrace.keeper.policy import Policy

Row = Mapping[str, Any]
"""A row of `Store.trajectories`, with `parent_trajectory_id` if it was begun inside another."""

FAILED = ("error", "interrupted")
WAITING = "waiting"
"""Why a group is left alone for now: a trajectory of it still runs, or its reward has not come yet."""
SHARE = "share"


class Choice(NamedTuple):
    """What becomes of each trajectory."""

    drop: set[str]
    keep: dict[str, str]
    """Why each other one is kept: one of `keep` of the policy, `share` or `waiting`."""


def choose(
    rows: Iterable[Row],
    policy: Policy,
    *,
    rewarded: Container[tuple[str, str]] = (),
    undrained: Container[str] = (),
) -> Choice:
    """Choose from the trajectories of whole steps.

    Args:
        rows: All trajectories of one step or several.
        policy: What to keep.
        rewarded: The (project, experiment) that have rewards in other steps.
        undrained: Trajectories of which the store does not have everything yet.
    """
    groups = _groups(list(rows))
    roots = [row for group in groups for row in group.roots]
    in_use = {(row["project"], row["experiment"]) for row in roots if row["reward"] is not None}
    slowest = _slowest(roots, policy.slowest_percent) if "slowest" in policy.keep else set()
    choice = Choice(set(), {})
    for group in groups:
        first = group.rows[0]
        place = (first["project"], first["experiment"])
        if group.is_going_on(undrained) or ((place in in_use or place in rewarded) and group.lacks_a_reward()):
            why: str | None = WAITING
        else:
            why = group.reason(policy, slowest)
        for row in group.rows:
            if why is None:
                choice.drop.add(row["trajectory_id"])
            else:
                choice.keep[row["trajectory_id"]] = why
    return choice


class _Group(NamedTuple):
    key: tuple[Any, ...]
    roots: list[Row]
    """Those that were not begun inside another: the rollouts."""
    rows: list[Row]
    """All of them."""

    def is_going_on(self, undrained: Container[str]) -> bool:
        return any(row["status"] == "running" or row["trajectory_id"] in undrained for row in self.rows)

    def lacks_a_reward(self) -> bool:
        """One that failed or was cancelled will get none."""
        return any(row["status"] == "ok" and row["reward"] is None for row in self.roots)

    def reason(self, policy: Policy, slowest: Container[str]) -> str | None:
        """Why it is kept; None if it is not."""
        rewards = [row["reward"] for row in self.roots if row["reward"] is not None and not math.isnan(row["reward"])]
        found = {
            "errors": any(row["status"] in FAILED for row in self.rows),
            "extremes": bool(rewards) and min(rewards) != max(rewards),
            "slowest": any(row["trajectory_id"] in slowest for row in self.roots),
            "flagged": any(set(row["flags"]).intersection(policy.flags or row["flags"]) for row in self.rows),
        }
        for word in policy.keep:
            if found[word]:
                return word
        return SHARE if _fraction(self.key, policy.seed) < policy.share else None


def _groups(rows: list[Row]) -> list[_Group]:
    by_id = {row["trajectory_id"]: row for row in rows}
    groups: dict[tuple[Any, ...], _Group] = {}
    for row in rows:
        root = _root(row, by_id)
        # Without a sample there is no group: each stands alone.
        sample = (str(root["sample_index"]),) if root["sample_index"] is not None else (None, root["trajectory_id"])
        key = (root["project"], root["experiment"], root.get("run"), root["step"], root["validate"], *sample)
        group = groups.setdefault(key, _Group(sample, [], []))
        group.rows.append(row)
        if row is root:
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


def _slowest(rows: list[Row], percent: float) -> set[str]:
    """The slowest of each step, training and validation apart; at least one."""
    steps: dict[tuple[Any, ...], list[tuple[float, str]]] = defaultdict(list)
    for row in rows:
        if row["duration_s"] is not None:
            step = (row["project"], row["experiment"], row.get("run"), row["step"], row["validate"])
            steps[step].append((row["duration_s"], row["trajectory_id"]))
    return {
        trajectory_id
        for timed in steps.values()
        for _, trajectory_id in sorted(timed, reverse=True)[: math.ceil(len(timed) * percent / 100)]
    }


def _fraction(sample: tuple[Any, ...], seed: int) -> float:
    """A number from 0 to 1 that stays the same for a sample, in every step.

    Not the hash of `capture.sampling`: that has kept the smallest already, and a share of those would be all of them.
    """
    return xxhash.xxh3_64_intdigest(f"retention:{seed}:{sample[-1]}".encode()) / (1 << 64)
