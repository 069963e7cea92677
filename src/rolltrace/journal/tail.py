"""Follow a journal while it is written: the records from a position on, segment after segment.

A position is one number for a whole journal, so that a batch can be named by it: the number of the segment in the high
bits, the offset in its file in the low ones.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from rolltrace.errors import FormatError
from rolltrace.files import open_private
from rolltrace.journal.reader import Damage, Entry, SegmentReader, is_live
from rolltrace.journal.segment import FRAME, FRAME_MAGIC, HEADER_BYTES
from rolltrace.journal.writer import Losses

_OFFSET_BITS = 40
_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)-([0-9]{6,15})\.seg", re.ASCII)
MAX_STRETCH_BYTES = 8 << 20
"""How much of a journal is read at once."""


class Position(NamedTuple):
    """A place in a journal."""

    sequence: int = 0
    """Which segment."""
    offset: int = 0
    """Where in its file."""

    @classmethod
    def decode(cls, number: int) -> Position:
        """The position that a table remembers; the start of the journal if it remembers none."""
        return cls() if number < 0 else cls(number >> _OFFSET_BITS, number & (1 << _OFFSET_BITS) - 1)

    def encode(self) -> int:
        """The position as a number that grows along the journal."""
        return self.sequence << _OFFSET_BITS | self.offset


class Stretch(NamedTuple):
    """What was read of a journal at once: a piece of one segment."""

    segment: SegmentReader
    items: list[Entry | Damage]
    end: Position
    """Where the next stretch begins."""
    is_over: bool
    """Nothing more will come: its writer closed the journal or is gone, and all of it was read."""

    @property
    def meta(self) -> dict[str, Any]:
        """What the writer says of itself."""
        return self.segment.meta

    @property
    def losses(self) -> Losses:
        """What the writer has lost so far in this segment."""
        return self.segment.losses


class JournalTail:
    """One journal, and how far it was read."""

    def __init__(self, folder: Path, name: str, position: Position) -> None:
        self.folder = folder
        self.name = name
        self.position = position

    def read(self, max_bytes: int = MAX_STRETCH_BYTES, until: Position | None = None) -> Stretch | None:
        """The next stretch, and move on behind it; None if there is nothing new.

        Args:
            max_bytes: How much at most; one record is read whatever its size.
            until: Where a batch ended that is read once more: exactly as far.

        Raises:
            FormatError: a segment is not one that this version can read.
        """
        later = [sequence for sequence in self._sequences() if sequence >= self.position.sequence]
        for sequence in later:
            start = self.position.offset if sequence == self.position.sequence else 0
            is_last = sequence == later[-1]
            stretch = self._read_segment(sequence, start, is_last, max_bytes, until)
            if stretch is not None:
                self.position = stretch.end
                return stretch
        return None

    def _read_segment(
        self, sequence: int, start: int, is_last: bool, max_bytes: int, until: Position | None
    ) -> Stretch | None:
        path = self._path(sequence)
        start = max(start, HEADER_BYTES)
        if until is not None:
            if (sequence, start) >= until:
                return None
            if sequence == until.sequence:
                max_bytes = min(max_bytes, until.offset - start)
        try:
            segment = SegmentReader.open(path, start, max_bytes)
        except FileNotFoundError:
            return None
        items = list(segment)
        end = max((_aligned(item.end) for item in items), default=start)
        is_read = not segment.is_cut or not items
        # A batch that ended in this segment ends there again, though its writer may have closed it meanwhile.
        is_read = is_read and (until is None or until.sequence > sequence)
        # A writer begins the next segment before it seals this one, but perhaps after we had looked which there are.
        is_last = is_last and (segment.state == "live" or not self._path(sequence + 1).exists())
        is_over = is_read and segment.state != "live" and is_last
        is_sealed = is_read and segment.state != "live" and not is_last
        if not items and not is_over and not is_sealed:
            return None
        if is_sealed:
            return Stretch(segment, items, Position(sequence + 1, 0), is_over)
        return Stretch(segment, items, Position(sequence, end), is_over)

    def has_news(self) -> bool:
        """Whether there is a record at the position, or another segment. Cheap; `read` says if the journal is over."""
        sequence, offset = self.position
        try:
            with open_private(self._path(sequence)) as file:
                head = os.pread(file.fileno(), FRAME.size, max(offset, HEADER_BYTES))
        except OSError:
            return True
        if len(head) == FRAME.size and FRAME.unpack(head)[0] == FRAME_MAGIC:
            return True
        return self._path(sequence + 1).exists()

    @property
    def segment(self) -> Path:
        """The file that is read next."""
        later = [sequence for sequence in self._sequences() if sequence >= self.position.sequence]
        return self._path(later[0] if later else self.position.sequence)

    def has_files(self) -> bool:
        """Whether there is anything of it left."""
        return bool(self._sequences())

    def is_abandoned(self) -> bool:
        """Whether its writer closed it, or is gone."""
        return self.segment.exists() and not is_live(self.segment)

    def skip_segment(self) -> None:
        """Go on behind a file that is no journal of ours, which stays where it is."""
        later = [sequence for sequence in self._sequences() if sequence >= self.position.sequence]
        if later:
            self.position = Position(later[0] + 1, 0)

    def release(self, position: Position, *, is_over: bool) -> None:
        """Remove the segments that are committed: those before a position and, of a journal that is over, the one that
        ends there."""
        for sequence in self._sequences():
            is_last = is_over and sequence == position.sequence and position.offset
            if (sequence < position.sequence or is_last) and _is_ours(self._path(sequence)):
                self._path(sequence).unlink(missing_ok=True)

    def _sequences(self) -> list[int]:
        return [sequence for name, sequence in list_segments(self.folder) if name == self.name]

    def _path(self, sequence: int) -> Path:
        return self.folder / f"{self.name}-{sequence:06d}.seg"


class SegmentName(NamedTuple):
    """What the name of a segment says."""

    journal: str
    sequence: int


def list_segments(folder: Path) -> list[SegmentName]:
    """The segments in a folder, each journal's in order; not what is no plain file (`strange_files`)."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except (FileNotFoundError, PermissionError):  # `hidden_journals` tells of the latter
        return []
    matches = map(_NAME.fullmatch, names)
    return sorted(SegmentName(match[1], int(match[2])) for match in matches if match is not None)


def _is_ours(path: Path) -> bool:
    """Whether a file is a journal that this version can read."""
    try:
        SegmentReader.open(path, HEADER_BYTES, 1)
    except FormatError:
        return False
    except OSError:
        pass
    return True


def _aligned(offset: int) -> int:
    return (offset + 7) & ~7
