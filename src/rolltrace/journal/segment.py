"""One journal file: its layout, and writing to it.

    0      header: magic, version, state, salt, bytes used, meta (msgpack: who writes this)
    2048   losses (msgpack), rewritten in place at each loss so that a kill cannot hide one
    4096   frames, each aligned to 8 bytes: magic, checksum, length, then the record

A frame is committed by its length, the last word of its head; the checksum covers the body and is seeded
with the file's salt and the frame's place, so neither torn bytes nor a copy of a frame inside traced
data can pass for a record. The writer holds an flock on the file; when it is free, the writer is gone.

Space is reserved before it is used: a full disk is an OSError here, not a SIGBUS in the training run. Nor is a file
that somebody cuts short: see `sigbus`.
Nothing here is safe against two calls at once: the writer sees to that.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import struct
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from rolltrace.files import lock_now, open_file
from rolltrace.journal import sigbus
from rolltrace.journal.spare import take_spare

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

_PREPARED_AHEAD = 512 << 10
"""Pages are made by writing zeros this far ahead: measured, a page fault on a fresh mapped page costs about
3 us (27 us for 36 kB), pages that already exist cost a third of that. See docs/design/002-journal.md."""
_ZEROS = bytes(_PREPARED_AHEAD)
_commit = FRAME.pack_into
Payload = bytes | msgspec.Raw
"""Bytes of a record that are copied from where they are."""


class Segment(ABC):
    """An open journal file with a place for the next record."""

    def __init__(self, path: Path, capacity: int, meta: dict[str, Any], spare: Path | None = None) -> None:
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
        made_ahead = None if spare is None else take_spare(spare, hidden, capacity)
        self._fd = open_file(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL) if made_ahead is None else made_ahead
        try:
            lock_now(self._fd, hidden)
            self._reserve(is_ready=made_ahead is not None)
            self._write_head(OPEN, 0)
            os.rename(hidden, path)
        except BaseException:
            self._release()
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

    @abstractmethod
    def _reserve(self, *, is_ready: bool) -> None:
        """Make room for `capacity` bytes, or raise OSError. `is_ready`: the file has them, with their pages."""

    @abstractmethod
    def append(self, body: bytes, rest: tuple[Payload, ...] = ()) -> bool:
        """Commit one record, `body` and then `rest`; False when it does not fit. The caller holds the writer's lock."""

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
            whole = mine.st_size >= self.offset and os.pread(self._fd, len(FILE_MAGIC), 0) == FILE_MAGIC
            return whole and (mine.st_dev, mine.st_ino) == (named.st_dev, named.st_ino)
        except OSError:
            return False

    def sync(self) -> None:
        """Wait until what was written is on the disk itself."""
        fd = os.dup(self._fd)  # whoever writes meanwhile may seal this file
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def seal(self, *, durable: bool = False) -> None:
        """Say that no record will follow, give unused space back, let go of the file."""
        try:
            self._write_head(SEALED, self.offset)
            os.ftruncate(self._fd, self.offset)
            if durable:
                os.fsync(self._fd)
        finally:
            self._release()

    def _release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def abandon(self) -> None:
        """In a forked child: let go of the parent's file without a trace."""
        with contextlib.suppress(OSError):
            self._release()


class MappedSegment(Segment):
    """Written by copying into memory: no system call, and so no release of the GIL, per record.

    A write() per record would cost little by itself, but it releases the GIL: with one busy thread beside
    it, each waits for a thread switch, 4.5 ms measured.
    """

    _map: mmap.mmap
    _view: memoryview

    def _reserve(self, *, is_ready: bool) -> None:
        if not is_ready:
            os.posix_fallocate(self._fd, 0, self.capacity)
        self._ready = self.capacity if is_ready else 0
        self._map = mmap.mmap(self._fd, self.capacity)
        self._view = memoryview(self._map)
        if not sigbus.guard(self._map, self._on_cut):
            raise OSError(errno.ENOTSUP, "a mapped file cannot be guarded here")
        self._prepare(HEADER_BYTES)

    def _on_cut(self) -> None:
        """Somebody cut the file short: what is written from here on reaches nobody, so nothing fits any more."""
        self._ready = self.capacity = 0

    def _prepare(self, until: int) -> None:
        while self._ready < until:
            size = min(_PREPARED_AHEAD, self.capacity - self._ready)
            os.pwrite(self._fd, _ZEROS[:size] if size < _PREPARED_AHEAD else _ZEROS, self._ready)
            self._ready += size

    def append(self, body: bytes, rest: tuple[Payload, ...] = ()) -> bool:
        start = self.offset
        at = start + 16
        end = at + len(body)
        for part in rest:
            end += len(part)
        if end > self._ready:
            if end > self.capacity:
                return False
            self._prepare(end)
        if rest:
            mapped = self._map
            for part in (body, *rest):
                begin, at = at, at + len(part)
                mapped[begin:at] = part
            checksum = xxh3_64_intdigest(self._view[start + 16 : end], self.salt + start)
        else:
            self._map[at:end] = body
            checksum = xxh3_64_intdigest(body, self.salt + start)
        _commit(self._map, start, FRAME_MAGIC, checksum, end - start - 16)
        if end > self._ready:  # the file was cut short just now
            return False
        self.offset = (end + 7) & ~7
        return True

    def _release(self) -> None:
        if hasattr(self, "_map") and not self._map.closed:
            sigbus.release(self._map)
            if hasattr(self, "_view"):  # not if a signal came between the two
                self._view.release()
            self._map.close()
        super()._release()


class AppendedSegment(Segment):
    """Written by one system call per record, for file systems whose mappings cannot be trusted."""

    def _reserve(self, *, is_ready: bool) -> None:
        os.pwrite(self._fd, bytes(HEADER_BYTES), 0)

    def append(self, body: bytes, rest: tuple[Payload, ...] = ()) -> bool:
        start = self.offset
        if rest:
            body = b"".join((body, *rest))
        end = start + FRAME.size + len(body)
        if end > self.capacity:
            return False
        checksum = xxh3_64_intdigest(body, self.salt + start)
        frame = FRAME.pack(FRAME_MAGIC, checksum, len(body))
        try:
            written = os.pwritev(self._fd, [frame, body], start)
            while written < len(frame) + len(body):
                written += os.pwrite(self._fd, (frame + body)[written:], start + written)
        except OSError:
            os.ftruncate(self._fd, start)  # what a full disk cut short
            raise
        self.offset = (end + 7) & ~7
        return True
