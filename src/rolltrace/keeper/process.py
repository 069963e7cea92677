"""The drainer as a process of its own: started on demand, one per host and store, gone when idle.

    python -m rolltrace.keeper STORE

It also sees to it that what is drained is sent on, by processes of their own (`senders`), which outlive it if needed.
Whoever begins a journal file sees to it that a drainer runs (`_launch`). It holds a lock while it lives, so two that
start at once are one a moment later; when it is killed, the next file that any writer begins starts it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rolltrace._guard import caught, logger
from rolltrace.drain.drainer import Drainer
from rolltrace.journal import drainer_lock, journal_files, journal_folder
from rolltrace.keeper.plugin_checks import PluginChecks
from rolltrace.keeper.policy import policy_changed_ns
from rolltrace.keeper.senders import Senders
from rolltrace.store import compact, finished_steps, pruning_is_planned, step_folder

_LOOK_EVERY_SEC = 0.5
_IDLE_SEC = 60.0
_PARTS_WORTH_MERGING = 4
_LATE_PARTS_WORTH_MERGING = 32
"""Of what has no step, such as scores by id: it grows as long as the run does, so each merging rewrites all of it."""


def run(store: Path) -> int:
    """Drain until there is nothing to wait for, unless another drainer does. Gives the exit code."""
    with drainer_lock(journal_folder(store)) as alone:
        if alone:
            follow(store)
    return 0


def follow(store: Path, *, idle_sec: float = _IDLE_SEC, threads: bool = False) -> None:
    """Drain until no journal is left, or there was no news for `idle_sec`. The caller holds the lock.

    Args:
        store: The store.
        idle_sec: How long to wait for news.
        threads: Send in threads, where no process may be started.
    """
    plugins = PluginChecks(store)
    drainer = Drainer(store, on_ended=plugins.on_ended)
    senders = Senders(store, threads=threads)
    last_news = time.monotonic()
    compact_due = True
    policy_of_ns = policy_changed_ns(store)
    while True:
        try:
            news = drainer.drain()
        except OSError as fault:  # a full disk, most likely; the journals wait
            logger.warning("the drainer waits: %s", fault)
            news = 0
        checked = _check_next(plugins)
        news += checked
        senders.wake(news=news > 0)
        now = time.monotonic()
        if news:
            last_news = now
            compact_due = True
        elif policy_changed_ns(store) != policy_of_ns:
            policy_of_ns = policy_changed_ns(store)
            compact_due = True
        elif compact_due:  # nothing to drain at the moment: a good time
            compact(store, steps=finished_steps(store), fewest_parts=_PARTS_WORTH_MERGING)
            compact(
                store, steps=lambda folder: folder.name == step_folder(None), fewest_parts=_LATE_PARTS_WORTH_MERGING
            )
            compact_due = _keep_house(store)
        elif now - last_news > (idle_sec if journal_files(store) else idle_sec / 10):
            return
        if not checked:
            time.sleep(_LOOK_EVERY_SEC)


def _check_next(plugins: PluginChecks) -> bool:
    """Other people's checks on some trajectories, then it is draining's turn again: whether there were any."""
    try:
        return plugins.check_next()
    except Exception:
        caught("plug-in checks")
        return False


def _keep_house(store: Path) -> bool:
    """Apply the store's policy, if it has one; whether there is more to do."""
    if policy_changed_ns(store) is None and not pruning_is_planned(store):
        return False
    from rolltrace.keeper.retention import keep_house  # loads the query side: only where it is needed

    return keep_house(store)


def run_once(store: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Drain all that waits now, after whoever is draining at the moment. Gives the exit code."""
    plugins = PluginChecks(store)
    drainer = Drainer(store, on_ended=plugins.on_ended)
    while True:
        with drainer.working() as alone:
            if alone:
                drainer.drain(progress)
                while _check_next(plugins):
                    pass
                if not drainer.postponed:
                    return 0
        if not drainer.waiting():
            return 0
        time.sleep(_LOOK_EVERY_SEC)
