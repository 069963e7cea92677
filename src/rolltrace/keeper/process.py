"""The drainer as a process of its own: started on demand, one per host and store, gone when idle.

    python -m rolltrace.keeper STORE

It also keeps the store in shape (`upkeep`), and sees to it that what is drained is sent on, by processes of their own
(`senders`), which outlive it if needed.
Whoever begins a journal file sees to it that a drainer runs (`_launch`). It holds a lock while it lives, so two that
start at once are one a moment later; when it is killed, the next file that any writer begins starts it again.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path

from rolltrace._guard import caught, logger
from rolltrace.drain import Drainer
from rolltrace.files import can_map
from rolltrace.journal import drainer_lock, journal_files, journal_folder, note_undrained, remove_spares
from rolltrace.keeper.plugin_checks import PluginChecks
from rolltrace.keeper.sender_processes import SenderProcesses
from rolltrace.keeper.upkeep import Upkeep
from rolltrace.store import GRACE_SEC

_LOOK_EVERY_SEC = 0.5
_IDLE_SEC = 60.0
_ALLOCATIONS_PER_COLLECTION = 70_000


def collect_rarely() -> None:
    """Let Python look for garbage in cycles a hundred times more rarely, in a process that does nothing but drain.

    Draining makes a great many containers and no cycles: looking for them took an eighth of its time.
    """
    gc.set_threshold(_ALLOCATIONS_PER_COLLECTION)


def run(store: Path) -> int:
    """Drain until there is nothing to wait for, unless another drainer does. Gives the exit code."""
    with drainer_lock(journal_folder(store)) as alone:
        if alone:
            follow(store)
    return 0


def follow(store: Path, *, idle_sec: float = _IDLE_SEC, grace_sec: float = GRACE_SEC, threads: bool = False) -> None:
    """Drain until no journal is left, or there was no news for `idle_sec`. The caller holds the lock.

    Args:
        store: The store.
        idle_sec: How long to wait for news.
        grace_sec: How long parts that were replaced by others stay, for those who are reading them.
        threads: Send in threads, where no process may be started.
    """
    try:
        _follow(store, idle_sec=idle_sec, grace_sec=grace_sec, threads=threads)
    finally:
        remove_spares(journal_folder(store))


def _follow(store: Path, *, idle_sec: float, grace_sec: float, threads: bool) -> None:
    plugins = PluginChecks(store)
    # Where journals are appended to, nobody would take them.
    drainer = Drainer(store, on_ended=plugins.on_ended, makes_spares=can_map(journal_folder(store)))
    senders = SenderProcesses(store, threads=threads)
    upkeep = Upkeep(store, grace_sec=grace_sec)
    try:
        _keep_house(store, plugins, drainer, senders, upkeep, idle_sec)
    finally:
        upkeep.close()


def _keep_house(
    store: Path, plugins: PluginChecks, drainer: Drainer, senders: SenderProcesses, upkeep: Upkeep, idle_sec: float
) -> None:
    last_news = time.monotonic()
    while True:
        try:
            news = drainer.drain()
        except OSError as fault:  # a full disk, most likely; the journals wait
            logger.warning("draining is postponed: %s", fault)
            news = 0
        checked = _check_next(plugins)
        news += checked
        senders.wake(news=news > 0)
        now = time.monotonic()
        if news:
            last_news = now
        note_undrained(store)
        worked = upkeep.turn(news=news > 0)
        idle = now - last_news > (idle_sec if journal_files(store) else idle_sec / 10)
        if idle and not worked and not upkeep.waits:
            return
        if not checked and not worked:
            time.sleep(_LOOK_EVERY_SEC)


def _check_next(plugins: PluginChecks) -> bool:
    """Other people's checks on some trajectories, then it is draining's turn again: whether there were any."""
    try:
        return plugins.check_next()
    except Exception:
        caught("plug-in checks")
        return False


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
                note_undrained(store)
                if not drainer.postponed:
                    return 0
        if not drainer.waiting():
            return 0
        time.sleep(_LOOK_EVERY_SEC)
