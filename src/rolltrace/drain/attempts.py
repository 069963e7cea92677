"""What could not be drained: segments that failed, and the bytes of records that could not be made rows.

A drainer may be killed at any moment by somebody who knows nothing of batches, so that a batch was begun and not
finished says little. From the third time on each journal is tried in a process of its own first (`apart`), and what
counts against a segment is an error that was seen: an exception, or the death of that process.

    JOURNALS/trying           how often a batch was begun in a row, and which segments failed how often
    WRITER-NNNNNN.seg.aside   a segment that is not tried any more

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

MAX_BEGUN = 2
"""How often a batch may be begun in a row before its journals are tried apart."""
MAX_FAILED = 2
MAX_ASIDE_BYTES = 64 << 20
"""Of all unreadable records together."""


class Attempts(msgspec.Struct, array_like=True):
    """What was tried with the journals of one folder since a batch last went well."""

    begun: int = 0
    failed: dict[str, int] = {}
    """By the name of the segment."""

    @classmethod
    def load(cls, folder: Path) -> Attempts:
        """What was saved; nothing, if it is damaged."""
        try:
            return msgspec.msgpack.decode(read_page(folder / "trying"), type=cls)
        except (OSError, ValueError, msgspec.MsgspecError):
            return cls()

    @property
    def are_many(self) -> bool:
        """Whether something in the journals may have taken drainers down."""
        return self.begun > MAX_BEGUN or bool(self.failed)

    def begin(self, folder: Path) -> None:
        """Before a batch is shaped."""
        self.begun += 1
        self._save(folder)

    def fail(self, segment: Path, why: str) -> bool:
        """An error was seen. Sets the segment aside if it is not the first; whether it did."""
        count = self.failed[segment.name] = self.failed.get(segment.name, 0) + 1
        if count < MAX_FAILED:
            logger.warning("draining %s failed, it is tried again: %s", segment, why)
            self._save(segment.parent)
            return False
        aside = segment.with_name(f"{segment.name}.aside")
        logger.error("draining %s failed again, it is set aside as %s: %s", segment, aside.name, why)
        segment.rename(aside)
        del self.failed[segment.name]
        self._save(segment.parent)
        return True

    def survive(self, folder: Path) -> None:
        """A batch could not be drained, and what is in it is not why: the disk is full, most likely."""
        self.begun = 0
        self._save(folder)

    def clear(self, folder: Path) -> None:
        """A batch went well."""
        if self.begun:
            self.begun = 0
            if self.failed:
                self._save(folder)
            else:
                (folder / "trying").unlink(missing_ok=True)

    def _save(self, folder: Path) -> None:
        with contextlib.suppress(OSError):  # on a full disk nothing is counted, and all the same drained if it can be
            replace_file(folder / "trying", msgspec.msgpack.encode(self))


class Aside:
    """Where one drainer puts what it cannot read."""

    def __init__(self, store: Path, max_bytes: int = MAX_ASIDE_BYTES) -> None:
        self._folder = store / "unreadable"
        self._max_bytes = max_bytes
        self._bytes: int | None = None
        """How much there is; None before the first look."""

    def keep(self, name: str, body: bytes) -> None:
        """Keep these bytes under a name that is made of checked names alone. Under the same name they are replaced."""
        path = self._folder / name
        if self._bytes is None:
            self._bytes = self._begin()
        there = path.stat().st_size if path.exists() else 0
        if self._bytes - there + len(body) > self._max_bytes:
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
