"""Rounds of several contenders, interleaved, so that noise of the machine falls on all of them alike."""

import gc
import statistics
from collections.abc import Callable, Mapping

Round = Callable[[], float]
"""Runs one timed round and returns its cost per op in microseconds."""


def medians(contenders: Mapping[str, Round], *, rounds: int) -> dict[str, float]:
    """Returns each contender's median over `rounds`, after one warm-up round each."""
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(rounds + 1):
        # Nobody should always run in the wake of the same neighbour.
        first = number % len(names)
        for name in names[first:] + names[:first]:
            # The collector stays on, but no one pays for the garbage of the round before.
            gc.collect()
            cost = contenders[name]()
            if number:
                samples[name].append(cost)
    return {name: statistics.median(costs) for name, costs in samples.items()}
