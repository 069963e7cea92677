"""Trajectories that somebody looks at, kept while nothing about them changes: all tabs of a page ask for one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from rolltrace.query import (
    Place,
    ShownMessage,
    Store,
    TokenSequence,
    Trajectory,
    find_trajectory,
    messages_of_trajectory,
    ops_of,
    tokens_of,
)

T = TypeVar("T")
_MOST = 64


class _Known(NamedTuple):
    version: str
    value: Any


class Loaded:
    """What was read of trajectories. Safe to use from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._places: OrderedDict[str, Place] = OrderedDict()

    def place(self, trajectory_id: str) -> Place:
        """Where it is; a prefix of its id is enough."""
        with self._lock:
            place = self._places.get(trajectory_id)
        if place is None:
            place = find_trajectory(self._store, trajectory_id)
            with self._lock:
                if trajectory_id == place.trajectory_id:  # fewer letters may mean several some day
                    self._remember(self._places, trajectory_id, place)
        return place

    def trajectory(self, trajectory_id: str) -> Trajectory:
        return self._get("trajectory", trajectory_id, lambda place: self._store.trajectory(place.trajectory_id))

    def messages(self, trajectory_id: str) -> list[ShownMessage]:
        read = self.trajectory
        return self._get("messages", trajectory_id, lambda place: messages_of_trajectory(read(place.trajectory_id)))

    def ops(self, trajectory_id: str) -> list[dict[str, Any]]:
        return self._get("ops", trajectory_id, lambda place: ops_of(self._store, place))

    def tokens(self, trajectory_id: str) -> TokenSequence:
        return self._get("tokens", trajectory_id, lambda place: tokens_of(self._store, place))

    def _get(self, what: str, trajectory_id: str, read: Callable[[Place], T]) -> T:
        place = self.place(trajectory_id)
        version = self._store.version(place.step)
        key = (what, place.trajectory_id)
        with self._lock:
            entry = self._known.get(key)
            if entry is not None and entry.version == version:
                self._known.move_to_end(key)
                return entry.value  # type: ignore[no-any-return]
        value = read(place)
        with self._lock:
            self._remember(self._known, key, _Known(version, value))
        return value

    def _remember(self, entries: OrderedDict[Any, Any], key: Any, value: Any) -> None:
        entries[key] = value
        entries.move_to_end(key)
        while len(entries) > _MOST:
            entries.popitem(last=False)
