"""Makes records and hands their bytes to a sink: all state of one `init`.

Nothing here knows what a sink does with the bytes: in production it is a journal, in tests a list.
"""

from __future__ import annotations

import builtins
import itertools
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from rolltrace._guard import misused
from rolltrace.capture.numbering import RolloutNumbers
from rolltrace.capture.sampling import Sample, Sampling
from rolltrace.journal import Losses
from rolltrace.record import Blob, Coordinates, Event, Snapshotter, encode_record
from rolltrace.settings import Settings

if TYPE_CHECKING:
    from rolltrace.capture.tokenizers import Tokenizers
    from rolltrace.capture.trajectory import TrajectoryHandle

SAMPLE_LIMIT = "sample_limit"
"""The reason for which a trajectory over `max_samples_per_step_per_worker` counts as lost."""
REFUSED_SCORE = "refused_score"
"""The reason for which a reward or score that makes no sense counts as lost."""
_HAND_OVER_SEC = 5.0
_MAX_BLOBS_REMEMBERED = 65_536


class Sink(Protocol):
    """Takes encoded records. Must not raise and must not wait."""

    records: int
    losses: Losses

    @property
    def bytes(self) -> int: ...

    def append(self, body: builtins.bytes, step: int | None = None) -> bool: ...
    def lose(self, reason: str, step: int | None, count: int = 1) -> None: ...
    def sync(self) -> bool: ...
    def turn_over(self, older_than_sec: float = 0.0) -> int: ...
    def close(self) -> None: ...
    def start_over_in_child(self) -> None: ...


class Recorder:
    """Encodes, numbers and passes on. One per process; a forked child starts over with the same settings."""

    def __init__(
        self,
        settings: Settings,
        sink: Sink,
        *,
        wall_ns: Callable[[], int] = time.time_ns,
        tick_ns: Callable[[], int] = time.perf_counter_ns,
        random_bytes: Callable[[int], bytes] = os.urandom,
        store: Path | None = None,
    ) -> None:
        self.settings = settings
        self.sink = sink
        self.wall_ns = wall_ns
        self.tick_ns = tick_ns
        self._last_score_ns = 0
        self.random_bytes = random_bytes
        self.snapshotter = Snapshotter(
            max_bytes=settings.max_bytes,
            max_items=settings.max_items,
            max_depth=settings.max_depth,
            max_array_bytes=settings.max_array_bytes,
            keep_blob=self._keep_blob,
        )
        self.snapshot = self.snapshotter.take
        self.append = sink.append
        self.cut_streams = 0
        """Generators of which not all items were kept."""
        self.rollout_numbers = RolloutNumbers()
        self.generation = 0
        """Counts forks: a span opened before one belongs to the parent and is not ended by the child."""
        self._begin()
        self.tokenizers: Tokenizers | None = None
        """Whose tokens ops have; None while tokens are not decoded."""
        if settings.token2text:
            from rolltrace.capture.tokenizers import Tokenizers  # not needed while it is off

            self.tokenizers = Tokenizers(self, store)

    def _begin(self) -> None:
        # 62 random bits to start from: unique across processes, and still an int64 after any number of ops.
        first = int.from_bytes(self.random_bytes(8), "little") >> 2 | 1
        self._score_lock = threading.RLock()  # a signal handler may give a score too
        self.next_op_id = itertools.count(first).__next__
        self._blobs: OrderedDict[str, None] = OrderedDict()
        most = self.settings.max_samples_per_step_per_worker
        self._sampling = None if most is None else Sampling(most, self.settings.sample_seed)

    @property
    def cuts(self) -> int:
        """How many values were cut by a limit so far."""
        return self.snapshotter.cuts + self.cut_streams

    def wall_offset_ns(self) -> int:
        """Read both clocks: the time of day is a tick plus this offset.

        One clock per op is cheaper than two. Each trajectory has an offset of its own, read when it begins, because the
        time of day may be set and a laptop may sleep; so the times within a trajectory never run backwards.
        """
        return self.wall_ns() - self.tick_ns()

    def score_ns(self, now_ns: int) -> int:
        """Now, and later than before: of two scores that this process gives, the second is the newest, whatever
        happens to the clock."""
        with self._score_lock:
            self._last_score_ns = max(now_ns, self._last_score_ns + 1)
            return self._last_score_ns

    def refuse_score(self, step: int | None) -> None:
        """Handle the `ConfigError` now being handled: the caller of our caller is warned, and the score is counted."""
        misused(stacklevel=3)
        self.sink.lose(REFUSED_SCORE, step)

    def write(self, record: msgspec.Struct, step: int | None) -> bool:
        """Encode a record and pass it on; False if it was lost."""
        return self.append(encode_record(record), step)

    def admits(self, begun: TrajectoryHandle, where: Coordinates, inside: TrajectoryHandle | None) -> bool:
        """Whether this trajectory is within the limit of its step. All rollouts of a sample share the answer."""
        if self._sampling is None:
            return True
        around = None if inside is None else inside.sample
        sample, displaced = self._sampling.admit(begun.trace_id, where, around, is_group=begun.is_group)
        begun.sample = sample
        if displaced is not None:
            self._drop(displaced)
        if sample is None and not begun.is_group:
            self.sink.lose(SAMPLE_LIMIT, where.step)
        return sample is not None

    def _drop(self, sample: Sample) -> None:
        """Say that what was recorded of a sample is not to be kept, nor what its open trajectories will yet record."""
        for where, begun in sample.begun.items():
            names, groups = _names(begun.trajectories), _names(begun.groups)
            loss = {"reason": SAMPLE_LIMIT, "count": len(names), "trajectories": names, "groups": groups}
            body = msgspec.Raw(encode_record(loss))
            self.write(Event(b"", msgspec.Raw(encode_record(where)), "drop", self.wall_ns(), 0, body), where.step)

    def trajectory_ended(self) -> None:
        """A good moment to hand over what is in the journal, so that it reaches the store soon."""
        if self.settings.durable:
            self.sink.sync()
        if self.settings.drain != "off":
            self.sink.turn_over(_HAND_OVER_SEC)

    def _keep_blob(self, name: str, info: dict[str, Any], data: bytes) -> None:
        if name in self._blobs:
            self._blobs.move_to_end(name)
            return
        raw = msgspec.Raw(msgspec.msgpack.encode(info))
        if self.append(encode_record(Blob(name, "image/raw", raw, data))):
            self._blobs[name] = None
            if len(self._blobs) > _MAX_BLOBS_REMEMBERED:
                self._blobs.popitem(last=False)

    def start_over_in_child(self) -> None:
        self.generation += 1
        self.sink.start_over_in_child()
        self.rollout_numbers.start_over_in_child()
        self._begin()
        if self.tokenizers is not None:
            self.tokenizers.start_over_in_child()

    def close(self) -> None:
        """Nothing more comes: finish what is done in the background, and close the sink."""
        if self.tokenizers is not None:
            self.tokenizers.close()
        self.sink.close()


def _names(ids: bytearray) -> list[str]:
    """Ids of 16 bytes each, as text."""
    return [ids[at : at + 16].hex() for at in range(0, len(ids), 16)]
