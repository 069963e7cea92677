"""Apply the policy of a store to its finished steps, when their outcome is known.

A step is looked at when it has settled, and again when it was compacted since (a late reward, a straggler), or when the
policy has changed; which files of `trajectories` it had the last time is remembered beside the journals of this host.
That only saves work: pruning what was pruned changes nothing.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import msgspec

from rolltrace._guard import caught
from rolltrace.files import read_page, replace_file
from rolltrace.journal import journal_folder
from rolltrace.keeper.pending import unsent
from rolltrace.keeper.policy import RetentionPolicy, as_command, choose, read_policy
from rolltrace.keeper.pruning import Choice, read_summaries
from rolltrace.query import open_store
from rolltrace.tables import (
    Place,
    Pruned,
    TableStore,
    address_in,
    find_moving,
    open_scan,
    prune_payloads,
    read_files,
)

REASON = "retention"
"""Why, in `losses`."""
_MAX_STEPS = 8
"""After so many the keeper looks at what else is to be done."""


class Decision(NamedTuple):
    """What the policy says of the steps that are due."""

    steps: list[Place]
    groups: list[frozenset[str]]
    """The groups that lose their payloads."""
    chosen: dict[Place, set[str]]
    """The trajectories in them, by step."""
    keep: Counter[str]
    """How many trajectories are kept, by reason."""
    more: bool
    """There are further steps."""
    known: dict[Place, str]
    """The files that each step was read from."""


def apply_policy(store: Path) -> bool:
    """Apply the policy to some of the steps that are due; whether there are more.

    A policy that cannot be used, or an internal error, is reported and does not stop draining.
    """
    try:
        policy = read_policy(store)
        if policy is None:
            return False
        decision = decide(store, policy, max_steps=_MAX_STEPS, only_settled=True)
        return retain(store, policy, decision=decision).more
    except Exception:
        caught("retention")
        return False


class Retained(NamedTuple):
    """What was done."""

    pruned: Pruned
    steps: int
    more: bool


def retain(
    store: Path, policy: RetentionPolicy, *, decision: Decision | None = None, at_once: bool = False
) -> Retained:
    """Remove what the policy does not keep, by a decision that somebody has agreed to, or one that is made now. With
    `at_once`, old files are deleted now, not when `vacuum` comes by."""
    decision = decide(store, policy) if decision is None else decision
    pruned, tables = Pruned(0, 0, 0), TableStore(address_in(store))
    if decision.chosen:
        command = as_command(policy)
        pruned = prune_payloads(
            tables, decision.chosen, whole=policy.whole, reason=REASON, policy=command, at_once=at_once
        )
    if decision.known:
        steps = _recall(store, policy) | {_name(place): path for place, path in decision.known.items()}
        replace_file(_memory_file(store), msgspec.json.encode(_Memory(policy, steps)))
    return Retained(pruned, len(decision.steps), decision.more)


def decide(
    store: Path, policy: RetentionPolicy, *, max_steps: int | None = None, only_settled: bool = False
) -> Decision:
    """What the policy says of the finished steps that it has not been applied to, as they are now. With
    `only_settled` without steps that were not compacted yet: what comes at last may be the reward that keeps a
    trajectory."""
    tables = TableStore(address_in(store))
    due = _find_due(store, policy, tables, only_settled=only_settled)
    steps = list(due)[:max_steps]
    decision = Decision(steps, [], {}, Counter(), len(steps) < len(due), {})
    if not steps:
        return decision
    waiting = unsent(open_store(store))
    for place in steps:
        choice = _choose(tables, place, policy, waiting)
        decision.groups.extend(choice.groups)
        if choice.groups:
            decision.chosen[place] = choice.drop
        decision.keep.update(choice.keep.values())
        if waiting.isdisjoint(choice.keep):  # else it is looked at again: sending changes no row
            decision.known[place] = due[place]
    return decision


def _find_due(store: Path, policy: RetentionPolicy, tables: TableStore, *, only_settled: bool) -> dict[Place, str]:
    """The finished steps in which something is new, the first ones first, with the names of the files of their
    trajectories."""
    files = tables.files("trajectories")
    moving = find_moving(files) if only_settled else set()
    begun: dict[tuple[str, str], set[int]] = {}
    names: dict[Place, str] = {}
    for file in sorted(files):
        if file.place.step is not None:
            begun.setdefault(file.place[:2], set()).add(file.place.step)
            names[file.place] = names.get(file.place, "") + file.path.rpartition("/")[2]
    remembered = _recall(store, policy)
    finished = (
        Place(*experiment, step)
        for experiment, steps in sorted(begun.items())
        if not policy.experiments or experiment[1] in policy.experiments
        for step in sorted(steps)[: -policy.after_steps]
    )
    return {
        place: names[place]
        for place in finished
        if place not in moving and remembered.get(_name(place)) != names[place]
    }


def _choose(tables: TableStore, place: Place, policy: RetentionPolicy, waiting: set[str]) -> Choice:
    rows = read_summaries(tables, [place])
    has_rewards = any(row["reward"] is not None for row in rows) or (rows and _has_rewards(tables, place))
    return choose(rows, policy, rewarded={place[:2]} if has_rewards else (), unsent=waiting)


def _has_rewards(tables: TableStore, place: Place) -> bool:
    """Whether rewards are in use in an experiment at all."""
    files = [file for file in tables.files("scores") if file.place[:2] == place[:2]]
    with open_scan() as connection:
        scores = read_files(connection, tables.address, "scores", files)
        sql = f"SELECT 1 FROM {scores} WHERE name = 'reward' AND value IS NOT NULL LIMIT 1"
        return bool(connection.sql(sql).fetchall())


class _Memory(msgspec.Struct):
    """Of one policy: which files each step had when it was applied."""

    policy: RetentionPolicy
    steps: dict[str, str]


def _memory_file(store: Path) -> Path:
    return journal_folder(store) / "retention.done"


def _name(place: Place) -> str:
    return msgspec.json.encode(place).decode()


def _recall(store: Path, policy: RetentionPolicy) -> dict[str, str]:
    try:
        memory = msgspec.json.decode(read_page(_memory_file(store)), type=_Memory)
    except (OSError, msgspec.MsgspecError):
        return {}
    return memory.steps if memory.policy == policy else {}
