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
from rolltrace.keeper.pending import Pending, Quiet, routed
from rolltrace.keeper.position import REFUSED, SENT
from rolltrace.keeper.sender import Sender
from rolltrace.keeper.sender_processes import STOPPED
from rolltrace.query import open_store
from rolltrace.store import Lease, sending_duty

HUNG = 4
"""Exit code: a call into the vendor's library did not return."""
_LOOK_EVERY_SEC = 1.0
_LOOK_SHARE = 0.05
"""How much of the time may be spent on looking for what is new."""
_ROUND_SEC = 20.0
_IDLE_SEC = 60.0
_OUTAGE_SEC = 600.0
"""How long after the last writer an outage is waited out. The next writer, or `rolltrace sync`, goes on."""
_HANG_SEC = 900.0
_LAST_SEC = 2.0
_FIRST_WAIT_SEC, _LONGEST_WAIT_SEC = 1.0, 300.0
_BACKLOG_BYTES = 512 << 20
"""More than this in journals is drained first: looking reads undrained journals into memory."""
_STOPS = (ConfigError, MissingExtraError, FilterError)


class Backoff:
    """How long to wait after failures: twice as long each time, with some chance in it, or as long as was asked for."""

    def __init__(self) -> None:
        self.failures = 0

    def failed(self, fault: Exception) -> float:
        """Seconds until the next try."""
        wait = min(_LONGEST_WAIT_SEC, _FIRST_WAIT_SEC * (1 << min(self.failures, 16))) * random.uniform(0.5, 1.0)
        self.failures += 1
        asked = (fault.retry_after_sec or 0.0) if isinstance(fault, OutageError) else 0.0
        return max(wait, min(asked, _LONGEST_WAIT_SEC))

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
        self._lease = Lease(store, sending_duty(name))
        self._quiet = Quiet()
        self._held_back_before = 0

    def run(self, *, idle_sec: float = _IDLE_SEC, outage_sec: float = _OUTAGE_SEC) -> int:
        """Send until there is nothing to wait for. Gives the exit code."""
        last_news = last_writer = time.monotonic()
        next_try = 0.0
        busy = True
        try:
            while True:
                now = time.monotonic()
                self._lease.keep()
                if now >= next_try and not self._backlog():
                    wait = 0.0
                    try:
                        busy = self._round()
                        self._backoff.worked()
                    except _STOPS as fault:
                        self._report_fault(fault, stopped=True)
                        return STOPPED
                    except Exception as fault:
                        busy, wait = True, self._backoff.failed(fault)
                        self._lease.release()  # perhaps another host gets through
                        self._report_fault(fault, wait)
                    now = time.monotonic()
                    next_try = now + max(wait, _LOOK_EVERY_SEC, self._look_sec / _LOOK_SHARE)
                writers = any(map(is_live, self._own_journals()))
                last_news = now if busy else last_news
                last_writer = now if writers else last_writer
                if now - last_news > (idle_sec if writers else idle_sec / 10):
                    return 0
                if self._backoff.failures and now - last_writer > outage_sec:
                    return 0
                if self.ended.wait(min(max(next_try - now, 0.05), _LOOK_EVERY_SEC)):
                    return 0
        finally:
            self._lease.release()
            if self._backend is not None:
                self._backend.close()

    def _round(self) -> bool:
        """Look once and send what there is, for a while; whether there was anything. Somebody else may be sending."""
        with self.outbox.sending() as alone:
            if not alone:
                return True
            if not self._lease.hold():
                return not self._lease.looks_alive
            self.outbox.claims.epoch = self._lease.epoch
            self.outbox.position.tidy()
            begun = time.monotonic()
            self._store.refresh()
            pending = routed(self._store, self.outbox, quiet=self._quiet)
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
            return pending.total + pending.unsettled + len(pending.in_doubt) > 0

    def _load(self) -> Sender:
        """The backend is loaded when there is something to send, not before."""
        if self.sender is None:
            try:
                self._backend = backends.load(self.outbox.backend)
            except ConnectionError:
                raise
            except ImportError as fault:  # broken, not missing: waiting does not help
                raise MissingExtraError(f"the backend {self.outbox.backend!r} cannot be loaded: {fault}") from fault
            self.sender = Sender(self._store, self.outbox, self._backend)
        return self.sender

    def _backlog(self) -> bool:
        """Whether the drainer is far behind. Sending can wait for it, the disk cannot."""
        total = 0
        for path in self._own_journals():
            try:
                if not is_live(path):
                    total += path.stat().st_blocks * 512
            except OSError:  # drained meanwhile
                continue
        return total > _BACKLOG_BYTES

    def _own_journals(self) -> list[Path]:
        """Of this host: of another one nobody here can tell whether they are being written."""
        folders = own_folders(self._path)
        return [path for path in journal_files(self._path) if path.parent in folders]

    def _report(self, pending: Pending, done: int = 0, *, now: bool = False) -> None:
        """Write the state, at most once a second."""
        if not now and time.monotonic() - self._reported_at < 1.0:
            return
        position, state = self.outbox.position, self._state
        state.sent, state.refused = position.count(SENT), position.count(REFUSED)
        state.reasons = dict(position.reasons.most_common(10))
        state.updated = self.sender.updated if self.sender is not None else 0
        state.held_back = (
            pending.held_back + (self.sender.held_back if self.sender is not None else 0) - self._held_back_before
        )
        state.pending = pending.total - done + pending.unsettled
        state.bytes_today = position.bytes_today
        self._save()

    def _report_fault(self, fault: Exception, wait: float = 0.0, *, stopped: bool = False) -> None:
        text = str(fault) if stopped else f"{type(fault).__name__}: {fault}"
        if stopped or self._backoff.failures == 1:
            logger.warning("%s: %s", self.outbox.backend, text, exc_info=None if stopped else fault)
        self._state.last_error, self._state.last_error_ns = text[:2000], time.time_ns()
        self._state.next_try_ns = None if stopped else time.time_ns() + round(wait * 1e9)
        self._state.stopped = text if stopped else None
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
        self._report_fault(OutageError("a call into the vendor's library did not return"))


def send_in_thread(store: Path, name: str) -> None:
    """Send to a backend from a thread of this process, as long as that lives, unless somebody else does."""

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

    def end() -> None:  # DuckDB does not like to be torn down while it is in use
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
    os._exit(code)  # what a vendor left running at exit must not keep the process
