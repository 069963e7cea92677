"""Answers that were given, by their ETag: while nothing changes, a question is asked of the store once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

_MOST_BYTES = 32 << 20


class Answer(NamedTuple):
    """What goes back."""

    body: bytes
    media_type: str = "application/json"
    filename: str | None = None
    """Of a download."""


class Answers:
    """The newest answers, as many as fit. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Answer] = OrderedDict()
        self._bytes = 0

    def get(self, etag: str) -> Answer | None:
        with self._lock:
            answer = self._known.get(etag)
            if answer is not None:
                self._known.move_to_end(etag)
            return answer

    def keep(self, etag: str, answer: Answer) -> None:
        if len(answer.body) > _MOST_BYTES // 8:
            return
        with self._lock:
            before = self._known.pop(etag, None)
            self._bytes += len(answer.body) - (0 if before is None else len(before.body))
            self._known[etag] = answer
            while self._bytes > _MOST_BYTES:
                _, oldest = self._known.popitem(last=False)
                self._bytes -= len(oldest.body)
