"""`next_rollout_n`: which rollout of a sample comes next, also when a sample is drawn again in the same step.

A trainer that numbers the rollouts of each group from 0 gives two groups of one sample the same coordinates, if its
dataset hands out a sample twice in a step: groups of 4 would become groups of 4 with 8 rollouts, two of each number.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.sampling import sample_text
from rolltrace.record import SampleIndex, whole

_MAX_STEPS = 256
"""Training and validation of one step are two. Numbers of a step that comes back after so many others begin at 0."""


def next_rollout_n(
    sample_index: SampleIndex | None, step: int | None = None, *, validate: bool = False, count: int = 1
) -> int:
    """The first of `count` numbers that no rollout of this sample has yet in this step and run.

        first = next_rollout_n(7, step=1, count=4)
        for n in range(first, first + 4):
            with rollout_trace_attr(sample_index=7, step=1, rollout_n=n): ...

    Numbers are handed out in this process: whoever deals out the samples asks for them. While tracing is off it is 0.

    Args:
        sample_index: Which dataset sample.
        step: Training step.
        validate: A validation rollout.
        count: How many numbers to take.
    """
    recorder = scope.recorder
    if recorder is None:
        return 0
    try:
        return recorder.rollout_numbers.take(whole(step), bool(validate), sample_text(sample_index), count)
    except Exception:
        caught("next_rollout_n")
        return 0


class RolloutNumbers:
    """How many rollouts each sample of recent steps has. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: OrderedDict[tuple[Any, bool], dict[str | None, int]] = OrderedDict()

    def take(self, step: int | None, validate: bool, sample: str | None, count: int) -> int:
        with self._lock:
            samples = self._steps.setdefault((step, validate), {})
            self._steps.move_to_end((step, validate))
            if len(self._steps) > _MAX_STEPS:
                self._steps.popitem(last=False)
            first = samples.get(sample, 0)
            samples[sample] = first + count
            return first

    def start_over_in_child(self) -> None:
        """After a fork: the numbers go on, the lock may have been held by a thread that is not here."""
        self._lock = threading.Lock()
