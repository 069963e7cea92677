"""The ops that callbacks have begun and not ended yet, by the ids that their SDK gives to calls."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_MOST = 65_536
"""A call whose end is never told must not stay for ever."""


class Running(Generic[T]):
    """For several threads."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[Any, T] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, key: Any, value: T) -> None:
        with self._lock:
            self._by_id[key] = value
            while len(self._by_id) > _MOST:
                self._by_id.popitem(last=False)

    def get(self, key: Any) -> T | None:
        return self._by_id.get(key)

    def take(self, key: Any) -> T | None:
        with self._lock:
            return self._by_id.pop(key, None)
