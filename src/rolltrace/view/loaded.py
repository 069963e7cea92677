"""Trajectories that somebody looks at, kept while nothing about them changes: its tabs ask for the same one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from rolltrace.query import (
    ShownMessage,
    Store,
    TokenSequence,
    Trajectory,
    messages_of_trajectory,
    outline_of,
    tokens_of,
)

T = TypeVar("T")
_MOST = 16


class Loaded:
    """What was read of trajectories. Safe to use from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], tuple[str, Any]] = OrderedDict()

    def trajectory(self, trajectory_id: str) -> Trajectory:
        return self._get("trajectory", trajectory_id, lambda: self._store.trajectory(trajectory_id))

    def messages(self, trajectory_id: str) -> list[ShownMessage]:
        return self._get("messages", trajectory_id, lambda: messages_of_trajectory(self.trajectory(trajectory_id)))

    def ops(self, trajectory_id: str) -> list[dict[str, Any]]:
        return self._get("ops", trajectory_id, lambda: outline_of(self._store, trajectory_id).ops)

    def tokens(self, trajectory_id: str) -> TokenSequence:
        return self._get("tokens", trajectory_id, lambda: tokens_of(self._store, trajectory_id))

    def _get(self, what: str, trajectory_id: str, read: Callable[[], T]) -> T:
        version = self._store.version()
        key = (what, trajectory_id)
        with self._lock:
            known = self._known.get(key)
            if known is not None and known[0] == version:
                self._known.move_to_end(key)
                return known[1]  # type: ignore[no-any-return]
        value = read()
        with self._lock:
            self._known[key] = (version, value)
            while len(self._known) > 4 * _MOST:
                self._known.popitem(last=False)
        return value
