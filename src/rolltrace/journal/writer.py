"""The journal of one process: segments, one after the other, and what was lost.

`append` never raises and never waits: when there is no room, the record is counted as lost with its step
and reason, in memory and in the header of the current segment.
"""

from __future__ import annotations

import builtins
import errno
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rolltrace import _guard
from rolltrace.errors import StoreError
from rolltrace.files import host_name, host_tag, lock_now, make_store, sync_path
from rolltrace.journal.place import choose_place, journal_folder, make_place, note_undrained
from rolltrace.journal.segment import FRAME, HEADER_BYTES, Segment

_RETRY_SEC = 0.5
"""How long after a failure no new segment is tried: a full disk must not cost a system call per record."""
_MAX_UNSYNCED = 256
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

Losses = dict[str, dict[str, int]]
"""reason -> step ('' for none) -> how many records"""


class JournalWriter:
    """Appends records to this process's own journal. Safe to use from any thread."""

    def __init__(
        self,
        store: Path,
        meta: dict[str, Any],
        *,
        segment_bytes: int = 16 << 20,
        max_unsent_bytes: int = 8 << 30,
        on_new_segment: Callable[[], None] = lambda: None,
        share: str | None = None,
        journals: Path | None = None,
    ) -> None:
        self._store = store
        # Somebody else may have made some of them just now: all are synced once.
        missing = [folder.parent for folder in store.parents if not folder.exists()]
        try:
            make_store(store, share)
            self.folder = journal_folder(store) if journals is None else _place(store, journals)
            make_place(store, self.folder)
            note_undrained(store, counted=False)
            self._folders = {self.folder, self.folder.parent, store / "journal", store, store.parent, *missing}
            self._unsynced_folders = set(self._folders)
            if not os.access(self.folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "no permission to write", str(self.folder))
            _check_locks(self.folder)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                f"cannot write to the store {str(store)!r}: {error.strerror or error}; "
                "choose another folder with init(store=...) or ROLLTRACE_STORE"
            ) from error
        self._meta = meta
        self._segment_bytes = segment_bytes
        self._max_unsent_bytes = max_unsent_bytes
        self._on_new_segment = on_new_segment
        self._begin()

    def _begin(self) -> None:
        # Re-entrant: a signal handler may trace while this thread is appending.
        self._lock = threading.RLock()
        self._busy = False
        self._deferred: deque[tuple[builtins.bytes, int | None]] = deque()
        now = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        self.writer_id = f"{now}-{os.getpid()}-{os.urandom(4).hex()}-{host_tag()}"
        self._segment: Segment | None = None
        self._append_to_segment: Callable[[builtins.bytes], bool] = _no_segment
        self._sealed_bytes = 0
        self._segment_losses: Losses = {}
        self._records_before = 0
        """How many records there were when the current segment began."""
        self._unsynced: list[Path] = []
        """The files of which not everything is known to be on the disk itself."""
        self._sync_failed = False
        self._sequence = 0
        self._opened_at = 0.0
        self._retry_at = 0.0
        self._retry_reason = ""
        self._closed = False
        self.records = 0
        self.losses: Losses = {}

    @property
    def bytes(self) -> int:
        """What the records saved so far take on disk."""
        segment = self._segment
        return self._sealed_bytes + (segment.used_bytes if segment is not None else 0)

    def append(self, body: builtins.bytes, step: int | None = None) -> bool:
        """Save one record; False when it was lost, which is then counted."""
        with self._lock:
            if self._busy:  # we are inside a signal handler or finaliser that interrupted an append
                self._deferred.append((body, step))
                return True
            self._busy = True
            try:
                if not self._append_to_segment(body) and not self._append_to_next(body, step):
                    return False
                self.records += 1
                return True
            except OSError as error:
                self._append_to_segment = _no_segment
                self._retry_at, self._retry_reason = time.monotonic() + _RETRY_SEC, _reason(error)
                self._lose(self._retry_reason, step, error)
                return False
            finally:
                self._busy = False
                if self._deferred:
                    self.append(*self._deferred.popleft())

    def _append_to_next(self, body: builtins.bytes, step: int | None) -> bool:
        if self._closed:
            self._lose("after_shutdown", step)
            return False
        now = time.monotonic()
        if now < self._retry_at:
            self._lose(self._retry_reason, step)
            return False
        self._turn_over(now, HEADER_BYTES + FRAME.size + len(body) + 8)
        return self._append_to_segment(body)

    def _turn_over(self, now: float, needed: int = 0) -> None:
        """Begin the next segment and seal the last, in this order: a sealed one without a successor means a writer
        that is gone."""
        capacity = max(self._segment_bytes, needed)
        if not self.folder.is_dir():  # somebody has removed it
            make_place(self._store, self.folder)
            self._unsynced_folders.update(self._folders)
        if self._undrained_bytes() + capacity > self._max_unsent_bytes:
            raise _JournalFull
        fresh = self._open_next(capacity)
        before, self._segment, self._segment_losses = self._segment, fresh, {}
        records, self._records_before = self.records - self._records_before, self.records
        self._append_to_segment = fresh.append
        self._opened_at = now
        if before is not None:
            self._seal(before, records)
        self._on_new_segment()

    def _seal(self, segment: Segment, records: int) -> None:
        """End a segment, and count those of its records that somebody has taken away meanwhile."""
        self._sealed_bytes += segment.used_bytes
        intact = segment.is_intact()
        segment.seal()
        if not intact:
            lost = records - _records_left(segment.path, segment.salt)
            if lost > 0:
                self._lose("journal_removed", None, count=lost)

    def turn_over(self, older_than_sec: float = 0.0) -> int:
        """Seal the current segment, if it is that old, so that it can be drained. Gives the number of the next one."""
        with self._lock:
            now = time.monotonic()
            tells = self._segment is not None and (self._segment.used_bytes or self._segment_losses)
            if tells and not self._busy and now - self._opened_at >= older_than_sec:
                try:
                    self._turn_over(now)
                except OSError:
                    pass  # no room for another: this one is good until there is
            return self._sequence - 1

    def sealed_files(self) -> list[Path]:
        """The files of this writer that wait to be drained."""
        current = self._segment.path if self._segment is not None else None
        return [path for path in sorted(self.folder.glob(f"{self.writer_id}-*.seg")) if path != current]

    def _open_next(self, capacity: int) -> Segment:
        path = self.folder / f"{self.writer_id}-{self._sequence:06d}.seg"
        meta = {**self._meta, "writer": self.writer_id, "sequence": self._sequence, "pid": os.getpid()}
        meta.update(host=host_name(), created_ns=time.time_ns())
        segment = Segment(path, capacity, meta)
        self._sequence += 1
        self._unsynced.append(path)
        self._unsynced_folders.add(self.folder)
        if len(self._unsynced) > _MAX_UNSYNCED:
            self._unsynced = [each for each in self._unsynced if each.exists()]  # the others are drained
        return segment

    def _undrained_bytes(self) -> int:
        """What all journals of this host take on disk."""
        total = 0
        with os.scandir(self.folder) as entries:
            for entry in entries:
                try:
                    total += entry.stat().st_size
                except FileNotFoundError:  # drained while we look
                    continue
        return total

    def lose(self, reason: str, step: int | None, count: int = 1) -> None:
        """Count records that never got as far as the journal, such as one over a sampling limit."""
        with self._lock:
            if self._segment is None and not self._closed and not self._busy:
                try:
                    self._turn_over(time.monotonic())  # losses are kept in a segment's header
                except OSError:
                    pass
            self._lose(reason, step, count=count)

    def _lose(self, reason: str, step: int | None, error: OSError | None = None, *, count: int = 1) -> None:
        label = "" if step is None else str(step)
        is_first = reason not in self.losses
        for losses in (self.losses, self._segment_losses):
            steps = losses.setdefault(reason, defaultdict(int))
            steps[label] += count
        if reason not in _QUIET_LOSSES and is_first:
            _guard.logger.warning(
                "rolltrace cannot save records (%s%s); they are counted as lost, the rollout goes on. Journal: %s",
                reason,
                f": {error}" if error is not None and str(error) else "",
                self.folder,
            )
        if self._segment is not None:
            try:
                self._segment.note_losses(self._segment_losses)
            except OSError:
                pass  # the count in memory stays; the disk that refused the record refuses this too

    def sync(self) -> bool:
        """Wait until everything appended so far is on the disk itself; False if the disk refuses.

        Waits for no lock, and holds none while it waits for the disk: whoever traces goes on, and whoever asks from a
        signal handler may hold the lock himself.
        """
        current = self._segment.path if self._segment is not None else None  # one that comes later is not taken for it
        files, folders = list(self._unsynced), list(self._unsynced_folders)
        try:
            for path in [*files, *folders]:
                try:
                    sync_path(path)
                except FileNotFoundError:
                    pass  # drained: it is in the store
        except OSError:
            if not self._sync_failed:
                self._sync_failed = True
                _guard.logger.warning("the journal %s could not be synced", self.folder, exc_info=True)
            return False
        if self._lock.acquire(blocking=False):  # else the same is synced again the next time
            try:
                done = {path for path in files if path != current}
                self._unsynced = [path for path in self._unsynced if path not in done]
                if not set(self._unsynced) - {current}:  # no segment has begun meanwhile
                    self._unsynced_folders.difference_update(folders)
            finally:
                self._lock.release()
        return True

    def close(self) -> None:
        """Seal the current segment. Records that come later are counted as lost."""
        with self._lock:
            self._closed = True
            segment, self._segment = self._segment, None
            self._append_to_segment = _no_segment
            try:
                if segment is not None:
                    self._seal(segment, self.records - self._records_before)
            except OSError:
                _guard.caught("journal close")

    def start_over_in_child(self) -> None:
        """After a fork: leave the parent's journal alone and begin one of our own.

        The lock may be held by a thread that does not exist here, so it is replaced, not taken.
        """
        if self._segment is not None:
            self._segment.release()
        self._begin()


