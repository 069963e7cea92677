"""What journals hold and tables do not: drained before a question is answered, as far as that is possible.

The first question waits for all of it, with a line on a terminal, and fails if that takes too long: an answer is never
silently partial. Later ones only see to it that somebody drains. A store that we cannot write to is answered from its
tables, and the answer says what it lacks.
"""

from __future__ import annotations

import math
import os
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rolltrace._address import address_in
from rolltrace._amounts import size
from rolltrace.errors import FormatError, StoreError
from rolltrace.files import open_private, read_problem, write_problem
from rolltrace.journal import (
    HEADER_BYTES,
    SegmentReader,
    find_link,
    hidden_journals,
    is_live,
    journal_files,
    journal_folder,
)

MAX_WAIT_SEC = 60.0
"""How long a first question waits for what was not drained."""
_QUIET_SEC = 1.0


class Backlog:
    """The journals of a store, as a reader sees them."""

    def __init__(self, store: Path, *, drains: bool = True) -> None:
        """`drains`: see to it that they are drained; without, they are only looked at."""
        self._store = store
        self._drains = drains
        self._is_first = True
        self.waiting_bytes = 0
        """How much is in journals and in no table, because we cannot drain it."""
        self.hidden: dict[Path, str] = {}
        """Journals that are not ours to read -> why."""

    def drain(self, *, everything: bool = False, wait_sec: float = 0.0) -> None:
        """See to it that what was recorded so far is in the tables, or soon will be.

        Args:
            everything: Wait for it, as the first time.
            wait_sec: Wait so long at most, and go on.

        Raises:
            StoreError: to wait for everything took too long.
        """
        waits, self._is_first = everything or self._is_first, False
        self.hidden = dict(hidden_journals(self._store))
        self.waiting_bytes = 0
        if not self._drains or not journal_files(self._store):
            return
        from rolltrace.drain import catch_up

        progress = _Progress()
        try:
            left = catch_up(self._store, wait_sec=MAX_WAIT_SEC if waits else wait_sec, progress=progress)
        finally:
            progress.clear()
        self.hidden.update(_find_unreadable(self._store))
        is_closed = not os.access(journal_folder(self._store), os.W_OK) or write_problem(self._store) is not None
        if is_closed or find_link(self._store) is not None:
            self.waiting_bytes = left
        elif left and waits:
            raise StoreError(
                f"{size(left)} of journals are not in the tables of the store {address_in(self._store).url!r} yet, and "
                f"an answer would lack them; drain it first, with: rolltrace store drain "
                f"{shlex.quote(address_in(self._store).url)}"
            )


def _find_unreadable(store: Path) -> Iterator[tuple[Path, str]]:
    """The journal files that no drainer of ours can read, and why."""
    for path in journal_files(store):
        try:
            if not is_live(path):
                SegmentReader.open(path, HEADER_BYTES, 1)
            else:
                open_private(path).close()
        except FileNotFoundError:  # drained meanwhile
            continue
        except FormatError as error:
            yield path, str(error)
        except OSError as error:
            yield path, read_problem(path, error)


class _Progress:
    """A line on a terminal that says how much is drained, once that takes a while."""

    def __init__(self) -> None:
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._shows_at = time.monotonic() + _QUIET_SEC if is_terminal else math.inf
        self._width = 0

    def __call__(self, done_bytes: int, total_bytes: int) -> None:
        if time.monotonic() >= self._shows_at:
            self._print(f"draining journals: {size(done_bytes)} of {size(total_bytes)}")

    def clear(self) -> None:
        if self._width:
            self._print("")

    def _print(self, text: str) -> None:
        sys.stderr.write(f"\r{text:<{self._width}}" + ("" if text else "\r"))
        sys.stderr.flush()
        self._width = max(self._width, len(text))
