"""Which groups of a finished step lose their payloads by a policy: a pure function of their rows and the policy."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable
from typing import Any

import xxhash

from rolltrace.keeper.groups import WAITING, Choice, Group, Row, choose_groups, groups_of
from rolltrace.keeper.policy import Policy

FAILED = ("error", "interrupted")
SHARE = "share"
"""Why a group is kept that has no other reason; the others are the words of `keep` of the policy, and `waiting`."""


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
    groups = groups_of(rows)
    roots = [row for group in groups for row in group.roots]
    in_use = {(row["project"], row["experiment"]) for row in roots if row["reward"] is not None}
    slowest = _slowest(roots, policy.slowest_percent) if "slowest" in policy.keep else set()

    def why_kept(group: Group) -> str | None:
        first = group.rows[0]
        place = (first["project"], first["experiment"])
        if (place in in_use or place in rewarded) and _lacks_a_reward(group):
            return WAITING
        return _reason(group, policy, slowest)

    return choose_groups(groups, why_kept, undrained=undrained)


def _lacks_a_reward(group: Group) -> bool:
    """One that failed or was cancelled will get none."""
    return any(row["status"] == "ok" and row["reward"] is None for row in group.roots)


def _reason(group: Group, policy: Policy, slowest: Container[str]) -> str | None:
    """Why the policy keeps it; None if it does not."""
    rewards = [row["reward"] for row in group.roots if row["reward"] is not None and not math.isnan(row["reward"])]
    found = {
        "errors": any(row["status"] in FAILED for row in group.rows),
        "extremes": bool(rewards) and min(rewards) != max(rewards),
        "slowest": any(row["trajectory_id"] in slowest for row in group.roots),
        "flagged": any(set(row["flags"]).intersection(policy.flags or row["flags"]) for row in group.rows),
    }
    for word in policy.keep:
        if found[word]:
            return word
    return SHARE if _fraction(group.sample, policy.seed) < policy.share else None


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
