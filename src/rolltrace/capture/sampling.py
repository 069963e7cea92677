"""Which samples a worker keeps of a step: the k whose hashes are the smallest.

The hash is of the seed and the sample, nothing else. So the order in which samples come does not matter, workers that
see the same samples agree, and a re-run chooses the same. The step is left out on purpose: then the same samples are
followed over the steps and epochs, and what became of them can be compared.

A worker does not know which samples a step will bring. It keeps the k smallest so far; a smaller one that comes later
takes the place of the largest, whose trajectories are then dropped: they are named in a `drop` record, and left out
wherever the store is read.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import xxhash

from rolltrace.capture import scope
from rolltrace.errors import ConfigError
from rolltrace.record import Coordinates, coordinate

T = TypeVar("T")
Rank = tuple[int, str]
"""The hash of a sample, and its text, should two samples ever have the same hash."""

_STEPS_OPEN = 64
"""In how many steps samples may still come and go: training and validation of one step are two."""
_STEPS_CLOSED = 4096
"""Of how many steps before those we know which samples were chosen."""


def choose_samples(sample_indices: Iterable[T], *, limit: int | None = None) -> set[T]:
    """Those of these samples that will be traced, for whoever knows the whole batch.

    With `rollout_trace_attr(..., trace=index in chosen)` nothing is recorded that is dropped later.

    Args:
        sample_indices: The samples of a batch; repeated ones are fine.
        limit: How many to choose; `max_samples_per_step_per_worker` if not given. Without either: all.

    Returns:
        The chosen ones as they were given; NumPy and torch scalars as plain numbers.

    Raises:
        ConfigError: the limit is no whole number, or negative.
    """
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise ConfigError(f"limit must be a whole number, 0 or more, not {limit!r}")
    recorder = scope.recorder
    if limit is None and recorder is not None:
        limit = recorder.settings.max_samples_per_step_per_worker
    texts: dict[Any, str | None] = {}
    for each in sample_indices:
        plain: Any = coordinate(each) if hasattr(each, "item") else each
        texts[plain] = sample_text(plain)
    if limit is None:
        return set(texts)
    seed = 0 if recorder is None else recorder.settings.sample_seed
    chosen = set(sorted({rank_of(text, seed) for text in texts.values()})[:limit])
    return {each for each, text in texts.items() if rank_of(text, seed) in chosen}


def sample_text(sample_index: Any) -> str | None:
    """A sample as text: 3 and "3" are the same. None for a trajectory without one."""
    plain = coordinate(sample_index)
    return None if plain is None else str(plain)


def rank_of(text: str | None, seed: int) -> Rank:
    """Where a sample stands among all others. Trajectories without a sample are one sample together."""
    label = str(seed) if text is None else f"{seed}:{text}"
    return xxhash.xxh3_64_intdigest(label.encode()), text or ""


class Begun(NamedTuple):
    """Ids of what has begun at one place, 16 bytes each."""

    trajectories: bytearray
    groups: bytearray


class Sample:
    """A sample of one step of which trajectories are kept."""

    __slots__ = ("begun", "is_kept", "rank")

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.is_kept = True
        """False once another one has taken its place."""
        self.begun: dict[Coordinates, Begun] = {}
        """Its trajectories and group records by where they stand: those begun inside may stand elsewhere."""


class SamplingDecision(NamedTuple):
    """What becomes of a trajectory that begins."""

    sample: Sample | None
    """None: it is not kept."""
    displaced: Sample | None = None
    """Whose place it takes."""


class Sampling:
    """What one worker has chosen so far. Safe to use from any thread."""

    def __init__(self, limit: int, seed: int) -> None:
        self._limit = limit
        self._seed = seed
        self._lock = threading.RLock()
        self._open: OrderedDict[tuple[int | None, bool], _Step] = OrderedDict()
        self._closed: OrderedDict[tuple[int | None, bool], frozenset[Rank]] = OrderedDict()

    def admit(
        self, trajectory_id: bytes, where: Coordinates, inside: Sample | None, *, is_group: bool = False
    ) -> SamplingDecision:
        """Whether a trajectory is kept. One without a sample goes with the sample `inside` which it begins."""
        with self._lock:
            if where.sample_index is None and inside is not None:
                decision = SamplingDecision(inside if inside.is_kept else None)
            else:
                decision = self._take(where, rank_of(sample_text(where.sample_index), self._seed))
            if decision.sample is not None:
                place = where._replace(rollout_n=None)
                begun = decision.sample.begun.get(place)
                if begun is None:
                    begun = decision.sample.begun[place] = Begun(bytearray(), bytearray())
                (begun.groups if is_group else begun.trajectories).extend(trajectory_id)
            return decision

    def _take(self, where: Coordinates, rank: Rank) -> SamplingDecision:
        key = (where.step, where.validate)
        closed = self._closed.get(key)
        if closed is not None:  # it came back after many others: its samples go on, and there are no new ones
            return SamplingDecision(Sample(rank) if rank in closed else None)
        step = self._open.setdefault(key, _Step())
        self._open.move_to_end(key)
        if len(self._open) > _STEPS_OPEN:
            key, oldest = self._open.popitem(last=False)
            self._closed[key] = frozenset(oldest.samples)
            if len(self._closed) > _STEPS_CLOSED:
                self._closed.popitem(last=False)
        return step.take(rank, self._limit)


class _Step:
    """The samples chosen of one step."""

    __slots__ = ("ranks", "samples")

    def __init__(self) -> None:
        self.samples: dict[Rank, Sample] = {}
        self.ranks: list[Rank] = []
        """Of the samples, in order."""

    def take(self, rank: Rank, limit: int) -> SamplingDecision:
        sample = self.samples.get(rank)
        if sample is not None:
            return SamplingDecision(sample)
        displaced = None
        if len(self.ranks) >= limit:
            if not self.ranks or rank > self.ranks[-1]:
                return SamplingDecision(None)
            displaced = self.samples.pop(self.ranks.pop())
            displaced.is_kept = False
        fresh = self.samples[rank] = Sample(rank)
        insort(self.ranks, rank)
        return SamplingDecision(fresh, displaced)
