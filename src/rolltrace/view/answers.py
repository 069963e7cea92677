"""Answers that were given, by their ETag: while nothing changes, a question is asked of the store once.

Those who ask the same at the same time wait for one answer.
"""

from __future__ import annotations

import gzip
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

_MOST_BYTES = 32 << 20
"""Of all that are kept, before they are compressed."""
_WAIT_SEC = 0.05


class Answer(NamedTuple):
    """What goes back."""

    body: bytes
    media_type: str = "application/json"
    filename: str | None = None
    """Of a download."""


class Ready:
    """An answer, and what it is when it is compressed."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.answer.body, 1)


class _Making:
    """An answer that somebody makes right now."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.ready: Ready | None = None


class Answers:
    """The newest answers, as many as fit. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready: OrderedDict[str, Ready] = OrderedDict()
        self._making: dict[str, _Making] = {}
        self._bytes = 0

    def get(self, etag: str, make: Callable[[], Answer], check: Callable[[], object]) -> Ready:
        """The answer of this ETag: the one that is known, or that somebody makes right now, or that `make` returns.

        Args:
            etag: Whose answer.
            make: Makes it; what it raises is raised here.
            check: Called again and again while somebody else makes it; raises if nobody waits for it any more.
        """
        while True:
            with self._lock:
                ready = self._ready.get(etag)
                if ready is not None:
                    self._ready.move_to_end(etag)
                    return ready
                making = self._making.get(etag)
                if making is None:
                    own = self._making[etag] = _Making()
                    break
            while not making.ended.wait(_WAIT_SEC):
                check()
            if making.ready is not None:
                return making.ready
            # Whoever made it was stopped, or it cannot be made: that is ours to find out.
        try:
            own.ready = Ready(make())
            self._keep(etag, own.ready)
            return own.ready
        finally:
            with self._lock:
                del self._making[etag]
            own.ended.set()

    def _keep(self, etag: str, ready: Ready) -> None:
        size = len(ready.answer.body)
        if size > _MOST_BYTES // 8:
            return
        with self._lock:
            self._ready[etag] = ready
            self._bytes += size
            while self._bytes > _MOST_BYTES:
                _, oldest = self._ready.popitem(last=False)
                self._bytes -= len(oldest.answer.body)
