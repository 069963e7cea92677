"""Locks of files.

A lock is held by one process at a time, and free the moment that process is gone. Some file systems cannot lock files.
There nobody could tell a running process from a dead one, so a store cannot be there: whoever needs a lock gets a
StoreError that says so.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rolltrace.errors import StoreError
from rolltrace.files.access import make_folder, open_file

_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL}


def lock_now(fd: int, path: Path) -> bool:
    """Take the lock of an open file, for as long as it is open; False if somebody else has it.

    Raises:
        StoreError: files cannot be locked there.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise StoreError(
            f"the file system of {str(path.parent)!r} cannot lock files ({error.strerror}), which rolltrace "
            "needs; choose a store on another file system, with init(store=...) or ROLLTRACE_STORE, or a local disk "
            "for the journals, with ROLLTRACE_JOURNAL"
        ) from error
    return True


@contextmanager
def file_lock(path: Path) -> Iterator[bool]:
    """Hold the lock that this file stands for; gives False if another process (or thread) has it."""
    make_folder(path.parent)
    fd = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        yield lock_now(fd, path)
    finally:
        os.close(fd)
