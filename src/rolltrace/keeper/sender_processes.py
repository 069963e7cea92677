"""Start a sender on this host for every backend that this store goes to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from rolltrace.files import make_folder, open_file
from rolltrace.tables import outboxes, routes, sender_folder

STOPPED = 3
"""A sender's exit code: do not start it again, somebody must do something first."""
_RESTART_SEC = 5.0


class SenderProcesses:
    """Starts a process for each backend, and again when one was killed or there is news for it.

    They are not the keeper's to end: each leaves by itself when there is nothing left to do.
    """

    def __init__(self, store: Path, *, threads: bool = False) -> None:
        self._store = store
        self._threads = threads
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._in_threads: set[str] = set()
        self._started: dict[str, float] = {}
        self._stopped: set[str] = set()

    def wake(self, *, news: bool) -> None:
        """Start the senders that are needed and not at work.

        Args:
            news: There is something new in the store; senders that had nothing left to do are needed again.
        """
        for name in outboxes(self._store):
            if name not in self._stopped and routes(self._store, name):
                self._ensure(name, news)

    def _ensure(self, name: str, news: bool) -> None:
        if self._threads:
            if name not in self._in_threads:
                self._in_threads.add(name)
                from rolltrace.keeper.sender_loop import send_in_thread  # with all of query: not in a drainer's process

                send_in_thread(self._store, name)
            return
        process = self._processes.get(name)
        code = None if process is None else process.poll()
        if process is not None and code is None:
            return
        if code == STOPPED:
            self._stopped.add(name)
            return
        crashed = code not in (None, 0)
        first = name not in self._started
        if (first or news or crashed) and time.monotonic() - self._started.get(name, -1e9) > _RESTART_SEC:
            self._started[name] = time.monotonic()
            self._processes[name] = self._start(name)

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        folder = sender_folder(self._store, name)
        make_folder(folder)
        with open(folder / "sender.log", "ab", opener=open_file) as log:
            return subprocess.Popen(
                [sys.executable, "-m", "rolltrace.keeper.sender_loop", str(self._store), name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "ROLLTRACE_BACKEND": ""},
            )
