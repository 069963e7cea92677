"""Journal files made ahead, so that a rollout process finds their pages there and need not make them.

    16777216-9f3c01aa.spare      a file of so many bytes, all of them zero

Making the pages of a segment costs more than copying records into them. The drainer makes them in its own process: one
file for each segment that a busy writer has filled. A writer takes one by renaming it, so that each is taken once.

A spare is a new file, not a drained one with another name: it never held a record, so no reader, kill or power cut can
bring back what it held before. It is complete when it gets its name, and nobody reads it under this name.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from rolltrace.files import host_tag, open_file

_SUFFIX = ".spare"
_MOST = 4
"""So many wait at a time on one host and store."""
_WORTH_BYTES = 1 << 20
_FREE_SHARE = 64
"""A disk must have room for so many before one is made: records come first."""
_ZEROS = bytes(2 << 20)
"""What is written at once: the kernel then makes large pages, and the writer has few page faults."""


def spare_bytes(name: str) -> int:
    """The size of the spare of this name; 0 if it is something else."""
    size, _, rest = name.partition("-")
    return int(size) if rest.endswith(_SUFFIX) and size.isdecimal() and size.isascii() else 0


def make_spare(folder: Path, capacity: int) -> bool:
    """Make a file of this size, unless there are enough of them or the disk is nearly full; whether there is one more.

    Raises:
        OSError: the disk refuses.
    """
    disk = os.statvfs(folder)
    if len(_spares(folder)) >= _MOST or disk.f_bavail * disk.f_frsize < _FREE_SHARE * capacity:
        return False
    name = f"{capacity}-{os.urandom(4).hex()}{_SUFFIX}"
    hidden = folder / f".{name}.{os.getpid()}.{host_tag()}.new"
    try:
        fd = open_file(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            os.posix_fallocate(fd, 0, capacity)
            for offset in range(0, capacity, len(_ZEROS)):
                os.pwrite(fd, _ZEROS[: capacity - offset], offset)
        finally:
            os.close(fd)
        os.rename(hidden, folder / name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(hidden)
        raise
    return True


def make_spare_after(segment: Path) -> bool:
    """A drained segment is about to be removed: make a spare if its writer filled it, and goes on with large ones."""
    writer, _, number = segment.stem.rpartition("-")
    try:
        used = segment.stat().st_size
        capacity = segment.with_name(f"{writer}-{int(number) + 1:06d}.seg").stat().st_size
        return _WORTH_BYTES <= capacity <= 2 * used and make_spare(segment.parent, capacity)
    except OSError:  # no successor, so nobody needs one; or no room
        return False


def take_spare(spare: Path, name: Path, capacity: int) -> int | None:
    """Give a spare this name and open it; None if somebody else was faster, or it is not what it should be."""
    try:
        os.rename(spare, name)
    except OSError:
        return None
    try:
        fd = os.open(name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        described = os.fstat(fd)
        if stat.S_ISREG(described.st_mode) and described.st_uid == os.geteuid() and described.st_size == capacity:
            return fd
        os.close(fd)
    except OSError:
        pass
    with contextlib.suppress(OSError):
        os.unlink(name)
    return None


def remove_spares(folder: Path) -> None:
    """Give back the room that spares take, when there is nobody any more who makes them."""
    for path in _spares(folder):
        with contextlib.suppress(OSError):
            path.unlink()


def _spares(folder: Path) -> list[Path]:
    return [path for path in folder.glob(f"*{_SUFFIX}") if spare_bytes(path.name)]
