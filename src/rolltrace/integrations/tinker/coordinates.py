"""Where a group of rollouts stands: its step, its sample, and which weights sample it.

tinker-cookbook passes nothing of this to a rollout but the builder of the group. The same builder may stand at several
positions of a batch, and one whose group was too old is drawn again. So the positions of each builder are handed out
one after the other, and when there are none left, the last one once more.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from rolltrace._guard import caught

_IDS = ("sample_index", "example_id")
"""What a builder may call the sample that it is made of."""


@dataclass
class GroupPosition:
    """The place of a group. Can be sent to another process."""

    step: int | None = None
    sample_index: int | str | None = None
    validate: bool = False
    evaluator: str | None = None
    next_rollout_n: int = 0
    """Goes on if the sample is drawn again."""
    draws: int = 0
    """How often it was drawn."""

    def next(self) -> int:
        number = self.next_rollout_n
        self.next_rollout_n += 1
        return number


@dataclass
class _Of:
    """The positions of one builder."""

    builder: Any
    waiting: deque[GroupPosition] = field(default_factory=deque)
    last: GroupPosition | None = None


class Positions:
    """The positions of the builders of a training loop, or of an evaluation."""

    def __init__(self) -> None:
        self._of: dict[int, _Of] = {}
        self.next_step: int | None = None
        """That of the next batch, where there are batches."""

    def add(self, builders: Sequence[Any], positions: Iterable[GroupPosition]) -> None:
        """These builders stand at these positions."""
        for builder, position in zip(builders, positions):
            of = self._of.get(id(builder))
            if of is None:
                of = self._of[id(builder)] = _Of(self._held(builder))
            of.waiting.append(position)

    def draw(self, builder: Any) -> GroupPosition | None:
        """The position of a group that begins; None if nobody said which builders there are."""
        of = self._of.get(id(builder))
        if of is None:
            return None
        if of.waiting:
            of.last = of.waiting.popleft()
        if of.last is not None:
            of.last.draws += 1
        return of.last

    def _held(self, builder: Any) -> Any:
        """Held as long as the trainer does, where that can be known: builders may be large."""
        key = id(builder)
        try:
            return weakref.ref(builder, lambda _: self._of.pop(key, None))
        except TypeError:
            return builder


positions: ContextVar[Positions | None] = ContextVar("rolltrace_tinker_positions", default=None)
"""Those of the training loop, or the evaluation, that is going on."""


def draw_position(builder: Any) -> GroupPosition:
    """The position of a group that begins: an empty one if there is no loop around it that says more."""
    loop_positions = positions.get()
    return (None if loop_positions is None else loop_positions.draw(builder)) or GroupPosition()


def batch_positions(step: int, builders: Sequence[Any]) -> list[GroupPosition]:
    """The positions of a batch: samples go by their own ids if all have different ones, else by their place in it."""
    ids = [_id_of(builder) for builder in builders]
    if None in ids or len(set(ids)) < len(ids):
        ids = list(range(len(builders)))
    return [GroupPosition(step, each) for each in ids]


@contextmanager
def batch(step: int, builders: Sequence[Any]) -> Iterator[None]:
    """For a training loop of one's own: groups of these builders, rolled out inside, stand in this step.

    builders = dataset.get_batch(step)
    with batch(step, builders):
        groups = await asyncio.gather(*(do_group_rollout(builder, policy) for builder in builders))
    """
    inside = Positions()
    inside.add(builders, batch_positions(step, builders))
    token = positions.set(inside)
    try:
        yield
    finally:
        positions.reset(token)


def _id_of(builder: Any) -> int | str | None:
    for name in _IDS:
        value = getattr(builder, name, None)
        if isinstance(value, int | str):
            return value
    return None


class _Versions:
    """Which step the weights of each sampling client are of."""

    def __init__(self) -> None:
        self._steps: dict[int, tuple[Any, int]] = {}

    def add(self, client: Any, step: int) -> None:
        key = id(client)
        try:
            held: Any = weakref.ref(client, lambda _: self._steps.pop(key, None))
        except TypeError:
            return
        self._steps[key] = held, step

    def of(self, client: Any) -> int | None:
        held, step = self._steps.get(id(client), (None, None))
        return step if held is not None and held() is client else None


versions = _Versions()
first_version: ContextVar[int | None] = ContextVar("rolltrace_tinker_first_version", default=None)
"""That of clients that were there before the first training step of a run."""


def version_of(policy: Any) -> int | None:
    """The policy version of a sampling client, or of a policy that has one."""
    try:
        client = getattr(policy, "sampling_client", policy)
        version = versions.of(client)
        return first_version.get() if version is None else version
    except Exception:
        caught("tinker policy version")
        return None
