"""What only the whole batch tells of its rollouts; a worker sees a part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rolltrace.capture import scope
from rolltrace.capture.sampling import rank_of, text_of
from rolltrace.record import coordinate


def thrown_away(prompts: Any, config: Any) -> dict[int, str]:
    """Rows that verl adds to a batch, and whose rollouts it does not keep: row -> why."""
    columns = prompts.non_tensor_batch
    if not prompts.meta_info.get("validate"):
        sampled = enumerate(columns.get("__do_sample__", ()))
        return {row: "the greedy baseline of ReMax" for row, is_sampled in sampled if not is_sampled}
    found, seen = {}, Counter[Any]()
    for row, uid in enumerate(columns.get("uid", ())):
        seen[uid] += 1
        if seen[uid] > config.val_kwargs.n:
            found[row] = "padding of the batch"
    return found


def chosen_for(samples: Iterable[Any], workers: int, limit: int) -> set[Any]:
    """The samples to trace, whole groups only, such that none of the workers has more of them than the limit.

    The rows are dealt out in equal parts, so a group may have rows in several workers; it takes a place in each. Of two
    that want the same place, it is the one that a single worker would have chosen.
    """
    rows = [coordinate(each) for each in samples]
    size = max(1, -(-len(rows) // workers))
    held_by: dict[Any, set[int]] = {}
    for row, sample in enumerate(rows):
        held_by.setdefault(sample, set()).add(row // size)
    recorder = scope.recorder
    seed = 0 if recorder is None else recorder.settings.sample_seed
    found: set[Any] = set()
    taken = Counter[int]()
    for sample in sorted(held_by, key=lambda each: rank_of(text_of(each), seed)):
        if all(taken[worker] < limit for worker in held_by[sample]):
            found.add(sample)
            taken.update(held_by[sample])
    return found
