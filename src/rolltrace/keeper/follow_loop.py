"""Follow a store in the background: look for what is new, bring it to where it goes, wait.

`sender_loop` does so for trajectories and a backend, `ship_loop` for parts and a lake. Each runs as a process of its
own, or as a thread in `drain="thread"`, as long as there is something to do or somebody who may write more.
"""

from __future__ import annotations

import atexit
import os
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, NoReturn, Protocol

from rolltrace._guard import logger
from rolltrace.errors import OutageError
from rolltrace.journal import is_live, journal_files, own_folders
from rolltrace.keeper.clean_output import clean_log, clean_output
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.sender_processes import STOPPED
from rolltrace.store import Lease, sending_duty

_LOOK_EVERY_SEC = 1.0
_IDLE_SEC = 60.0
_OUTAGE_SEC = 600.0
"""How long after the last writer an outage is waited out. The next writer, or a command, goes on."""
_FIRST_WAIT_SEC, _LONGEST_WAIT_SEC = 1.0, 300.0


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


class FaultState(Protocol):
    """What a state on disk tells of the last fault."""

    last_error: str | None
    last_error_ns: int | None
    next_try_ns: int | None
    stopped: str | None


class FollowLoop(ABC):
    """Looks for what is new, brings it on, waits; one destination of one store."""

    stops: ClassVar[tuple[type[Exception], ...]]
    """Faults that waiting does not mend."""

    def __init__(self, store: Path, name: str) -> None:
        self.ended = threading.Event()
        """Set it to make `run` come to its end."""
        self._path = store
        self._name = name
        self._backoff = Backoff()
        self._lease = Lease(store, sending_duty(name))

    def run(self, *, idle_sec: float = _IDLE_SEC, outage_sec: float = _OUTAGE_SEC) -> int:
        """Go on until there is nothing to wait for. Gives the exit code."""
        try:
            return self._run(idle_sec, outage_sec)
        finally:
            self._lease.release()
            self._close()

    def _run(self, idle_sec: float, outage_sec: float) -> int:
        last_news = last_writer = time.monotonic()
        next_try = 0.0
        busy = True
        while True:
            now = time.monotonic()
            self._lease.keep()
            if now >= next_try and not self._must_wait():
                begun, wait, has_more = now, 0.0, False
                try:
                    busy = has_more = self._round()
                    self._backoff.worked()
                except self.stops as fault:
                    self._report_fault(fault, stopped=True)
                    return STOPPED
                except Exception as fault:
                    busy, wait = True, self._backoff.failed(fault)
                    self._lease.release()  # perhaps another host gets through
                    self._report_fault(fault, wait)
                now = time.monotonic()
                next_try = now + max(wait, _LOOK_EVERY_SEC, self._pause_sec(now - begun, has_more, idle_sec))
            writers = any(map(is_live, self._own_journals()))
            last_news = now if busy else last_news
            last_writer = now if writers else last_writer
            if now - last_news > (idle_sec if writers else idle_sec / 10):
                return 0
            if self._backoff.failures and now - last_writer > outage_sec:
                return 0
            if self.ended.wait(min(max(next_try - now, 0.05), _LOOK_EVERY_SEC)):
                return 0

    @abstractmethod
    def _round(self) -> bool:
        """Look once and bring on what there is, for a while; whether there was anything. Somebody else may be at it."""

    @abstractmethod
    def _pause_sec(self, took_sec: float, has_more: bool, idle_sec: float) -> float:
        """How long not to look again, after a round that took so long, if that is more than usual."""

    @abstractmethod
    def _change_state(self, change: Callable[[FaultState], None]) -> None:
        """Change the state on disk, if there is one yet."""

    def _must_wait(self) -> bool:
        """Whether something else comes first."""
        return False

    def _close(self) -> None:  # noqa: B027 - most have nothing to close
        """The loop has ended."""

    def _own_journals(self) -> list[Path]:
        """Of this host: of another one nobody here can tell whether they are being written."""
        folders = own_folders(self._path)
        return [path for path in journal_files(self._path) if path.parent in folders]

    def _report_fault(self, fault: Exception, wait: float = 0.0, *, stopped: bool = False) -> None:
        text = str(fault) if stopped else f"{type(fault).__name__}: {fault}"
        if stopped or self._backoff.failures == 1:
            logger.warning("%s: %s", self._name, text, exc_info=None if stopped else fault)

        def tell(state: FaultState) -> None:
            state.last_error, state.last_error_ns = text[:2000], time.time_ns()
            state.next_try_ns = None if stopped else time.time_ns() + round(wait * 1e9)
            state.stopped = text if stopped else None

        self._change_state(tell)


def follow_in_thread(store: Path, name: str, make: Callable[[], FollowLoop], last_sec: float) -> None:
    """Follow from a thread of this process, as long as that lives, unless somebody else does.

    When the process ends, the thread is waited for so long: DuckDB does not like to be torn down while it is in use.
    """

    def run() -> None:
        try:
            with Outbox(store, name).alone_in_background() as alone:
                if alone:
                    loop.run(idle_sec=float("inf"))
        except Exception:
            logger.exception("the sender of %s failed", name)

    clean_log(store)
    loop = make()
    thread = threading.Thread(target=run, name=f"rolltrace-{name}", daemon=True)
    thread.start()

    def end() -> None:
        loop.ended.set()
        thread.join(last_sec)

    atexit.register(end)


def run_process(store: Path, main: Callable[[], int]) -> NoReturn:
    """What a process that follows a store does; it ends at once, whatever a vendor's library left running."""
    clean_output(store)
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
