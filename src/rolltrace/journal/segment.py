"""One journal file: its layout, and writing to it.

    0      header: magic, version, state, salt, bytes used, meta (msgpack: who writes this)
    2048   losses (msgpack), rewritten in place at each loss so that a kill cannot hide one
    4096   frames, each aligned to 8 bytes: magic, checksum, length, then the record

The checksum covers the body and is seeded with the file's salt and the frame's place, so neither torn bytes nor a copy
of a frame inside traced data can pass for a record. The writer holds an flock on the file; when it is free, the writer
is gone.

A record is one `write` to the end of the file: what a killed process has written is in the page cache, a full disk is
an OSError, and a file that somebody cuts short is noticed, since its end is no longer where the next record belongs.
Nothing here is safe against two calls at once: the writer sees to that.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from pathlib import Path
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from rolltrace.files import lock_now, open_file

FILE_MAGIC = b"ROLLTRJ\x01"
VERSION = 1
OPEN, SEALED = 0, 1
HEADER_BYTES = 4096
LOSSES_AT = 2048
META_AT = 64

FILE_HEAD = struct.Struct("<8sIIQQQI")
"""magic, version, state, salt, used, checksum of meta, length of meta"""
FRAME = struct.Struct("<IQI")
"""magic, checksum, length"""
FRAME_MAGIC = 0x52544652
LOSSES_HEAD = struct.Struct("<QI")

_libc = ctypes.PyDLL(None)
"""Keeps the GIL, as `os.write` does not: with one busy thread beside it, each record would wait for a thread switch,
4.5 ms measured. See docs/design/002-journal.md."""
_write = _libc.write
_write.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
_write.restype = ctypes.c_ssize_t
_seek = _libc.lseek
_seek.argtypes = (ctypes.c_int, ctypes.c_long, ctypes.c_int)
_seek.restype = ctypes.c_long
_pack_frame = FRAME.pack
_FRAME_BYTES = FRAME.size
_PADDING = [bytes(count) for count in range(8)]
_LOOKS_EVERY = 32
"""How many records are written between two looks at the end of the file."""


class Segment:
    """An open journal file with a place for the next record."""

    def __init__(self, path: Path, capacity: int, meta: dict[str, Any]) -> None:
        self.path = path
        self.capacity = capacity
        self.offset = HEADER_BYTES
        self.salt = int.from_bytes(os.urandom(8), "little") >> 1  # with an offset added it is still 64 bits
        self._meta = msgspec.msgpack.encode(meta)
        if META_AT + len(self._meta) > LOSSES_AT:
            raise ValueError(f"journal meta of {len(self._meta)} bytes does not fit")
        # Locked under a name that readers do not look at, so that they never see one that seems abandoned.
        hidden = path.with_suffix(".new")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(hidden)  # left by an attempt that was interrupted
        self._until_look = _LOOKS_EVERY
        self._end_fd = -1
        self._fd = open_file(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            lock_now(self._fd, hidden)
            self._end_fd = open_file(hidden, os.O_WRONLY | os.O_APPEND)
            os.pwrite(self._fd, bytes(HEADER_BYTES), 0)
            self._write_head(OPEN, 0)
            os.rename(hidden, path)
        except BaseException:
            self.release()
            with contextlib.suppress(OSError):
                os.unlink(hidden)
            raise

    @property
    def used_bytes(self) -> int:
        """What the records in it take."""
        return self.offset - HEADER_BYTES

    def _write_head(self, state: int, used: int) -> None:
        checksum = xxh3_64_intdigest(self._meta)
        head = FILE_HEAD.pack(FILE_MAGIC, VERSION, state, self.salt, used, checksum, len(self._meta))
        os.pwrite(self._fd, head.ljust(META_AT, b"\0") + self._meta, 0)

    def append(self, body: bytes) -> bool:
        """Write one record; False when it does not fit. The caller holds the writer's lock.

        Raises:
            OSError: the disk refuses. Nothing of the record is left.
        """
        start, size = self.offset, len(body)
        end = (start + _FRAME_BYTES + size + 7) & ~7
        if end > self.capacity:
            return False
        head = _pack_frame(FRAME_MAGIC, xxh3_64_intdigest(body, self.salt + start), size)
        frame = b"".join((head, body, _PADDING[-size & 7]))
        try:
            written = _write(self._end_fd, frame, end - start)
            if written != end - start:
                self._write_rest(frame, max(0, written))
            self.offset = end
        except BaseException:  # also what a signal handler raises: the next record is to stand where this one began
            os.ftruncate(self._fd, self.offset)
            raise
        self._until_look -= 1
        return self._until_look > 0 or self._has_its_end()

    def _write_rest(self, frame: bytes, written: int) -> None:
        while written < len(frame):
            written += os.write(self._end_fd, frame[written:])

    def _has_its_end(self) -> bool:
        """Whether the file ends where we think. If somebody cut it, what is written now reaches nobody."""
        self._until_look = _LOOKS_EVERY
        if _seek(self._end_fd, 0, os.SEEK_CUR) == self.offset:
            return True
        self.capacity = 0
        return False

    def note_losses(self, losses: dict[str, dict[str, int]]) -> None:
        """Put the losses counted while this was the current segment where a kill cannot reach them."""
        body = msgspec.msgpack.encode(losses)
        if LOSSES_HEAD.size + len(body) > HEADER_BYTES - LOSSES_AT:  # too many steps: their sums, under no step
            body = msgspec.msgpack.encode({reason: {"": sum(steps.values())} for reason, steps in losses.items()})
        os.pwrite(self._fd, LOSSES_HEAD.pack(xxh3_64_intdigest(body), len(body)) + body, LOSSES_AT)

    def is_intact(self) -> bool:
        """Whether all records are where readers look: the file was not removed, replaced or cut short."""
        try:
            mine, named = os.fstat(self._fd), os.stat(self.path)
            is_whole = mine.st_size == self.offset and os.pread(self._fd, len(FILE_MAGIC), 0) == FILE_MAGIC
            return is_whole and (mine.st_dev, mine.st_ino) == (named.st_dev, named.st_ino)
        except OSError:
            return False

    def seal(self) -> None:
        """Say that no record will follow, and let go of the file."""
        try:
            self._write_head(SEALED, self.offset)
        finally:
            self.release()

    def release(self) -> None:
        """Let go of the file as it is: in a forked child it is the parent's."""
        descriptors, self._fd, self._end_fd = (self._fd, self._end_fd), -1, -1
        for fd in descriptors:
            if fd >= 0:
                os.close(fd)
