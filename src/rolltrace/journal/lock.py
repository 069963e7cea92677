"""Who works: one process at a time, the one that holds a lock. It is free the moment that process is gone."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from rolltrace.journal.access import make_folder, open_file


@contextmanager
def file_lock(path: Path) -> Iterator[bool]:
    """Hold the lock that this file stands for; gives False if another process (or thread) has it."""
    make_folder(path.parent)
    fd = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except BlockingIOError:
            alone = False
        yield alone
    finally:
        os.close(fd)


def drainer_lock(folder: Path) -> AbstractContextManager[bool]:
    """Hold the drainer's lock of a journal folder; gives False if another process (or thread) has it."""
    return file_lock(folder / "drainer.lock")