def _place(store: Path, journals: Path) -> Path:
    try:
        return choose_place(store, journals)
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(
            f"cannot keep journals in {str(journals)!r}: {error.strerror or error}; "
            "choose another folder with ROLLTRACE_JOURNAL"
        ) from error


def _check_locks(folder: Path) -> None:
    """Whether files can be locked there: asked before the first record, not when it would be lost."""
    probe = folder / f".lock-probe.{os.urandom(4).hex()}.new"
    fd = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        lock_now(fd, probe)
    finally:
        os.close(fd)
        probe.unlink(missing_ok=True)


def _records_left(path: Path, salt: int) -> int:
    """How many records of a segment can still be read, if its file is still there."""
    from rolltrace.journal.reader import Entry, SegmentReader  # it imports this module; and nobody needs it as a rule

    try:
        left = SegmentReader.open(path)
        return sum(isinstance(item, Entry) for item in left) if left.salt == salt else 0
    except OSError:  # gone, or no journal any more
        return 0


class _JournalFull(OSError):
    """More undrained bytes on this host than `max_unsent_bytes`."""


def _reason(error: OSError) -> str:
    if isinstance(error, _JournalFull):
        return "journal_full"
    return "disk_full" if error.errno in _NO_SPACE else "journal_error"


def _no_segment(body: bytes) -> bool:
    return False


_QUIET_LOSSES = frozenset(
    {"sample_limit", "text_failed", "text_queue", "refused_score", "unrecorded_request", "untraced_rollout"}
)
"""Counted and shown, but not worth a warning here: asked for by a setting, or said by whoever lost them."""
