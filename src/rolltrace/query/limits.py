"""Questions that may be stopped: after some time, or because nobody waits for the answer any more.

    limit = Limit(seconds=10)
    with limit:                     # in the thread that asks
        store.trajectories(...)
    limit.stop("nobody waits")      # in any other thread

While a limit is entered, every question of its thread can be stopped, also one that waits for another to end.

Ctrl-C stops a question at once. Python runs signal handlers in the main thread, between two bytecodes. DuckDB checks
for them between two of its tasks, and one task can take a minute. So the work is done in another thread, and the main
thread waits for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Protocol, TypeVar

from rolltrace.errors import StoppedError

T = TypeVar("T")
_WAIT_SEC = 0.05
_current: ContextVar[Limit | None] = ContextVar("rolltrace_query_limit", default=None)


class Interruptible(Protocol):
    """A database connection."""

    def interrupt(self) -> Any: ...


class Lock(Protocol):
    """`threading.RLock`, which is no type before Python 3.13."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...


class Limit:
    """How long questions may take, together."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._running: Interruptible | None = None
        self._reason: str | None = None
        self._token: Token[Limit | None] | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Limit:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)
        if self._timer is not None:
            self._timer.cancel()

    def stop(self, reason: str) -> None:
        """Stop what runs and what is asked next."""
        with self._lock:
            self._reason = self._reason or reason
            waits = self._running is not None
        if waits:
            threading.Thread(target=self._interrupt, daemon=True).start()

    def _interrupt(self) -> None:
        # Again and again: a question that is about to begin does not notice.
        while True:
            with self._lock:
                if self._running is None:
                    return
                self._running.interrupt()
            time.sleep(_WAIT_SEC)

    def check(self) -> None:
        """Raise `StoppedError` if it was stopped or the time is over."""
        if self._reason is None and time.monotonic() > self._deadline:
            self.stop(self._too_slow())
        if self._reason is not None:
            raise StoppedError(self._reason)

    def _too_slow(self) -> str:
        return f"this took longer than {self._seconds:g} s; ask for less: one experiment, one step, a narrower filter"

    def _begin(self, running: Interruptible) -> None:
        self.check()
        with self._lock:
            self._running = running
        if self._timer is None:
            left = max(0.0, self._deadline - time.monotonic())
            self._timer = threading.Timer(left, self.stop, [self._too_slow()])
            self._timer.daemon = True
            self._timer.start()

    def _end(self) -> None:
        with self._lock:
            self._running = None


class running:
    """Around a question: the limit of this thread, if there is one, may interrupt the connection."""

    def __init__(self, connection: Interruptible) -> None:
        self._connection = connection
        self._limit = _current.get()

    def __enter__(self) -> None:
        if self._limit is not None:
            self._limit._begin(self._connection)

    def __exit__(self, *_: object) -> None:
        if self._limit is not None:
            self._limit._end()


def check_limit() -> None:
    """Raise `StoppedError` if this thread's questions were stopped."""
    limit = _current.get()
    if limit is not None:
        limit.check()


@contextmanager
def holding(lock: Lock) -> Iterator[None]:
    """Hold a lock; stop waiting for it when this thread's questions are stopped."""
    limited = _current.get() is not None
    while not lock.acquire(timeout=_WAIT_SEC if limited else -1):
        check_limit()
    try:
        yield
    finally:
        lock.release()


def interruptible(work: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """The result of the work, or its exception; on Ctrl-C the work is interrupted, and KeyboardInterrupt is raised.

    Args:
        work: What takes long. It runs in another thread, unless this is one already.
        interrupt: Makes the work stop soon; called from this thread, until it has: work that is about to begin does
            not notice.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # Not `join`: when it is interrupted, Python up to 3.12 takes the thread for ended, and a program that exits aborts.
    ended = threading.Event()
    thread = threading.Thread(target=run, name="rolltrace-query", daemon=True)
    try:
        thread.start()
        ended.wait()
    except KeyboardInterrupt:
        while thread.is_alive() and not ended.is_set():
            interrupt()
            ended.wait(_WAIT_SEC)
        raise
    if errors:
        raise errors[0]
    return results[0]
