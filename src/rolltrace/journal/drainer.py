"""The drainer as writers and readers know it: what waits for it, whether one runs, how to start one.

Nothing of the drainer itself is loaded here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rolltrace._guard import caught
from rolltrace.errors import StoreError
from rolltrace.files import file_lock, lock_now, open_file
from rolltrace.journal.place import journal_folder
from rolltrace.journal.segment import HEADER_BYTES

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
        from rolltrace.keeper import follow
        clean_output(store)
        follow(store)
from rolltrace.journal import start_drainer, start_wanted_drainer
(start_wanted_drainer if alone else start_drainer)(store)
"""
"""Forks before anything is loaded, so that whoever starts it waits only for a bare interpreter and leaves no zombie;
takes the lock before the column libraries are loaded, so that nobody starts a second one meanwhile. Where both want the
same core, the rollout comes first."""


_WANTED = "drainer.wanted"
"""A file beside the lock: somebody found it held and wants a drainer. Whoever holds it may be about to end, or be a
reader that drains and does no more; it looks for this when it has let go."""
_holders: dict[Path, tuple[int, int]] = {}
"""Journal folder -> the process and thread that hold the drainer's lock of it, if that is this process."""


@contextmanager
def drainer_lock(folder: Path) -> Iterator[bool]:
    """Hold the drainer's lock of a journal folder; gives False if another process (or thread) has it."""
    with file_lock(folder / "drainer.lock") as alone:
        if alone:
            _holders[folder] = (os.getpid(), threading.get_ident())
        try:
            yield alone
        finally:
            if alone:
                _holders.pop(folder, None)


def drains_itself(store: Path) -> bool:
    """Whether it is this very thread that drains a store: it must not wait for the drainer."""
    return _holders.get(journal_folder(store)) == (os.getpid(), threading.get_ident())


def find_link(store: Path) -> Path | None:
    """A link in a store, if there is one: a reader of a store that somebody made up must not write elsewhere."""
    return next((path for path in (*store.iterdir(), journal_folder(store)) if path.is_symlink()), None)


def start_drainer(store: Path) -> None:
    """Start a drainer process for this host and store unless one is at work. Never raises."""
    try:
        if (link := find_link(store)) is not None:
            raise StoreError(f"no drainer is started: {str(link)!r} is a symbolic link")
        if not _is_free(store):
            os.close(open_file(journal_folder(store) / _WANTED, os.O_WRONLY | os.O_CREAT))
            if not _is_free(store):
                return
        detach(_DETACH, store)
    except Exception:
        caught("drainer start")


def start_wanted_drainer(store: Path) -> None:
    """Start a drainer if somebody wanted one while the lock was held, which is free now. Never raises."""
    if (journal_folder(store) / _WANTED).exists():
        note_drainer(store)
        start_drainer(store)


def note_drainer(store: Path) -> None:
    """A drainer is at work: nobody wants another."""
    try:
        (journal_folder(store) / _WANTED).unlink(missing_ok=True)
    except OSError:
        caught("drainer start")


def _is_free(store: Path) -> bool:
    with drainer_lock(journal_folder(store)) as none_at_work:
        return none_at_work


def detach(program: str, store: Path, *arguments: str) -> None:
    """Run a program that forks at once, with the store as its first argument; its output goes to the drainer's log."""
    with open(journal_folder(store) / "drainer.log", "ab", opener=open_file) as log:
        subprocess.run(
            [sys.executable, "-c", program, str(store), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the training run; the drainer finishes its work
            # One thread for Arrow and for the linear algebra that NumPy brings: the other cores are the rollout's.
            env={**os.environ, "ROLLTRACE_BACKEND": "", "OMP_NUM_THREADS": "1"},
            check=True,
        )


def drainer_is_running(store: Path) -> bool | None:
    """Whether a drainer of this host is at work; None if we may not know. Looking makes no files."""
    lock = journal_folder(store) / "drainer.lock"
    try:
        fd = open_file(lock, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return None
    try:
        return not lock_now(fd, lock)
    except OSError:  # some file systems lock only what can be written
        return None
    finally:
        os.close(fd)


def undrained_bytes(path: Path) -> int:
    """What the records of a journal file take."""
    try:
        return max(0, path.stat(follow_symlinks=False).st_size - HEADER_BYTES)
    except OSError:  # gone, not readable
        return 0
