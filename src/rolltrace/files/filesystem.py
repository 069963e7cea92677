"""What file systems can do: lock files, and be memory-mapped safely.

A lock is held by one process at a time, and free the moment that process is gone. Some file systems cannot lock files.
There nobody could tell a running process from a dead one, so a store cannot be there: whoever needs a lock gets a
StoreError that says so.

A mapped page that cannot be written back kills the process with SIGBUS. Local file systems that honour
`posix_fallocate` never do that; network and FUSE ones do (seen on WekaFS). Copy-on-write ones (btrfs, ZFS) may need
new space for a page that was reserved and written before. Unknown ones count as unsafe.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rolltrace.errors import StoreError
from rolltrace.files.access import make_folder, open_file

MAPPABLE = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs", "overlay"})
_ESCAPE = re.compile(r"\\([0-7]{3})")
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
    except OSError as fault:
        if fault.errno not in _NO_LOCKS:
            raise
        raise StoreError(
            f"the file system of {str(path.parent)!r} cannot lock files ({fault.strerror}), which rolltrace "
            "needs; choose a store on another file system, with init(store=...) or ROLLTRACE_STORE, or a local disk "
            "for the journals, with init(journal=...) or ROLLTRACE_JOURNAL"
        ) from fault
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


def file_system_of(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """The file system type that the folder lies on, such as 'ext4' or 'nfs4'; None if it is unknown."""
    try:
        text = mounts.read_text(errors="surrogateescape")
        device = os.stat(folder).st_dev
    except OSError:
        return None
    number = f"{os.major(device)}:{os.minor(device)}"
    place = os.path.realpath(folder)
    best = (-1, "")
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        left = before.split(" ")
        if len(left) < 5 or not after:
            continue
        point = _ESCAPE.sub(lambda escape: chr(int(escape[1], 8)), left[4])
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        # btrfs gives subvolumes device numbers of their own, so the path decides and the number breaks ties.
        weight = 2 * len(point) + (left[2] == number)
        if inside and weight >= best[0]:
            best = (weight, after.split(" ")[0])
    return best[1] or None


def can_map(folder: Path) -> bool:
    """Whether journal files in the folder may be memory-mapped."""
    return hasattr(os, "posix_fallocate") and file_system_of(folder) in MAPPABLE
