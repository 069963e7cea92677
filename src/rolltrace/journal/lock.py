"""Who drains: one process per host and store, the one that holds this lock."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def drainer_lock(folder: Path) -> Iterator[bool]:
    """Hold the drainer's lock of a journal folder; gives False if another process (or thread) has it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(folder / "drainer.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except BlockingIOError:
            alone = False
        yield alone
    finally:
        os.close(fd)
