"""Opens files to import: regular ones, and no more of them in memory than a document may have.

A named pipe would wait for a writer that may never come, a device never ends, and a file that is empty on the disk may
still have terabytes of zeros to read: all three are refused before a byte is read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MAX_DOCUMENT_BYTES = 256 << 20
"""Of one JSON document or line, unpacked: its values take about ten times as much memory."""
_MAX_HOLE_BYTES = 64 << 20
_MAX_HOLES = 10_000
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading.

    Raises:
        OSError: it cannot be opened, is no regular file, or consists of holes; `strerror` says which.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = _KINDS.get(stat.S_IFMT(status.st_mode), "not a regular file")
            raise OSError(errno.EINVAL, f"{kind}; write its content to a file first", str(path))
        if _hole_bytes(descriptor, status) > _MAX_HOLE_BYTES:
            raise OSError(errno.EINVAL, f"a sparse file: of its {status.st_size:,} bytes, most are not on the disk")
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_lines(file: BinaryIO) -> Iterator[bytes | None]:
    """The lines of a file; None for one that is longer than a document may be."""
    while line := file.readline(MAX_DOCUMENT_BYTES + 1):
        if len(line) <= MAX_DOCUMENT_BYTES:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(1 << 20)
        yield None


def _hole_bytes(descriptor: int, status: os.stat_result) -> int:
    """How much of a file has no place on the disk."""
    if status.st_blocks * 512 >= status.st_size or not hasattr(os, "SEEK_HOLE"):
        return 0
    size, holes, at = status.st_size, 0, 0
    try:
        for _ in range(_MAX_HOLES):
            hole = os.lseek(descriptor, at, os.SEEK_HOLE)
            at = _next_data(descriptor, hole, size) if hole < size else size
            holes += at - min(hole, size)
            if at >= size:
                break
    except OSError:  # a filesystem that cannot tell
        return 0
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
    return holes


def _next_data(descriptor: int, hole: int, size: int) -> int:
    try:
        return os.lseek(descriptor, hole, os.SEEK_DATA)
    except OSError:  # the hole goes on up to the end
        return size
