"""Send to one backend in the background, as long as there is something to send or somebody who may write more.

    python -m rolltrace.keeper.sender_loop STORE BACKEND

A process of its own for each backend: a vendor that is down, hangs or crashes delays neither the drainer nor the other
backends, and no vendor's library meets another's. In `drain="thread"` it is a thread.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rolltrace import backends
from rolltrace.backends import Backend
from rolltrace.errors import ConfigError, FilterError, MissingExtraError, OutageError
from rolltrace.journal import is_live
from rolltrace.keeper.follow_loop import FaultState, FollowLoop, follow_in_thread, run_process
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import Pending, Quiet, routed
from rolltrace.keeper.position import REFUSED, SENT
from rolltrace.keeper.sender import Sender
from rolltrace.query import open_store

HUNG = 4
"""Exit code: a call into the vendor's library did not return."""
_LOOK_SHARE = 0.05
"""How much of the time may be spent on looking for what is new."""
_ROUND_SEC = 20.0
_HANG_SEC = 900.0
_LAST_SEC = 2.0
_BACKLOG_BYTES = 512 << 20
"""More than this in journals is drained first: looking reads undrained journals into memory."""


class SenderLoop(FollowLoop):
    """Looks for what is new, sends it, waits; one backend of one store."""

    stops = (ConfigError, MissingExtraError, FilterError)

    def __init__(self, store: Path, name: str) -> None:
        super().__init__(store, name)
        self.outbox = Outbox(store, name)
        self.sender: Sender | None = None
        self._store = open_store(store)
        self._backend: Backend | None = None
        self._state = self.outbox.state
        self._state.stopped = self._state.last_error = self._state.next_try_ns = None
        self._state.updated = 0
        self._reported_at = 0.0
        self._look_sec = 0.0
        self._quiet = Quiet()
        self._held_back_before = 0

    def _round(self) -> bool:
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

    def _pause_sec(self, took_sec: float, has_more: bool, idle_sec: float) -> float:
        return self._look_sec / _LOOK_SHARE

    def _close(self) -> None:
        if self._backend is not None:
            self._backend.close()

    def _must_wait(self) -> bool:
        """Whether the drainer is far behind. Sending can wait for it, the disk cannot."""
        total = 0
        for path in self._own_journals():
            try:
                if not is_live(path):
                    total += path.stat().st_blocks * 512
            except OSError:  # drained meanwhile
                continue
        return total > _BACKLOG_BYTES

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

    def _change_state(self, change: Callable[[FaultState], None]) -> None:
        change(self._state)
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
    follow_in_thread(store, name, lambda: SenderLoop(store, name), _LAST_SEC)


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
    run_process(Path(sys.argv[1]), lambda: main(Path(sys.argv[1]), sys.argv[2], *map(float, sys.argv[3:4])))
