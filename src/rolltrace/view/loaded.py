"""Trajectories that somebody looks at, kept while nothing about them changes: all tabs of a page ask for one.

Of all that is kept, the oldest goes when there is more than `_MOST_BYTES` by a rough estimate. What was read of
payloads is given back as soon as another trajectory is asked for.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from rolltrace.query import Place, Store, TokenSequence, Trajectory, find_trajectory, messages_of_trajectory, ops_of
from rolltrace.query.model.trajectory import Message, OutlineOp

T = TypeVar("T")
_MOST_BYTES = 64 << 20
_MOST_PLACES = 1024
_PER_OP, _PER_TOKEN, _PER_PART = 2_000, 150, 500
"""What an op, a token and a part of a message take in Python, in bytes."""


class _Entry(NamedTuple):
    version: str
    value: Any
    size_bytes: int


class Loaded:
    """What was read of trajectories. Safe to use from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._bytes = 0
        self._places: OrderedDict[str, Place] = OrderedDict()
        self._newest: Trajectory | None = None

    def place(self, trajectory_id: str) -> Place:
        """Where it is; a prefix of its id is enough."""
        with self._lock:
            place = self._places.get(trajectory_id)
        if place is None:
            place = find_trajectory(self._store, trajectory_id)
            with self._lock:
                if trajectory_id == place.trajectory_id:  # fewer letters may mean several some day
                    self._places[trajectory_id] = place
                    if len(self._places) > _MOST_PLACES:
                        self._places.popitem(last=False)
        return place

    def trajectory(self, trajectory_id: str) -> Trajectory:
        trajectory = self._get(
            "trajectory",
            trajectory_id,
            lambda place: self._store.trajectory(place.trajectory_id),
            lambda read: _PER_OP * sum(1 for _ in read.walk()),
        )
        with self._lock:
            before, self._newest = self._newest, trajectory
        if before is not None and before is not trajectory:
            before.release()
        return trajectory

    def messages(self, trajectory_id: str, seen_by: int | None = None) -> list[Message]:
        """The conversation as it was produced, or as the model call of a turn saw it."""

        def read(place: Place) -> list[Message]:
            return messages_of_trajectory(self.trajectory(place.trajectory_id), seen_by=seen_by)

        what = "messages" if seen_by is None else f"messages seen by {seen_by}"
        return self._get(what, trajectory_id, read, lambda messages: sum(map(_size_of, messages)))

    def ops(self, trajectory_id: str) -> list[OutlineOp]:
        def read(place: Place) -> list[OutlineOp]:
            return ops_of(self.trajectory(place.trajectory_id))

        return self._get("ops", trajectory_id, read, lambda ops: _PER_OP * len(ops))

    def tokens(self, trajectory_id: str) -> TokenSequence:
        def read(place: Place) -> TokenSequence:
            return self.trajectory(place.trajectory_id).token_sequence()

        return self._get("tokens", trajectory_id, read, lambda tokens: _PER_TOKEN * len(tokens))

    def _get(self, what: str, trajectory_id: str, read: Callable[[Place], T], size_of: Callable[[T], int]) -> T:
        place = self.place(trajectory_id)
        version = self._store.version(place.step)
        key = (what, place.trajectory_id)
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.version == version:
                self._entries.move_to_end(key)
                return entry.value  # type: ignore[no-any-return]
        value = read(place)
        self._keep(key, _Entry(version, value, size_of(value)))
        return value

    def _keep(self, key: tuple[str, str], entry: _Entry) -> None:
        with self._lock:
            before = self._entries.pop(key, None)
            self._bytes += entry.size_bytes - (0 if before is None else before.size_bytes)
            self._entries[key] = entry
            while self._bytes > _MOST_BYTES and len(self._entries) > 1:
                self._bytes -= self._entries.popitem(last=False)[1].size_bytes


def _size_of(message: Message) -> int:
    parts = [*message.parts, *(part for call in message.calls for part in (call.arguments, *call.result))]
    return sum(_PER_PART + len(part.text) for part in parts)
