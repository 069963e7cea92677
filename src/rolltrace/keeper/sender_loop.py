"""Send to one backend in the background, as long as there is something to send or somebody who may write more.

    python -m rolltrace.keeper.sender_loop STORE BACKEND

A process of its own for each backend: a vendor that is down, hangs or crashes delays neither the drainer nor the other
backends, and no vendor's library meets another's. In `drain="thread"` it is a thread.
"""

from __future__ import annotations

import atexit
import os
import random
import sys
import threading
import time
from pathlib import Path

from rolltrace import backends
from rolltrace._guard import logger
from rolltrace.backends import Backend
from rolltrace.errors import ConfigError, FilterError, MissingExtraError, OutageError
from rolltrace.journal import is_live, journal_files, own_folders
from rolltrace.keeper.clean_output import clean_log, clean_output
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import Pending, routed
from rolltrace.keeper.process import STOPPED
from rolltrace.keeper.sender import Sender
from rolltrace.query import open_store

HUNG = 4
"""Exit code: a call into the vendor's library did not return."""
_STOPS = (ConfigError, MissingExtraError, FilterError)
"""Errors that waiting does not mend."""
_LOOK_EVERY_SEC = 1.0
_LOOK_SHARE = 0.05
"""How much of the time may be spent on looking for what is new."""
_IDLE_SEC = 60.0
_OUTAGE_SEC = 600.0
"""How long after the last writer an outage is waited out. The next writer, or a command, goes on."""
_ROUND_SEC = 20.0
_HANG_SEC = 900.0
_LAST_SEC = 2.0
_FIRST_WAIT_SEC, _MAX_WAIT_SEC = 1.0, 300.0
_MAX_ERROR_CHARS = 2000


class Backoff:
    """How long to wait after failures: twice as long each time, with some chance in it, or as long as was asked for."""

    def __init__(self) -> None:
        self.failures = 0

    def failed(self, error: Exception) -> float:
        """Seconds until the next try."""
        wait = min(_MAX_WAIT_SEC, _FIRST_WAIT_SEC * (1 << min(self.failures, 16))) * random.uniform(0.5, 1.0)
        self.failures += 1
        asked = (error.retry_after_sec or 0.0) if isinstance(error, OutageError) else 0.0
        return max(wait, min(asked, _MAX_WAIT_SEC))

    def worked(self) -> None:
        self.failures = 0


