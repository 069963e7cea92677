"""Apply the policy of a store to its finished steps, when their outcome is known.

A step is looked at again when rows of its summary have come since (a late reward, a straggler), or when the policy has
changed; how much there was the last time is remembered beside the journals of this host. That only saves work:
pruning what was pruned changes nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rolltrace._guard import caught
from rolltrace.files import read_page, replace_file
from rolltrace.journal import journal_folder
from rolltrace.keeper.groups import WAITING, Choice, Row, parents_in
from rolltrace.keeper.pending import unsent
from rolltrace.keeper.policy import RetentionPolicy, as_command, choose, read_policy
from rolltrace.query import Store, open_store, record_rows
from rolltrace.record import FLAGS, SCORES, TRAJECTORIES
from rolltrace.store import (
    Partition,
    Pruned,
    data_folder,
    escape,
    finish_pruning,
    finished_steps,
    list_parts,
    prune,
    row_count,
    source_of,
    step_folder,
    step_of,
    table_of,
    undrained_sources,
)

REASON = "retention"
"""Why, in `losses`."""
_OUTCOME = (TRAJECTORIES.name, SCORES.name, FLAGS.name)
"""The tables that the choice is made from."""
_STEPS_AT_ONCE = 8
"""After so many the keeper looks at the journals again."""


class Decision(NamedTuple):
    """What the policy says of the steps that are due."""

    steps: list[Path]
    """The folders of these steps."""
    groups: list[frozenset[str]]
    """The groups that lose their payloads."""
    keep: Counter[str]
    """How many trajectories are kept, by reason."""
    more: bool
    """There are further steps."""
    size: dict[Path, tuple[int, ...]]
    """How many rows each step had."""

    @property
    def drop(self) -> set[str]:
        return set().union(*self.groups)


def apply_policy(store: Path, *, epoch: int = 0) -> bool:
    """Apply the policy to some of the steps that are due; whether there are more.

    A policy that cannot be used, or an internal error, is reported and does not stop draining.
    """
    try:
        finish_pruning(store, epoch=epoch)
        policy = read_policy(store)
        return policy is not None and retain(store, policy, at_once=_STEPS_AT_ONCE, epoch=epoch).more
    except Exception:
        caught("retention")
        return False


class Retained(NamedTuple):
    """What was done."""

    pruned: Pruned
    steps: int
    more: bool


def retain(
    store: Path,
    policy: RetentionPolicy,
    *,
    at_once: int | None = None,
    epoch: int = 0,
    decision: Decision | None = None,
) -> Retained:
    """Remove what the policy does not keep.

    Args:
        store: The store.
        policy: What to keep.
        at_once: How many steps at most.
        epoch: Of the lease under which this is done.
        decision: What somebody has agreed to; made now if not given.
    """
    decision = decide(store, policy, at_once=at_once) if decision is None else decision
    pruned = Pruned(0, 0, 0)
    if decision.groups:
        folders = set(decision.steps)
        pruned = prune(
            store,
            decision.drop,
            whole=policy.whole,
            reason=REASON,
            policy=as_command(policy),
            steps=folders.__contains__,
            epoch=epoch,
        )
    if decision.size:
        _remember(store, policy, decision.size)
    return Retained(pruned, len(decision.steps), decision.more)


def decide(store: Path, policy: RetentionPolicy, *, at_once: int | None = None) -> Decision:
    """What the policy says of the finished steps that it has not been applied to, as they are now."""
    parts = _parts_by_folder(store)
    due = _due(store, policy, parts)
    decision = Decision(due[:at_once], [], Counter(), at_once is not None and len(due) > at_once, {})
    if not due:
        return decision
    asked = open_store(store)
    asked.refresh()  # also what is too much for a question: a reward in a journal may be what keeps a trajectory
    waiting = unsent(asked)
    for folder in decision.steps:
        choice = _choose(asked, folder, policy, parts, waiting)
        decision.groups.extend(choice.groups)
        decision.keep.update(choice.keep.values())
        if waiting.isdisjoint(choice.keep):  # else it is looked at again: sending changes no row
            decision.size[folder] = _size(folder, parts, waiting=WAITING in choice.keep.values())
    return decision


def _parts_by_folder(store: Path) -> dict[Path, list[Path]]:
    folders: dict[Path, list[Path]] = defaultdict(list)
    for part in list_parts(store):
        folders[part.parent].append(part)
    return folders


def _due(store: Path, policy: RetentionPolicy, parts: dict[Path, list[Path]]) -> list[Path]:
    """The finished steps in which something is new, the first ones first."""
    finished = finished_steps(store, later=policy.after_steps)
    experiments = {f"experiment={escape(name)}" for name in policy.experiments}
    remembered = _recall(store, policy)
    undrained = undrained_sources(store)
    due = []
    for folder, own in parts.items():
        if not finished(folder) or (experiments and folder.parent.name not in experiments):
            continue
        before = remembered.get(_name(store, folder))
        if before in [_size(folder, parts, waiting=waiting) for waiting in (False, True)]:
            continue
        # While a drainer is at it: the next time. With a damaged part: who knows what it says about the others.
        if not any(source_of(part) in undrained or row_count(part) is None for part in own):
            due.append(folder)
    return sorted(due, key=lambda folder: (folder.parent, step_of(folder)))


def _size(folder: Path, parts: dict[Path, list[Path]], *, waiting: bool) -> tuple[int, ...]:
    """How many rows the choice is made from. A reward that is waited for may be given by id alone, without a step."""
    rows = [sum(_rows(part) for part in parts[folder] if table_of(part) == table) for table in _OUTCOME]
    if waiting:
        elsewhere = parts.get(folder.with_name(step_folder(None)), [])
        rows.append(sum(_rows(part) for part in elsewhere if table_of(part) == SCORES.name))
    return tuple(rows)


def _choose(
    asked: Store, folder: Path, policy: RetentionPolicy, parts: dict[Path, list[Path]], waiting: set[str]
) -> Choice:
    store = asked.path
    parents = parents_in(part for part in parts[folder] if table_of(part) == TRAJECTORIES.name)
    step = step_of(folder)
    rows: list[Row] = [
        {**row, "parent_trajectory_id": parents.get(row["trajectory_id"])}
        for row in (*asked.trajectories(step=step, all_runs=True).rows(), *record_rows(asked, step))
        if Partition(row["project"], row["experiment"], row["step"]).folder(store) == folder
    ]
    rewarded: set[tuple[str, str]] = set()
    if rows and all(row["reward"] is None for row in rows) and _has_rewards(folder.parent, parts):
        rewarded = {(row["project"], row["experiment"]) for row in rows}
    undrained = {row["trajectory_id"] for row in rows}.difference(parents) | waiting
    return choose(rows, policy, rewarded=rewarded, undrained=undrained)


def _has_rewards(experiment: Path, parts: dict[Path, list[Path]]) -> bool:
    """Whether rewards are in use in an experiment at all."""
    scores = (part for folder, own in parts.items() if folder.parent == experiment for part in own)
    return any(_rewards(part) for part in scores if table_of(part) == SCORES.name)


@lru_cache(maxsize=65_536)  # a part never changes
def _rewards(part: Path) -> bool:
    rows = pq.read_table(part, columns=["name", "value"], partitioning=None)
    return bool(pc.any(pc.and_(pc.equal(rows["name"], "reward"), pc.is_valid(rows["value"]))).as_py())


@lru_cache(maxsize=65_536)
def _rows(part: Path) -> int:
    try:
        return int(pq.read_metadata(part).num_rows)
    except (OSError, pa.ArrowException):  # damaged: `rolltrace doctor` says so
        return 0


class _Memory(msgspec.Struct):
    """Of one policy: how many rows each step had when it was applied."""

    policy: RetentionPolicy
    steps: dict[str, tuple[int, ...]]


def _memory_file(store: Path) -> Path:
    return journal_folder(store) / "retention.done"


def _name(store: Path, folder: Path) -> str:
    return str(folder.relative_to(data_folder(store)))


def _recall(store: Path, policy: RetentionPolicy) -> dict[str, tuple[int, ...]]:
    try:
        memory = msgspec.json.decode(read_page(_memory_file(store)), type=_Memory)
    except (OSError, msgspec.MsgspecError):
        return {}
    return memory.steps if memory.policy == policy else {}


def _remember(store: Path, policy: RetentionPolicy, sizes: dict[Path, tuple[int, ...]]) -> None:
    steps = {**_recall(store, policy), **{_name(store, folder): size for folder, size in sizes.items()}}
    replace_file(_memory_file(store), msgspec.json.encode(_Memory(policy, steps)))
