"""Start the drainer of a store as a process of its own, without loading any of it here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rolltrace._guard import caught
from rolltrace.journal.access import open_file
from rolltrace.journal.lock import drainer_lock
from rolltrace.journal.writer import journal_folder

_DETACH = """
import os, sys
if os.fork():
    os._exit(0)
os.nice(5)
from pathlib import Path
from rolltrace.journal import drainer_lock, journal_folder
store = Path(sys.argv[1])
with drainer_lock(journal_folder(store)) as alone:
    if alone:
        from rolltrace.keeper.clean_output import clean_output
        from rolltrace.keeper.process import follow
        clean_output(store)
        follow(store)
"""
"""Forks before anything is loaded, so that whoever starts it waits only for a bare interpreter and leaves no zombie;
takes the lock before the column libraries are loaded, so that nobody starts a second one meanwhile. Where both want the
same core, the rollout comes first."""


def start_drainer(store: Path) -> None:
    """Start a drainer process for this host and store unless one is at work. Never raises."""
    try:
        with drainer_lock(journal_folder(store)) as none_at_work:
            pass
        if none_at_work:
            detach(_DETACH, store)
    except Exception:
        caught("drainer start")


def detach(program: str, store: Path, *arguments: str) -> None:
    """Run a program that forks at once, with the store as its first argument; its output goes to the drainer's log."""
    with open(journal_folder(store) / "drainer.log", "ab", opener=open_file) as log:
        subprocess.run(
            [sys.executable, "-c", program, str(store), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the training run; the drainer finishes its work
            env={**os.environ, "ROLLTRACE_BACKEND": ""},
            check=True,
        )