class SenderLoop:
    """Looks for what is new, sends it, waits; one backend of one store."""

    def __init__(self, store: Path, name: str) -> None:
        self.outbox = Outbox(store, name)
        self.sender: Sender | None = None
        self.ended = threading.Event()
        """Set it to make `run` come to its end."""
        self._path = store
        self._store = open_store(store)
        self._backend: Backend | None = None
        self._backoff = Backoff()
        self._state = self.outbox.state
        self._state.stopped = self._state.last_error = self._state.next_try_ns = None
        self._state.updated = 0
        self._reported_at = 0.0
        self._look_sec = 0.0
        self._held_back_before = 0

    def run(self, *, idle_sec: float = _IDLE_SEC, outage_sec: float = _OUTAGE_SEC) -> int:
        """Go on until there is nothing to wait for. Gives the exit code."""
        try:
            return self._run(idle_sec, outage_sec)
        finally:
            if self._backend is not None:
                self._backend.close()

    def _run(self, idle_sec: float, outage_sec: float) -> int:
        last_news = last_writer = time.monotonic()
        next_try = 0.0
        busy = True
        while True:
            now = time.monotonic()
            if now >= next_try:
                wait = 0.0
                try:
                    busy = self._send_round()
                    self._backoff.worked()
                except _STOPS as error:
                    self._report_error(error, stopped=True)
                    return STOPPED
                except Exception as error:
                    busy, wait = True, self._backoff.failed(error)
                    self._report_error(error, wait)
                now = time.monotonic()
                next_try = now + max(wait, _LOOK_EVERY_SEC, self._look_sec / _LOOK_SHARE)
            has_writers = self._has_writers()
            last_news = now if busy else last_news
            last_writer = now if has_writers else last_writer
            if now - last_news > (idle_sec if has_writers else idle_sec / 10):
                return 0
            if self._backoff.failures and now - last_writer > outage_sec:
                return 0
            if self.ended.wait(min(max(next_try - now, 0.05), _LOOK_EVERY_SEC)):
                return 0

    def _send_round(self) -> bool:
        """Look once and send what there is, for a while; whether there was anything. Somebody else may be at it."""
        with self.outbox.sending() as alone:
            if not alone:
                return True
            begun = time.monotonic()
            self._store.refresh()
            pending = routed(self._store, self.outbox)
            self._look_sec = time.monotonic() - begun
            self._held_back_before = self.sender.held_back if self.sender is not None else 0
            self._report(pending)
            if pending.total:
                sender = self._load()
                sender.send(
                    pending,
                    max_bytes_per_day=self.outbox.policy.max_bytes_per_day,
                    deadline=begun + _ROUND_SEC,
                    progress=lambda done, total: self._report(pending, done),
                )
                self._state.last_error = self._state.next_try_ns = None
                self._report(sender.left, now=True)
            return pending.total + pending.unsettled > 0

    def _load(self) -> Sender:
        """The backend is loaded when there is something to send, not before."""
        if self.sender is None:
            try:
                self._backend = backends.load(self.outbox.backend)
            except ConnectionError:
                raise
            except ImportError as error:  # broken, not missing: waiting does not help
                raise MissingExtraError(f"the backend {self.outbox.backend!r} cannot be loaded: {error}") from error
            self.sender = Sender(self._store, self.outbox, self._backend)
        return self.sender

    def _has_writers(self) -> bool:
        """Whether somebody records on this host: of another one nobody here can tell."""
        folders = own_folders(self._path)
        return any(is_live(path) for path in journal_files(self._path) if path.parent in folders)

    def _report(self, pending: Pending, done: int = 0, *, now: bool = False) -> None:
        """Write the state, at most once a second."""
        if not now and time.monotonic() - self._reported_at < 1.0:
            return
        sender = self.sender
        self._state.updated = sender.updated if sender is not None else 0
        held_back = pending.held_back + (sender.held_back if sender is not None else 0) - self._held_back_before
        self._state.count(self.outbox.position, pending.total - done + pending.unsettled, held_back)
        self._save()

    def _report_error(self, error: Exception, wait: float = 0.0, *, stopped: bool = False) -> None:
        text, state = str(error) if stopped else f"{type(error).__name__}: {error}", self._state
        if stopped or self._backoff.failures == 1:
            logger.warning("%s: %s", self.outbox.backend, text, exc_info=None if stopped else error)
        state.last_error, state.last_error_ns = text[:_MAX_ERROR_CHARS], time.time_ns()
        state.next_try_ns = None if stopped else time.time_ns() + round(wait * 1e9)
        state.stopped = text if stopped else None
        self._save()

    def _save(self) -> None:
        self._state.time_ns = time.time_ns()
        self._reported_at = time.monotonic()
        self.outbox.state = self._state

    def hung(self, seconds: float) -> bool:
        """Whether a call of the backend has been going on for so long."""
        since = self.sender.calling_since if self.sender is not None else None
        return since is not None and time.monotonic() - since > seconds

    def report_hanging(self) -> None:
        """Write into the state why the sender ends."""
        self._report_error(OutageError("a call into the vendor's library did not return"))


def send_in_thread(store: Path, name: str) -> None:
    """Send to a backend from a thread of this process, as long as that lives, unless somebody else does.

    When the process ends, the thread is waited for a moment: DuckDB does not like to be torn down while it is in use.
    """

    def run() -> None:
        try:
            with Outbox(store, name).alone_in_background() as alone:
                if alone:
                    loop.run(idle_sec=float("inf"))
        except Exception:
            logger.exception("the sender of %s failed", name)

    clean_log(store)
    loop = SenderLoop(store, name)
    thread = threading.Thread(target=run, name=f"rolltrace-{name}", daemon=True)
    thread.start()

    def end() -> None:
        loop.ended.set()
        thread.join(_LAST_SEC)

    atexit.register(end)


def main(store: Path, name: str, hang_sec: float = _HANG_SEC) -> int:
    """Send to a backend until there is nothing to wait for, unless somebody else does. Gives the exit code.

    In a process of its own: it makes room for the training run, and ends itself when the vendor's library hangs.
    """
    with Outbox(store, name).alone_in_background() as alone:
        if not alone:
            return 0
        os.nice(5)
        loop = SenderLoop(store, name)

        def watch() -> None:
            while True:
                time.sleep(min(hang_sec / 4, 10.0))
                if loop.hung(hang_sec):
                    loop.report_hanging()
                    os._exit(HUNG)

        threading.Thread(target=watch, name="rolltrace-watch", daemon=True).start()
        return loop.run()


if __name__ == "__main__":
    clean_output(Path(sys.argv[1]))
    code = main(Path(sys.argv[1]), sys.argv[2], *map(float, sys.argv[3:4]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # at once, whatever a vendor's library left running
