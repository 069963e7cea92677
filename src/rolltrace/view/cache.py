"""What was answered and what was read of trajectories, kept while nothing about it changes: all tabs of a page ask for
the same. Safe to use from any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from rolltrace.query import (
    Place,
    Store,
    TokenSequence,
    Trajectory,
    check_limit,
    find_trajectory,
    messages_of_trajectory,
    ops_of,
)
from rolltrace.query.model.trajectory import Message, OutlineOp

T = TypeVar("T")
MAX_ANSWER_BYTES = 32 << 20
"""Of all answers that are kept."""
MAX_LOADED_BYTES = 64 << 20
"""Of what is kept of trajectories, by a rough estimate."""
_MAX_PLACES = 1024
_WAIT_SEC = 0.05
_PER_OP, _PER_TOKEN, _PER_PART = 2_000, 150, 500
"""What an op, a token and a part of a message take in Python, in bytes."""


class Answer(NamedTuple):
    """What goes back."""

    body: bytes
    media_type: str = "application/json"
    filename: str | None = None
    """Of a download."""


class _Making:
    """A value that somebody makes right now."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.values: list[Any] = []


class Cache:
    """The values that were asked for last, as many as fit. Those who ask the same at the same time wait for one."""

    def __init__(self, max_bytes: int, largest: int | None = None) -> None:
        """A value larger than `largest` is not kept."""
        self._max_bytes, self._largest = max_bytes, largest
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._making: dict[Hashable, _Making] = {}
        self.size_bytes = 0

    def get(self, key: Hashable, make: Callable[[], T], size_of: Callable[[T], int], check: Callable[[], object]) -> T:
        """The value of this key: the one that is known, or that somebody makes right now, or that `make` returns.

        Args:
            key: Whose value; it is another one when the value may be another one.
            make: Makes it; what it raises is raised here.
            size_of: How many bytes it takes.
            check: Called again and again while somebody else makes it; raises if nobody waits for it any more.
        """
        while True:
            with self._lock:
                if key in self._entries:
                    self._entries.move_to_end(key)
                    return self._entries[key][0]  # type: ignore[no-any-return]
                making = self._making.get(key)
                if making is None:
                    own = self._making[key] = _Making()
                    break
            while not making.ended.wait(_WAIT_SEC):
                check()
            for value in making.values:
                return value  # type: ignore[no-any-return]
            # Whoever made it was stopped, or it cannot be made: that is ours to find out.
        try:
            value = make()
            own.values.append(value)
            self._keep(key, value, size_of(value))
            return value
        finally:
            with self._lock:
                del self._making[key]
            own.ended.set()

    def _keep(self, key: Hashable, value: Any, size: int) -> None:
        if self._largest is not None and size > self._largest:
            return
        with self._lock:
            self._entries[key] = value, size
            self.size_bytes += size
            while self.size_bytes > self._max_bytes and len(self._entries) > 1:
                self.size_bytes -= self._entries.popitem(last=False)[1][1]


class Loaded:
    """What was read of the trajectories of a store. What was read of payloads is given back as soon as another
    trajectory is asked for."""

    def __init__(self, store: Store, max_bytes: int = MAX_LOADED_BYTES) -> None:
        self._store = store
        self.cache = Cache(max_bytes)
        self._places: dict[str, Place] = {}
        self._newest: Trajectory | None = None

    def place(self, trajectory_id: str) -> Place:
        """Where it is; a prefix of its id is enough."""
        place = self._places.get(trajectory_id)
        if place is None:
            place = find_trajectory(self._store, trajectory_id)
            if len(self._places) >= _MAX_PLACES:
                self._places = {}
            self._places[place.trajectory_id] = place  # fewer letters may mean several some day
        return place

    def trajectory(self, trajectory_id: str) -> Trajectory:
        trajectory = self._get(
            "trajectory",
            trajectory_id,
            self._store.trajectory,
            lambda read: _PER_OP * sum(1 for _ in read.walk()),
        )
        before, self._newest = self._newest, trajectory
        if before is not None and before is not trajectory:
            before.release()
        return trajectory

    def messages(self, trajectory_id: str, seen_by: int | None = None) -> list[Message]:
        """The conversation as it was produced, or as the model call of a turn saw it."""

        def read(full_id: str) -> list[Message]:
            return messages_of_trajectory(self.trajectory(full_id), seen_by=seen_by)

        return self._get(f"messages {seen_by}", trajectory_id, read, lambda messages: sum(map(_size_of, messages)))

    def ops(self, trajectory_id: str) -> list[OutlineOp]:
        return self._get("ops", trajectory_id, lambda id: ops_of(self.trajectory(id)), lambda ops: _PER_OP * len(ops))

    def tokens(self, trajectory_id: str) -> TokenSequence:
        def read(full_id: str) -> TokenSequence:
            return self.trajectory(full_id).token_sequence()

        return self._get("tokens", trajectory_id, read, lambda tokens: _PER_TOKEN * len(tokens))

    def _get(self, what: str, trajectory_id: str, read: Callable[[str], T], size_of: Callable[[T], int]) -> T:
        place = self.place(trajectory_id)
        key = what, place.trajectory_id, self._store.version(place.step)
        return self.cache.get(key, lambda: read(place.trajectory_id), size_of, check_limit)


def _size_of(message: Message) -> int:
    parts = [*message.parts, *(part for call in message.calls for part in (call.arguments, *call.result))]
    return sum(_PER_PART + len(part.text) for part in parts)
