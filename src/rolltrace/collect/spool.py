"""Spans that wait to be written to the journal, in a file, so that a kill loses none that was acknowledged.

A span can only be written once it is known where its trajectory stands, and that may stand on the root, which comes
last. One file per collector, in `STORE/collect`, under a lock; one whose lock is free was left behind by a collector
that was killed, and is taken over by the next. A record is its length, a checksum and a span in msgpack; a torn one at
the end was never acknowledged.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import xxhash

from rolltrace.collect.otlp import ReceivedSpan
from rolltrace.files import make_folder

_HEAD = struct.Struct("<IQ")
MAX_RECORD_BYTES = 256 << 20
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ReceivedSpan).decode


class Spool:
    """The file of this process. Not for several threads at once."""

    def __init__(self, store: Path) -> None:
        self.folder = store / "collect"
        make_folder(self.folder)
        self.path = self.folder / f"{os.getpid()}-{os.urandom(4).hex()}.spool"
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def append(self, spans: Sequence[ReceivedSpan]) -> None:
        """Keep spans; they are in the page cache when this returns.

        Raises:
            OSError: the disk is full; nothing of them is kept.
        """
        data = b"".join(_record(span) for span in spans)
        before = self.size
        try:
            written = 0
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            os.ftruncate(self._fd, before)
            raise

    @property
    def size(self) -> int:
        """How many bytes wait."""
        return os.fstat(self._fd).st_size

    def clear(self) -> None:
        """All of them are in the journal."""
        os.ftruncate(self._fd, 0)

    def left_behind(self) -> Iterator[tuple[Path, list[ReceivedSpan]]]:
        """What collectors that are gone have left: their files, to be removed when the spans are safe elsewhere."""
        for path in sorted(self.folder.glob("*.spool")):
            if path == self.path:
                continue
            try:
                with path.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield path, list(_spans(file.read()))
            except (BlockingIOError, FileNotFoundError):
                continue  # another collector is at work with it, or has just been

    def close(self) -> None:
        """Remove the file if nothing waits in it; what does wait is taken over by the next collector."""
        if not self.size:
            self.path.unlink(missing_ok=True)
        os.close(self._fd)


def _record(span: ReceivedSpan) -> bytes:
    body = _encode(span)
    return _HEAD.pack(len(body), xxhash.xxh3_64_intdigest(body)) + body


def _spans(data: bytes) -> Iterator[ReceivedSpan]:
    at = 0
    while at + _HEAD.size <= len(data):
        size, checksum = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + size]
        if size > MAX_RECORD_BYTES or len(body) < size or xxhash.xxh3_64_intdigest(body) != checksum:
            return
        at += _HEAD.size + size
        try:
            yield _decode(body)
        except msgspec.DecodeError:
            continue
