"""Read journal files: live, sealed, left behind by a killed process, torn or corrupt.

A reader never changes a file and never misreads one: what fails its checksum is reported as `Damage`,
and reading goes on at the next frame that passes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
from xxhash import xxh3_64_intdigest

from rolltrace.errors import FormatError
from rolltrace.journal.segment import (
    FILE_HEAD,
    FILE_MAGIC,
    FRAME,
    FRAME_MAGIC,
    HEADER_BYTES,
    LOSSES_AT,
    LOSSES_HEAD,
    META_AT,
    SEALED,
    VERSION,
)
from rolltrace.journal.writer import Losses
from rolltrace.record import Record, decode_record

State = Literal["live", "sealed", "abandoned"]
_MAGIC_BYTES = FRAME_MAGIC.to_bytes(4, "little")


@dataclass(frozen=True)
class Entry:
    """One record and where it stands."""

    offset: int
    record: Record
    size_bytes: int


@dataclass(frozen=True)
class Damage:
    """Bytes that hold no readable record, between two readable ones or at the end of a file."""

    offset: int
    size_bytes: int
    reason: str


@dataclass(frozen=True)
class SegmentReader:
    """One journal file as it was when it was opened."""

    path: Path
    state: State
    """`live`: its writer is there. `abandoned`: killed before it could seal the file."""
    meta: dict[str, Any]
    """project, experiment, writer, sequence, pid, host, created_ns."""
    losses: Losses
    salt: int
    data: bytes

    @classmethod
    def open(cls, path: Path) -> SegmentReader:
        """Read a journal file.

        Raises:
            FormatError: its header is not one of ours, is damaged, or is of a newer version.
        """
        with path.open("rb") as file:
            # Asked before reading: what is read after the writer has gone is all there will ever be.
            gone = _is_unlocked(file.fileno())
            data = file.read()
        if len(data) < HEADER_BYTES or not data.startswith(FILE_MAGIC):
            raise FormatError(f"{path} is not a rolltrace journal, or its header is lost")
        _, version, state, salt, _, checksum, length = FILE_HEAD.unpack_from(data)
        if version > VERSION:
            raise FormatError(
                f"{path} was written by a newer rolltrace (journal version {version}, this one reads up to {VERSION}); "
                "upgrade with: pip install -U rolltrace"
            )
        meta = data[META_AT : META_AT + length]
        if META_AT + length > LOSSES_AT or xxh3_64_intdigest(meta) != checksum:
            meta = b"\x80"  # the records are still good, though nobody knows whose they are
        described: State = "sealed" if state == SEALED else "abandoned" if gone else "live"
        return cls(path, described, msgspec.msgpack.decode(meta), _read_losses(data), salt, data)

    def __iter__(self) -> Iterator[Entry | Damage]:
        """Every record in order, and what is damaged between them."""
        return self.read_from(HEADER_BYTES)

    def read_from(self, offset: int, *, read_again_at: int = -1) -> Iterator[Entry | Damage]:
        """As iteration, from the offset where an earlier reading ended."""
        while offset + FRAME.size <= len(self.data):
            end = self._frame_end(offset)
            if end is None:
                found = self._next_frame(offset + 8)
                if found is None:
                    yield from self._tail(offset)
                    return
                if self.state == "live" and offset != read_again_at:
                    # A file is not read in one instant: what was read first may have been written since.
                    yield from self._read_again().read_from(offset, read_again_at=offset)
                    return
                yield Damage(offset, found - offset, "checksum mismatch")
                offset = found
                continue
            body = self.data[offset + FRAME.size : end]
            try:
                yield Entry(offset, decode_record(body), len(body))
            except msgspec.DecodeError as fault:
                yield Damage(offset, end - offset, f"unknown record: {fault}")
            offset = (end + 7) & ~7
        yield from self._tail(offset)

    def _read_again(self) -> SegmentReader:
        try:
            return replace(self, data=self.path.read_bytes())
        except FileNotFoundError:  # drained meanwhile; what we have is all the same
            return self

    def _frame_end(self, offset: int) -> int | None:
        """Where the frame at this offset ends; None if there is no committed, intact one."""
        magic, checksum, length = FRAME.unpack_from(self.data, offset)
        end = offset + FRAME.size + length
        if magic != FRAME_MAGIC or length == 0 or end > len(self.data):
            return None
        body = memoryview(self.data)[offset + FRAME.size : end]
        return end if xxh3_64_intdigest(body, self.salt + offset) == checksum else None

    def _next_frame(self, offset: int) -> int | None:
        found = self.data.find(_MAGIC_BYTES, offset)
        while found != -1:
            if found % 8 == 0 and found + FRAME.size <= len(self.data) and self._frame_end(found) is not None:
                return found
            found = self.data.find(_MAGIC_BYTES, found + 1)
        return None

    def _tail(self, offset: int) -> Iterator[Damage]:
        rest = len(self.data[offset:].rstrip(b"\0"))
        if rest and self.state != "live":  # in a live file it is a record being written
            yield Damage(offset, rest, "torn: the writer was stopped in the middle of a record, or the file was cut")


def is_live(path: Path) -> bool:
    """Whether a writer still holds the file, or it cannot be told. Sealed and abandoned ones are nobody's."""
    try:
        with path.open("rb") as file:
            return not _is_unlocked(file.fileno())
    except OSError:
        return True


def _is_unlocked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # somebody has it, or files cannot be locked there and it cannot be told
        return False
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_UN)
    return True


def _read_losses(data: bytes) -> Losses:
    checksum, length = LOSSES_HEAD.unpack_from(data, LOSSES_AT)
    start = LOSSES_AT + LOSSES_HEAD.size
    body = data[start : start + length]
    if not length or start + length > HEADER_BYTES or xxh3_64_intdigest(body) != checksum:
        return {}
    return msgspec.msgpack.decode(body, type=dict[str, dict[str, int]])


def journal_files(store: Path) -> list[Path]:
    """Every journal file of a store, of all hosts and writers, each writer's in order."""
    try:
        return sorted((store / "journal").glob("*/*.seg"))
    except OSError:
        return []


def read_journals(store: str | os.PathLike[str]) -> Iterator[tuple[SegmentReader, Entry | Damage]]:
    """Every record of every journal file of a store, with the file it stands in.

    A file that cannot be opened at all comes as one `Damage` with an empty reader.
    """
    for path in journal_files(Path(store)):
        try:
            segment = SegmentReader.open(path)
        except FileNotFoundError:  # drained since it was listed
            continue
        except OSError as fault:
            broken = SegmentReader(path, "abandoned", {}, {}, 0, b"")
            yield broken, Damage(0, path.stat().st_size if path.exists() else 0, str(fault))
            continue
        for item in segment:
            yield segment, item
