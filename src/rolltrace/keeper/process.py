"""The drainer as a process of its own: started on demand, one per host and store, gone when idle.

    python -m rolltrace.keeper STORE

It also keeps the store in shape (`upkeep`), and sees to it that what is drained is sent on, by processes of their own
(`Senders`), which outlive it if needed.
Whoever begins a journal file sees to it that a drainer runs (`_launch`). It holds a lock while it lives, so two that
start at once are one a moment later; when it is killed, the next file that any writer begins starts it again.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rolltrace._guard import caught, logger
from rolltrace.drain import Follower
from rolltrace.errors import OutageError
from rolltrace.files import make_folder, open_file
from rolltrace.journal import drainer_lock, journal_files, journal_folder, note_drainer, note_undrained
from rolltrace.keeper.plugin_checks import PluginChecks
from rolltrace.keeper.upkeep import Upkeep, settle_steps
from rolltrace.tables import outboxes, routes, sender_folder

COMMIT_EVERY_SEC = 2.0
"""How often what was recorded becomes readable. A commit costs the same however little it holds."""
_LOOK_EVERY_SEC = 0.25
_IDLE_SEC = 60.0
_ALLOCATIONS_PER_COLLECTION = 70_000
STOPPED = 3
"""A sender's exit code: do not start it again, somebody must do something first."""
_RESTART_SEC = 5.0


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


def follow(
    store: Path, *, idle_sec: float = _IDLE_SEC, threads: bool = False, ended: threading.Event | None = None
) -> None:
    """Drain until no journal is left, there was no news for `idle_sec`, or `ended` is set. The caller holds the
    lock. With `threads`, it sends in threads, where no process may be started."""
    plugins = PluginChecks(store)
    senders = Senders(store, threads=threads)
    follower = Follower(store)
    upkeep = Upkeep(store)
    last_news = time.monotonic()
    next_at = 0.0
    while True:
        now = time.monotonic()
        news, checked = 0, False
        if now >= next_at:
            try:
                news = follower.drain()
            except (OSError, OutageError) as error:  # a full disk, or a bucket that does not answer; the journals wait
                logger.warning("draining is postponed: %s", error)
            next_at = time.monotonic() + COMMIT_EVERY_SEC
            checked = _check_next(plugins)
            senders.wake(news=news > 0 or checked)
            note_undrained(store)
            note_drainer(store)
        if news or checked:
            last_news = now
        upkeep.turn(news=news > 0)
        idle = now - last_news > (idle_sec if journal_files(store) else idle_sec / 10)
        if idle and not upkeep.waits:
            return
        if ended is not None and ended.is_set():
            upkeep.wait()
            return
        if not checked:
            # A writer that waits in `flush` has begun a new file: it is not kept waiting.
            time.sleep(_LOOK_EVERY_SEC)
            if follower.has_sealed_files():
                next_at = 0.0


def _check_next(plugins: PluginChecks) -> bool:
    """Other people's checks on some trajectories, then it is draining's turn again: whether there were any."""
    try:
        return plugins.check_next()
    except Exception:
        caught("plug-in checks")
        return False


def run_once(
    store: Path,
    progress: Callable[[int, int], None] = lambda done, total: None,
    folders: frozenset[Path] | None = None,
) -> int:
    """Drain all that waits now, after whoever is draining at the moment: on this host, or in the `folders` of one
    that is gone. `progress` is told how many bytes are done, and of how many. Gives the exit code."""
    plugins = PluginChecks(store)
    follower = Follower(store, folders=folders)
    while True:
        with follower.working() as alone:
            if alone:
                follower.drain(progress)
                while _check_next(plugins):
                    pass
                note_undrained(store)
                if not follower.postponed:
                    if follower.batches:
                        settle_steps(store)
                    return 0
        time.sleep(_LOOK_EVERY_SEC)


class Senders:
    """Starts a process for each backend, and again when one was killed or there is news for it.

    They are not the keeper's to end: each leaves by itself when there is nothing left to do.
    """

    def __init__(self, store: Path, *, threads: bool = False) -> None:
        self._store = store
        self._threads = threads
        self._processes: dict[str, subprocess.Popen[bytes] | None] = {}
        """By backend; None for a thread."""
        self._started: dict[str, float] = {}

    def wake(self, *, news: bool) -> None:
        """Start the senders that are needed and not at work. With `news`, those that had nothing left to do are
        needed again."""
        for name in outboxes(self._store):
            if not routes(self._store, name):
                continue
            if name not in self._processes:
                self._start(name)
            elif (process := self._processes[name]) is not None:
                is_needed = process.poll() not in (None, STOPPED) and (news or process.returncode != 0)
                if is_needed and time.monotonic() - self._started[name] > _RESTART_SEC:
                    self._start(name)

    def _start(self, name: str) -> None:
        self._started[name] = time.monotonic()
        if self._threads:
            from rolltrace.keeper.sender_loop import send_in_thread  # with all of query: not in a drainer's process

            self._processes[name] = None
            send_in_thread(self._store, name)
            return
        folder = sender_folder(self._store, name)
        make_folder(folder)
        with open(folder / "sender.log", "ab", opener=open_file) as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "rolltrace.keeper.sender_loop", str(self._store), name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "ROLLTRACE_BACKEND": ""},
            )
