"""What could not be drained: segments that failed, and the bytes of records that could not be made rows.

A segment that takes the drainer down is tried apart, and at last set aside.

A drainer may be killed at any moment by somebody who knows nothing of segments, so that a segment was begun and not
finished says little. From the third time on it is drained by a process of its own (`apart`), and what counts against
the segment is a fault that was seen: an exception, or the death of that process.

    WRITER-NNNNNN.trying       how often it was begun, and how often that failed; gone with the segment
    WRITER-NNNNNN.seg.aside    a segment that is not tried any more

Records that could not be made rows are kept in STORE/unreadable/SEGMENT-PLACE.msgpack, so that nothing is lost. They
are as they were recorded, secrets included, and so private. There is a limit to how much is kept: a record may be
unreadable because it is huge.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from rolltrace._guard import logger
from rolltrace.files import make_folder, read_page, replace_file

_MOST_BEGUN = 2
"""How often a segment may be begun in the drainer's own process."""
_MOST_FAILED = 2
MOST_BYTES = 64 << 20
"""Of all unreadable records together."""


class Attempts(msgspec.Struct, array_like=True):
    """What was tried with one segment."""

    begun: int = 0
    """How often since it was last seen to end well, or not to be at fault."""
    failed: int = 0

    @classmethod
    def of(cls, segment: Path) -> Attempts:
        try:
            return msgspec.msgpack.decode(read_page(_marker(segment)), type=cls)
        except (OSError, ValueError, msgspec.MsgspecError):  # never tried, or the marker is damaged
            return cls()

    @property
    def must_be_apart(self) -> bool:
        """Whether it may have taken drainers down."""
        return self.begun > _MOST_BEGUN

    def begin(self, segment: Path) -> None:
        """Before a segment is drained."""
        self.begun += 1
        self._save(segment)

    def fail(self, segment: Path, why: str) -> bool:
        """A fault was seen. Sets the segment aside if it is not the first; whether it did."""
        self.failed += 1
        if self.failed < _MOST_FAILED:
            logger.warning("draining %s failed, it is tried again: %s", segment, why)
            self._save(segment)
            return False
        aside = segment.with_name(f"{segment.name}.aside")
        logger.error("draining %s failed again, it is set aside as %s: %s", segment, aside.name, why)
        segment.rename(aside)
        _marker(segment).unlink(missing_ok=True)
        return True

    def survive(self, segment: Path) -> None:
        """It could not be drained, and the segment is not why: the disk is full, most likely."""
        self.begun = 0
        self._save(segment)

    def _save(self, segment: Path) -> None:
        with contextlib.suppress(OSError):  # on a full disk nothing is counted, and all the same drained if it can be
            replace_file(_marker(segment), msgspec.msgpack.encode(self))


def forget_attempts(segment: Path) -> None:
    """The segment is drained."""
    _marker(segment).unlink(missing_ok=True)


def _marker(segment: Path) -> Path:
    return segment.with_suffix(".trying")


def unreadable_folder(store: Path) -> Path:
    return store / "unreadable"


class Aside:
    """Where one drainer puts what it cannot read."""

    def __init__(self, store: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder = unreadable_folder(store)
        self._most_bytes = most_bytes
        self._bytes: int | None = None
        """How much there is; None before the first look."""

    def keep(self, name: str, body: bytes) -> None:
        """Keep these bytes under a name that is made of checked names alone. Under the same name they are replaced."""
        path = self._folder / name
        if self._bytes is None:
            self._bytes = self._begin()
        there = path.stat().st_size if path.exists() else 0
        if self._bytes - there + len(body) > self._most_bytes:
            logger.warning("there is no room to keep %s (%d bytes) in %s", name, len(body), self._folder)
            return
        replace_file(path, body, durable=True)
        self._bytes += len(body) - there

    def _begin(self) -> int:
        if self._folder.is_symlink():
            raise OSError(f"{self._folder} is a link, which is not followed")
        make_folder(self._folder, durable=True)
        with os.scandir(self._folder) as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
