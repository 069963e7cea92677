"""How often a segment was tried: one that takes the drainer down is tried apart, and at last set aside.

A drainer may be killed at any moment by somebody who knows nothing of segments, so that a segment was begun and not
finished says little. From the third time on it is drained by a process of its own (`apart`), and what counts against
the segment is a fault that was seen: an exception, or the death of that process.

    WRITER-NNNNNN.trying       how often it was begun, and how often that failed; gone with the segment
    WRITER-NNNNNN.seg.aside    a segment that is not tried any more
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from rolltrace._guard import logger
from rolltrace.files import replace_file

_MOST_BEGUN = 2
"""How often a segment may be begun in the drainer's own process."""
_MOST_FAILED = 2


class Attempts(msgspec.Struct, array_like=True):
    """What was tried with one segment."""

    begun: int = 0
    """How often since it was last seen to end well, or not to be at fault."""
    failed: int = 0

    @classmethod
    def of(cls, segment: Path) -> Attempts:
        try:
            return msgspec.msgpack.decode(_marker(segment).read_bytes(), type=cls)
        except (OSError, ValueError):  # never tried, or the marker is damaged
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
