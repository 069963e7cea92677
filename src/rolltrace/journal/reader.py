"""Read journal files: live, sealed, left behind by a killed process, torn or corrupt.

A reader never changes a file and never misreads one: what fails its checksum is reported as `Damage`,
and reading goes on at the next frame that passes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from rolltrace.errors import FormatError
from rolltrace.files import open_private, read_problem
from rolltrace.journal.place import journal_folders
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
from rolltrace.record import Record, decode_record, read_deep

State = Literal["live", "sealed", "abandoned"]
_FRAME_BYTES = FRAME.size
_read_frame = FRAME.unpack_from
_MAGIC_BYTES = FRAME_MAGIC.to_bytes(4, "little")
_SEGMENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*-[0-9]{6,15}\.seg", re.ASCII)
"""WRITER-NNNNNN.seg: other files, such as copies that a file manager made, are not ours."""
_MAX_BYTES = 4 << 30
"""No journal file is larger; one that is, perhaps full of holes, would not fit into memory."""
_LARGE_BYTES = 16 << 10
_SEARCHED_OVER = 16
"""How often, on average, a byte of a damaged file may be hashed in the search for the next good frame."""
_META_TYPES: dict[str, type | tuple[type, ...]] = {
    "project": str, "experiment": str, "writer": str, "host": str, "checks": str, "run": str, "run_ns": int,
    "token2text": (bool, int, str), "sequence": int, "pid": int, "created_ns": int,
}  # fmt: skip
_MAX_LOST = 1 << 53
_MAX_STEP = 1 << 62


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One record and where it stands."""

    offset: int
    record: Record
    size_bytes: int

    @property
    def body_at(self) -> int:
        """Where its bytes begin."""
        return self.offset + FRAME.size

    @property
    def end(self) -> int:
        """Where they end."""
        return self.offset + FRAME.size + self.size_bytes


@dataclass(frozen=True)
class Damage:
    """Bytes that hold no readable record, between two readable ones or at the end of a file."""

    offset: int
    size_bytes: int
    reason: str

    @property
    def end(self) -> int:
        """Where they end."""
        return self.offset + self.size_bytes


