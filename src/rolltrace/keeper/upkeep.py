"""What a store needs besides draining: merging parts, removing those that were merged, applying its retention policy.

Draining comes first, but not alone: under a steady load there is always something to drain, and a store that is never
merged becomes slow. So upkeep has a share of the time of its own, and all of it when there is nothing to drain.
"""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa

from rolltrace._guard import caught, logger
from rolltrace.keeper.policy import policy_changed_ns
from rolltrace.keeper.shipped import remove_shipped, shipped_policy
from rolltrace.lake import choosing, kinds
from rolltrace.store import (
    GRACE_SEC,
    Lease,
    compact,
    finished_steps,
    other_hosts,
    part_entries,
    pruning_is_planned,
    remove_abandoned,
    remove_replaced,
    step_folders,
)

_SHARE = 0.2
"""How much of the time upkeep may take while there is something to drain."""
_EVERY_SEC = 2.0
_TURN_SEC = 1.0
"""How long one turn takes, at most one merging more, before draining has its turn again."""
_SWEEP_EVERY_SEC = 300.0
_LOOK_AT_OTHERS_SEC = 30.0
_RETRY_SEC = 30.0
"""How long after a failure, such as a full disk, nothing is tried."""
_PARTS_WORTH_MERGING = 4
_FEW_STEPS = 8
_FEW_BYTES = 4 << 20


class Upkeep:
    """The upkeep of one store, a turn at a time. The caller holds the drainer's lock.

    What concerns the whole store is done by the one host that holds the lease (`store.lease`), for all of them.
    """

    def __init__(self, store: Path, *, grace_sec: float = GRACE_SEC) -> None:
        self._store = store
        self._lease = Lease(store)
        self._look_at = 0.0
        """When to look again at what other hosts have brought."""
        self._changed_ns: dict[Path, int] = {}
        """When the folder of each step changed last."""
        self._grace_sec = grace_sec
        self._due = True
        self._next_at = self._retry_at = 0.0
        self._sweep_at = 0.0
        self._unsummarised = True
        """Something was drained since all steps were summarised."""
        self._policy_ns = policy_changed_ns(store)
        self.waits = False
        """Replaced parts wait to be removed, or the host that would do it may be dead: somebody has to stay."""

    def close(self) -> None:
        """Let another host have its turn."""
        self._lease.release()

    def turn(self, *, news: bool) -> bool:
        """Do some of what is due; whether anything was. `news`: something was drained, and more may follow."""
        policy_ns = policy_changed_ns(self._store)
        self._unsummarised |= news
        if news or policy_ns != self._policy_ns:
            self._policy_ns, self._due = policy_ns, True
        begun = time.monotonic()
        self._lease.keep()
        if begun < self._retry_at:
            return False
        try:
            worked = self._turn(begun, news)
        except (OSError, pa.ArrowException) as fault:  # a full disk, most likely
            logger.warning("upkeep of the store is postponed: %s", fault)
            self._retry_at = time.monotonic() + _RETRY_SEC
            return False
        return worked

    def _turn(self, begun: float, news: bool) -> bool:
        if begun >= self._sweep_at:
            self._sweep_at = begun + _SWEEP_EVERY_SEC
            remove_abandoned(self._store)
        if begun >= self._look_at:
            self._look_at = begun + _LOOK_AT_OTHERS_SEC
            if self._others_have_news():
                self._due = self._unsummarised = True
        if begun < self._next_at and (news or not self._due):
            return False
        is_quiet = not news and self._unsummarised
        worked = (self._due or self.waits or is_quiet) and self._hold() and self._work(begun, is_quiet)
        took = time.monotonic() - begun
        self._next_at = begun + took + max(_EVERY_SEC, took * (1 - _SHARE) / _SHARE)
        return worked

    def _hold(self) -> bool:
        """Whether this host has the lease. When it gets it, there may be work that another host has left."""
        had = self._lease.epoch
        held = self._lease.hold()
        if not held:
            self.waits = not self._lease.looks_alive
        elif not had:
            self._due = self._unsummarised = True
        return held

    def _others_have_news(self) -> bool:
        """Whether something has come to the folders of steps since the last look, if other hosts may bring it."""
        if not other_hosts(self._store):
            return False
        before = self._changed_ns
        self._changed_ns = {folder: folder.stat().st_mtime_ns for folder in step_folders(self._store)}
        return self._changed_ns != before

    def _work(self, begun: float, is_quiet: bool) -> bool:
        was_due = self._due
        if self._due:
            self._due = self._merge(begun + _TURN_SEC) or self._retain()
        if (after_steps := shipped_policy(self._store)) is not None:
            remove_shipped(self._store, after_steps, epoch=self._lease.epoch)
        self.waits = remove_replaced(self._store, grace_sec=self._grace_sec)
        if not self._due and not self.waits:
            self._due = self._summarise(begun + _TURN_SEC, is_quiet)
        return was_due

    def _merge(self, deadline: float) -> bool:
        """Merge parts; whether there is more to merge."""
        with choosing(self._store, patience_sec=_TURN_SEC) as alone:
            return self._merge_chosen(deadline) if alone else True

    def _merge_chosen(self, deadline: float) -> bool:
        finished, epoch, kind_of = finished_steps(self._store), self._lease.epoch, kinds(self._store)
        running = compact(
            self._store,
            steps=lambda folder: not finished(folder),
            running=lambda folder: True,
            kind_of=kind_of,
            deadline=deadline,
            epoch=epoch,
        )
        if running.more:
            return True
        return compact(
            self._store,
            steps=finished,
            fewest_parts=_PARTS_WORTH_MERGING,
            kind_of=kind_of,
            deadline=deadline,
            epoch=epoch,
        ).more

    def _summarise(self, deadline: float, is_quiet: bool) -> bool:
        """Make the summaries of steps that get no more rows; whether there are more to make.

        When nothing was drained, the newest step gets one too, though it may go on.
        """
        if not self._is_worth_summarising():
            self._unsummarised = False
            return False

        from rolltrace.query import summarise_steps  # loads the query side: only where it is needed

        try:
            more = summarise_steps(
                self._store, steps=None if is_quiet else finished_steps(self._store), deadline=deadline
            )
        except Exception:
            caught("summaries")
            more = False
        if is_quiet and not more:
            self._unsummarised = False
        return more

    def _is_worth_summarising(self) -> bool:
        """Whether questions are slow enough without: a small store answers as fast from its parts."""
        folders = list(step_folders(self._store))
        if len(folders) > _FEW_STEPS:
            return True
        sizes = (entry.stat(follow_symlinks=False).st_size for folder in folders for entry in part_entries(folder))
        return sum(sizes) > _FEW_BYTES

    def _retain(self) -> bool:
        """Apply the store's policy, if it has one; whether there is more to do."""
        if self._policy_ns is None and not pruning_is_planned(self._store):
            return False
        from rolltrace.keeper.retention import apply_policy  # loads the query side: only where it is needed

        return apply_policy(self._store, epoch=self._lease.epoch)
