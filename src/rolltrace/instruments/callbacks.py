"""What instruments share that an SDK calls back: a guard, and the ops that were begun and not ended yet."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rolltrace._guard import caught
from rolltrace.instruments.op import is_recording

T = TypeVar("T")
_MAX_RUNNING = 65_536
"""A call whose end is never told must not stay for ever."""


def callback(where: str, *, begins: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a callback that never raises; one that begins something does nothing while nothing is recorded."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> None:
            if begins and not is_recording():
                return
            try:
                function(*args, **kwargs)
            except Exception:
                caught(where)

        return guarded

    return decorate


class Running(Generic[T]):
    """Those of one SDK, by the ids that it gives to calls. For several threads."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[Any, T] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, key: Any, value: T) -> None:
        with self._lock:
            self._by_id[key] = value
            while len(self._by_id) > _MAX_RUNNING:
                self._by_id.popitem(last=False)

    def get(self, key: Any) -> T | None:
        return self._by_id.get(key)

    def take(self, key: Any) -> T | None:
        with self._lock:
            return self._by_id.pop(key, None)