@dataclass(frozen=True)
class Unread(Damage):
    """A frame that is as it was written, and whose content is no record that this version can read."""

    body: bytes = b""


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
    base: int = 0
    """The offset in the file at which `data` begins."""
    is_cut: bool = False
    """The file goes on behind `data`."""

    @classmethod
    def open(cls, path: Path, start: int = 0, max_bytes: int = _MAX_BYTES) -> SegmentReader:
        """Read a journal file, or a stretch of it.

        Args:
            path: The file.
            start: The offset of the first byte to read; an earlier reading ended there.
            max_bytes: How much to read at most. A first record that is longer is read whole.

        Raises:
            FormatError: its header is not one of ours, is damaged, or is of a newer version.
        """
        with open_private(path) as file:
            # Asked before reading: what is read after the writer has gone is all there will ever be.
            gone = _is_unlocked(file.fileno())
            size = os.fstat(file.fileno()).st_size
            if size > _MAX_BYTES:
                raise FormatError(f"{path} is larger than any journal file of rolltrace")
            header = data = os.pread(file.fileno(), HEADER_BYTES, 0) if start else file.read()
            if start:
                data = _read_stretch(file.fileno(), start, max_bytes)
        segment = cls._described(path, header, data, gone)
        return replace(segment, base=start, is_cut=start + len(data) < size) if start else segment

    @classmethod
    def _described(cls, path: Path, header: bytes, data: bytes, gone: bool) -> SegmentReader:
        if len(header) < HEADER_BYTES or not header.startswith(FILE_MAGIC):
            raise FormatError(f"{path} is not a rolltrace journal, or its header is lost")
        _, version, state, salt, _, checksum, length = FILE_HEAD.unpack_from(header)
        if version > VERSION:
            raise FormatError(
                f"{path} was written by a newer rolltrace (journal version {version}, this one reads up to {VERSION}); "
                "upgrade with: pip install -U rolltrace"
            )
        meta = header[META_AT : META_AT + length]
        if META_AT + length > LOSSES_AT or xxh3_64_intdigest(meta) != checksum:
            meta = b""  # the records are still good, though nobody knows whose they are
        described: State = "sealed" if state == SEALED else "abandoned" if gone else "live"
        return cls(path, described, _read_meta(meta), _read_losses(header), salt, data)

    def __iter__(self) -> Iterator[Entry | Damage]:
        """Every record in order, and what is damaged between them."""
        return self.read_from(max(self.base, HEADER_BYTES))

    def read_from(self, offset: int, *, read_again_at: int = -1) -> Iterator[Entry | Damage]:
        """As iteration, from the offset where an earlier reading ended."""
        data, salt, base = self.data, self.salt + self.base, self.base
        budget, size, view = [_SEARCHED_OVER * len(data)], len(data), memoryview(data)
        at = offset - base
        while at + _FRAME_BYTES <= size:
            magic, checksum, length = _read_frame(data, at)
            start = at + _FRAME_BYTES
            end = start + length
            body: bytes | memoryview = b""
            if magic == FRAME_MAGIC and 0 < length <= size - start:
                # Of a large record, which is an end and soon done with, the payload is not copied.
                body = data[start:end] if length < _LARGE_BYTES else view[start:end]
            if not body or xxh3_64_intdigest(body, salt + at) != checksum:
                if self.is_cut and magic == FRAME_MAGIC and end > size:
                    return  # the rest of it is behind the stretch that was read
                next_frame = self._next_frame(at + 8, budget)
                if next_frame is None:
                    yield from self._tail(at)
                    return
                if self.state == "live" and at + base != read_again_at:
                    # A file is not read in one instant: what was read first may have been written since.
                    yield from self._read_again().read_from(at + base, read_again_at=at + base)
                    return
                yield Damage(at + base, next_frame - at, "checksum mismatch")
                at = next_frame
                continue
            item: Entry | Damage
            try:
                item = Entry(at + base, decode_record(body), length)
            except Exception as error:  # no record of ours, text that is no UTF-8, nesting that the stack cannot hold
                item = _unread(at + base, bytes(body), error)
            yield item
            at = (end + 7) & ~7
        yield from self._tail(at)

    def _read_again(self) -> SegmentReader:
        try:
            with open_private(self.path) as file:
                return replace(self, data=os.pread(file.fileno(), len(self.data), self.base))
        except FileNotFoundError:  # drained meanwhile; what we have is all the same
            return self

    def _frame_end(self, at: int) -> int | None:
        """Where the frame at this place in `data` ends; None if there is no committed, intact one."""
        magic, checksum, length = FRAME.unpack_from(self.data, at)
        end = at + FRAME.size + length
        if magic != FRAME_MAGIC or length == 0 or end > len(self.data):
            return None
        body = memoryview(self.data)[at + FRAME.size : end]
        return end if xxh3_64_intdigest(body, self.salt + self.base + at) == checksum else None

    def _next_frame(self, at: int, budget: list[int]) -> int | None:
        """Where the next good frame is in `data`. `budget` is how many bytes may still be hashed on the search."""
        candidate = self.data.find(_MAGIC_BYTES, at)
        while candidate != -1 and budget[0] > 0:
            if candidate % 8 == 0 and candidate + FRAME.size <= len(self.data):
                _, _, length = FRAME.unpack_from(self.data, candidate)
                budget[0] -= min(length, len(self.data) - candidate)
                if self._frame_end(candidate) is not None:
                    return candidate
            candidate = self.data.find(_MAGIC_BYTES, candidate + 1)
        return None

    def _tail(self, at: int) -> Iterator[Damage]:
        rest = len(self.data[at:].rstrip(b"\0"))
        if rest and self.state != "live" and not self.is_cut:  # in a live file it is a record being written
            yield Damage(
                at + self.base, rest, "torn: the writer was stopped in the middle of a record, or the file was cut"
            )


def _read_stretch(fd: int, start: int, max_bytes: int) -> bytes:
    """So many bytes from there on, or the first record if that is longer."""
    head = os.pread(fd, FRAME.size, start)
    if len(head) == FRAME.size:
        magic, _, length = FRAME.unpack(head)
        if magic == FRAME_MAGIC:
            max_bytes = max(max_bytes, FRAME.size + length)
    return os.pread(fd, min(max_bytes, _MAX_BYTES), start)


def _unread(offset: int, body: bytes, error: Exception) -> Entry | Damage:
    deep = read_deep(body) if isinstance(error, RecursionError) else None
    if deep is not None:
        return Entry(offset, deep, len(body))
    reason = f"unknown record: {error}" if isinstance(error, msgspec.DecodeError) else type(error).__name__
    return Unread(offset, FRAME.size + len(body), reason, body)


