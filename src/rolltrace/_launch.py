"""See to it that journals are drained, without loading any of the drainer into the rollout's process."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from rolltrace._guard import caught
from rolltrace.journal import detach, drainer_lock, journal_folder, start_drainer

_REMOVE_LATER = """
import os, sys, time
if os.fork():
    os._exit(0)
time.sleep(float(sys.argv[2]))
from pathlib import Path
from rolltrace.journal import drainer_lock, journal_folder
from rolltrace.query import summarise_steps
from rolltrace.store import Lease, remove_replaced
store = Path(sys.argv[1])
with drainer_lock(journal_folder(store)) as alone:
    if alone:
        lease = Lease(store)
        if lease.hold():
            remove_replaced(store)
            summarise_steps(store)
            lease.release()
"""
"""Holds no lock while it waits. If a drainer runs by then, or another host has the lease, that one does it."""
_SECONDS_BETWEEN = 2.0
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
    """Drain in a thread of this process, for places where no process may be started. It ends with the process."""
    threading.Thread(target=_drain, args=(store,), name="rolltrace-drain", daemon=True).start()


def _drain(store: Path) -> None:
    try:
        from rolltrace.keeper import follow  # loads the column libraries: only in this mode

        while True:
            with drainer_lock(journal_folder(store)) as alone:
                if alone:
                    follow(store, idle_sec=float("inf"), threads=True)
            time.sleep(_SECONDS_BETWEEN)  # somebody else drains; perhaps not for ever
    except Exception:
        caught("drain thread")


def remove_replaced_later(store: Path, wait_sec: float) -> None:
    """Have the parts removed that others stand for now, when nobody can be reading them any more. Never raises."""
    try:
        detach(_REMOVE_LATER, store, str(wait_sec))
    except Exception:
        caught("removal of replaced parts")
