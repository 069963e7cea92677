"""See to it that journals are drained, without loading any of the drainer into the rollout's process."""

from __future__ import annotations

import atexit
import threading
import time
from pathlib import Path

from rolltrace._guard import caught
from rolltrace.journal import drainer_lock, journal_folder, start_drainer

_SECONDS_BETWEEN = 2.0
_MAX_END_SEC = 10.0
_last_start = 0.0
_starting: threading.Thread | None = None


def start_drainer_in_background(store: Path) -> None:
    """Start a drainer process unless one is at work. Takes some milliseconds, but not the caller's."""
    global _last_start, _starting
    now = time.monotonic()
    if now < _last_start + _SECONDS_BETWEEN:
        return
    _last_start = now
    _starting = threading.Thread(target=start_drainer, args=(store,), name="rolltrace-launch", daemon=True)
    _starting.start()


def wait_for_start(timeout_sec: float) -> None:
    """Let a start that is going on come to its end: a short program must not be over before its drainer is there."""
    if _starting is not None and _starting is not threading.current_thread():
        _starting.join(timeout_sec)


def drain_in_thread(store: Path) -> None:
    """Drain in a thread of this process, for places where no process may be started. It ends with the process, which
    waits for it a moment: DuckDB and Arrow crash if they are torn down while they are in use."""
    ended = threading.Event()
    thread = threading.Thread(target=_drain, args=(store, ended), name="rolltrace-drain", daemon=True)
    thread.start()

    def end() -> None:
        ended.set()
        thread.join(_MAX_END_SEC)

    atexit.register(end)


def _drain(store: Path, ended: threading.Event) -> None:
    try:
        from rolltrace.keeper import follow  # loads the column libraries: only in this mode

        while not ended.is_set():
            with drainer_lock(journal_folder(store)) as alone:
                if alone:
                    follow(store, idle_sec=float("inf"), threads=True, ended=ended)
            ended.wait(_SECONDS_BETWEEN)  # somebody else drains; perhaps not for ever
    except Exception:
        caught("drain thread")