def is_live(path: Path) -> bool:
    """Whether a writer still holds the file, or it cannot be told. Sealed and abandoned ones are nobody's."""
    try:
        with open_private(path) as file:
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


def _read_meta(body: bytes) -> dict[str, Any]:
    """What the header says of the writer, as far as it makes sense."""
    try:
        meta = msgspec.msgpack.decode(body, type=dict[str, Any]) if body else {}
    except Exception:  # as in `read_from`
        return {}
    sound = {name: value for name, value in meta.items() if isinstance(value, _META_TYPES.get(name, ()))}
    backends = meta.get("backends")
    if isinstance(backends, list):
        sound["backends"] = [name for name in backends if isinstance(name, str) and name]
    return sound


def _read_losses(data: bytes) -> Losses:
    """What the writer lost, as far as it makes sense; what does not counts as one record that cannot be read."""
    checksum, length = LOSSES_HEAD.unpack_from(data, LOSSES_AT)
    start = LOSSES_AT + LOSSES_HEAD.size
    body = data[start : start + length]
    if not length or start + length > HEADER_BYTES or xxh3_64_intdigest(body) != checksum:
        return {}
    losses: Losses = {}
    try:
        counted = msgspec.msgpack.decode(body, type=dict[str, dict[str, Any]])
    except Exception:  # as in `read_from`
        return {"unreadable": {"": 1}}
    for reason, steps in counted.items():
        for label, count in steps.items():
            step = _step_label(label)
            if step is None or type(count) is not int or not 0 <= count < _MAX_LOST:
                reason, step, count = "unreadable", "", 1
            of_reason = losses.setdefault(reason, {})
            of_reason[step] = of_reason.get(step, 0) + count
    return losses


def _step_label(label: str) -> str | None:
    if not label:
        return ""
    if not re.fullmatch(r"-?[0-9]{1,19}", label) or not -_MAX_STEP < int(label) < _MAX_STEP:
        return None
    return str(int(label))


def journal_files(store: Path) -> list[Path]:
    """Every journal file of a store, of all hosts and writers, each writer's in order."""
    return sorted(entry.path for entry in _listed(store) if not entry.problem)


class StrangeFile(NamedTuple):
    """Something that looks like a journal file and is none of ours."""

    path: Path
    problem: str


def strange_files(store: Path) -> list[StrangeFile]:
    """What stands among the journals of a store and is left alone."""
    return sorted(entry for entry in _listed(store) if entry.problem)


def hidden_journals(store: Path) -> list[StrangeFile]:
    """Journals that no reader sees: in folders that cannot be listed, or set aside by the drainer."""
    hidden: list[StrangeFile] = []
    _entries(store / "journal", hidden)
    for folder in journal_folders(store):
        hidden += [
            StrangeFile(Path(entry.path), "set aside by the drainer, which failed on it twice")
            for entry in _entries(folder, hidden)
            if entry.name.endswith(".seg.aside")
        ]
    return sorted(hidden)


def _listed(store: Path) -> Iterator[StrangeFile]:
    for folder in _entries(store / "journal"):
        if folder.is_symlink():
            yield StrangeFile(Path(folder.path), "a link, which is not followed")
    for path in journal_folders(store):
        for entry in _entries(path):
            if entry.name.endswith(".seg"):
                yield StrangeFile(Path(entry.path), _problem(entry))


def _entries(folder: Path, unreadable: list[StrangeFile] | None = None) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        if unreadable is not None:
            unreadable.append(StrangeFile(folder, read_problem(folder, error)))
        return []


def _problem(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "a link, which is not followed"
    if not entry.is_file(follow_symlinks=False):
        return "not a plain file"
    if not _SEGMENT_NAME.fullmatch(entry.name):
        return "not the name of a journal file; perhaps a copy"
    return ""


def read_journals(store: str | os.PathLike[str]) -> Iterator[tuple[SegmentReader, Entry | Damage]]:
    """Every record of every journal file of a store, with the file it stands in.

    A file that cannot be opened at all comes as one `Damage` with an empty reader.
    """
    for path in journal_files(Path(store)):
        try:
            segment = SegmentReader.open(path)
        except FileNotFoundError:  # drained since it was listed
            continue
        except OSError as error:
            broken = SegmentReader(path, "abandoned", {}, {}, 0, b"")
            yield broken, Damage(0, path.stat().st_size if path.exists() else 0, str(error))
            continue
        for item in segment:
            yield segment, item
