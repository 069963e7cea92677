"""See to it that every backend that this store goes to has a sender at work on this host."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from rolltrace.drain import Redactor
from rolltrace.errors import FormatError
from rolltrace.journal import SegmentReader, journal_files, make_folder, open_file
from rolltrace.store import note_routes, outboxes, routes, sender_folder

STOPPED = 3
"""A sender's exit code: do not start it again, somebody must do something first."""
_SECONDS_BETWEEN = 5.0


class Senders:
    """Starts a process for each backend, and again when one was killed or there is news for it.

    They are not the keeper's to end: each leaves by itself when there is nothing left to do.
    """

    def __init__(self, store: Path, *, threads: bool = False) -> None:
        self._store = store
        self._threads = threads
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._following: set[str] = set()
        self._started: dict[str, float] = {}
        self._stopped: set[str] = set()
        self._known: set[Path] = set()
        self._redactor = Redactor.of(store)

    def wake(self, *, news: bool) -> None:
        """Start the senders that are needed and not at work.

        Args:
            news: There is something new in the store; senders that had nothing left to do are needed again.
        """
        self._note_routes()
        for name in outboxes(self._store):
            if name not in self._stopped and routes(self._store, name):
                self._see_to(name, news)

    def _note_routes(self) -> None:
        """From live journals too: sending need not wait until the first of them is drained."""
        listed = set(journal_files(self._store))
        for path in listed - self._known:
            try:
                note_routes(self._store, self._redactor.segment(SegmentReader.open(path)).meta)
            except (OSError, FormatError):  # drained meanwhile, or not ours
                continue
        self._known = listed

    def _see_to(self, name: str, news: bool) -> None:
        if self._threads:
            if name not in self._following:
                from rolltrace.keeper.follower import (
                    follow_in_thread,
                )  # with all of query: not in the drainer's process

                self._following.add(name)
                follow_in_thread(self._store, name)
            return
        process = self._processes.get(name)
        code = None if process is None else process.poll()
        if process is not None and code is None:
            return
        if code == STOPPED:
            self._stopped.add(name)
            return
        fell = code not in (None, 0)
        first = name not in self._started
        if (first or news or fell) and time.monotonic() - self._started.get(name, -1e9) > _SECONDS_BETWEEN:
            self._started[name] = time.monotonic()
            self._processes[name] = self._start(name)

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        folder = sender_folder(self._store, name)
        make_folder(folder)
        with open(folder / "sender.log", "ab", opener=open_file) as log:
            return subprocess.Popen(
                [sys.executable, "-m", "rolltrace.keeper.follower", str(self._store), name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "ROLLTRACE_BACKEND": ""},
            )
