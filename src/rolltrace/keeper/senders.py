"""See to it that a sender runs on this host for every backend that this store goes to."""

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
