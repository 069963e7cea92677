"""See to it that what journals hold is in the tables, for whoever is about to ask."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rolltrace.drain.drain_state import committed_positions
from rolltrace.journal import (
    HEADER_BYTES,
    Position,
    drainer_is_running,
    drains_itself,
    find_link,
    is_live,
    journal_folder,
    list_segments,
    own_folders,
    start_drainer,
    undrained_bytes,
)

MAX_OWN_BYTES = 64 << 20
"""A larger backlog is left to a drainer process, which goes on when the asking process ends."""
_LOOK_EVERY_SEC = 0.05
_LOOK_FOR_DRAINER_SEC = 2.0
Progress = Callable[[int, int], None]
_forked: set[int] = set()
"""This process, if it was forked from one that has used deltalake, whose runtime does not survive that."""


def catch_up(store: Path, *, wait_sec: float, progress: Progress | None = None) -> int:
    """Wait until what the journals of this host held when this was called is in the tables.

    If no drainer is at work, a small backlog is drained in this process; for a large one a drainer is started.

    Args:
        store: The store.
        wait_sec: How long to wait for a drainer that gets no further.
        progress: Told how many bytes are done, and of how many.

    Returns:
        How many bytes are still in the journals alone; 0 if the tables are complete.
    """
    waiting = {} if drains_itself(store) else find_waiting(store)
    if not waiting:
        return 0
    if not os.access(journal_folder(store), os.W_OK) or find_link(store) is not None:
        return sum(waiting.values())
    total = sum(waiting.values())
    if total <= MAX_OWN_BYTES and drainer_is_running(store) is False and _drain_here(store, progress):
        return 0
    left, deadline, look_at = total, time.monotonic() + wait_sec, 0.0
    while True:
        before, left = left, sum(_uncommitted_bytes(store, path, size) for path, size in waiting.items())
        if progress is not None:
            progress(total - left, total)
        now = time.monotonic()
        if left < before:
            deadline = now + wait_sec
        if left and now >= look_at:
            start_drainer(store)
            look_at = now + _LOOK_FOR_DRAINER_SEC
        if not left or now >= deadline:
            return left
        time.sleep(_LOOK_EVERY_SEC)


def _drain_here(store: Path, progress: Progress | None) -> bool:
    if os.getpid() in _forked:
        return False
    from rolltrace.drain.follower import Follower  # loads the column libraries

    follower = Follower(store)
    with follower.working() as alone:
        if alone:
            follower.drain(progress or (lambda done, total: None))
            return not follower.postponed
    return False


def find_waiting(store: Path) -> dict[Path, int]:
    """The journal files of which not all is in the tables, and how long they are now."""
    sizes = {}
    for folder in own_folders(store):
        for name, sequence in list_segments(folder):
            path = folder / f"{name}-{sequence:06d}.seg"
            size = undrained_bytes(path)
            if left := _uncommitted_bytes(store, path, size):
                sizes[path] = max(size, left)
    return sizes


def _uncommitted_bytes(store: Path, path: Path, size: int) -> int:
    """How much of a journal file of this length is in no table; at least 1 until a drainer has removed one that is
    over."""
    if not path.exists():
        return 0
    name, _, number = path.stem.rpartition("-")
    position = Position.decode(committed_positions(journal_folder(store)).get(name, -1))
    done = max(position.offset - HEADER_BYTES, 0) if position.sequence == int(number) else 0
    if position.sequence > int(number) or done >= size:
        return 0 if is_live(path) else 1
    return size - done


def _note_fork() -> None:
    if "deltalake" in sys.modules:
        _forked.add(os.getpid())


os.register_at_fork(after_in_child=_note_fork)
