"""Ship a store to its lake in the background, as long as there is something to ship or somebody who may write more.

    python -m rolltrace.keeper.ship_loop STORE lake

As `sender_loop`, a process of its own, or a thread in `drain="thread"`: object storage that is down or slow delays
nothing else. Which lake, ROLLTRACE_LAKE says.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from pathlib import Path

from rolltrace._guard import logger
from rolltrace.errors import BackendError, ConfigError, FormatError, MissingExtraError
from rolltrace.journal import is_live, journal_files, own_folders
from rolltrace.keeper.clean_output import clean_log, clean_output
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.sender_loop import Backoff
from rolltrace.keeper.sender_processes import STOPPED
from rolltrace.lake import BACKEND, VARIABLE, Place, Shipper
from rolltrace.store import Lease, routes, sending_duty

_LOOK_EVERY_SEC = 1.0
_LOOK_SHARE = 0.1
"""How much of the time may be spent on looking when there is nothing to ship."""
_IDLE_SEC = 60.0
_OUTAGE_SEC = 600.0
"""How long after the last writer an outage is waited out. The next writer, or `rolltrace ship`, goes on."""
_LAST_SEC = 5.0
_STOPS = (ConfigError, MissingExtraError, FormatError)


class ShipLoop:
    """Looks for finished parts, ships them, waits; one store."""

    def __init__(self, store: Path) -> None:
        self.ended = threading.Event()
        """Set it to make `run` come to its end."""
        self._store = store
        self._shipper: Shipper | None = None
        self._backoff = Backoff()
        self._lease = Lease(store, sending_duty(BACKEND))

    def run(self, *, idle_sec: float = _IDLE_SEC, outage_sec: float = _OUTAGE_SEC) -> int:
        """Ship until there is nothing to wait for. Gives the exit code."""
        try:
            return self._run(idle_sec, outage_sec)
        finally:
            self._lease.release()

    def _run(self, idle_sec: float, outage_sec: float) -> int:
        last_news = last_writer = time.monotonic()
        next_try = 0.0
        while True:
            now = time.monotonic()
            self._lease.keep()
            if now >= next_try:
                begun, wait, more = now, 0.0, False
                try:
                    busy = more = self._round()
                    self._backoff.worked()
                except _STOPS as fault:
                    self._report_fault(fault, stopped=True)
                    return STOPPED
                except Exception as fault:
                    busy, wait = True, self._backoff.failed(fault)
                    self._lease.release()  # perhaps another host gets through
                    self._report_fault(fault, wait)
                now = time.monotonic()
                last_news = now if busy else last_news
                pause = 0.0 if more else (now - begun) / _LOOK_SHARE
                next_try = now + max(wait, min(max(pause, _LOOK_EVERY_SEC), idle_sec / 2))
            writers = any(is_live(path) for path in self._own_journals())
            last_writer = now if writers else last_writer
            if now - last_news > (idle_sec if writers else idle_sec / 10):
                return 0
            if self._backoff.failures and now - last_writer > outage_sec:
                return 0
            if self.ended.wait(min(max(next_try - now, 0.05), _LOOK_EVERY_SEC)):
                return 0

    def _round(self) -> bool:
        """Ship what there is; whether there was anything. Somebody else may be shipping."""
        shipper = self._load()
        with shipper.position.shipping() as alone:
            if not alone:
                return True
            if not self._lease.hold():
                return not self._lease.looks_alive
            done = shipper.round()
            state = shipper.position.state
            state.shipped, state.pending, state.stuck = len(shipper.position.shipped), done.left, done.stuck
            state.last_error = state.next_try_ns = state.stopped = None
            if done.parts or state.time_ns < time.time_ns() - 10_000_000_000:
                shipper.position.state = state
            return done.parts > 0

    def _load(self) -> Shipper:
        if self._shipper is None:
            url = os.environ.get(VARIABLE)
            if not url:
                raise BackendError(f"the backend {BACKEND!r} needs an address; set {VARIABLE}=s3://bucket/prefix")
            self._shipper = Shipper(
                self._store,
                Place.of(url),
                routes=lambda: routes(self._store, BACKEND),
            )
        return self._shipper

    def _own_journals(self) -> list[Path]:
        folders = own_folders(self._store)
        return [path for path in journal_files(self._store) if path.parent in folders]

    def _report_fault(self, fault: Exception, wait: float = 0.0, *, stopped: bool = False) -> None:
        text = str(fault) if stopped else f"{type(fault).__name__}: {fault}"
        if stopped or self._backoff.failures == 1:
            logger.warning("%s: %s", BACKEND, text, exc_info=None if stopped else fault)
        if self._shipper is None:
            return
        position = self._shipper.position
        state = position.state
        state.url = position.place.url
        state.last_error, state.last_error_ns = text[:2000], time.time_ns()
        state.next_try_ns = None if stopped else time.time_ns() + round(wait * 1e9)
        state.stopped = text if stopped else None
        position.state = state


def ship_in_thread(store: Path) -> None:
    """Ship from a thread of this process, as long as that lives, unless somebody else does."""

    def run() -> None:
        try:
            with Outbox(store, BACKEND).alone_in_background() as alone:
                if alone:
                    loop.run(idle_sec=float("inf"))
        except Exception:
            logger.exception("shipping to the lake failed")

    clean_log(store)
    loop = ShipLoop(store)
    thread = threading.Thread(target=run, name="rolltrace-lake", daemon=True)
    thread.start()

    def end() -> None:
        loop.ended.set()
        thread.join(_LAST_SEC)

    atexit.register(end)


def main(store: Path) -> int:
    """Ship until there is nothing to wait for, unless somebody else does. Gives the exit code."""
    with Outbox(store, BACKEND).alone_in_background() as alone:
        if not alone:
            return 0
        os.nice(5)
        return ShipLoop(store).run()


if __name__ == "__main__":
    clean_output(Path(sys.argv[1]))
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
