"""What is decided for a whole batch: which rollout of its sample each row is, and which samples are traced.

A worker has only its share of the rows, and a group may be split over two workers. So the manager tells every worker
how the whole batch looks, and all of them come to the same decision.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.sampling import rank_of, text_of
from rolltrace.integrations.verl.ops import chosen, is_on, names_of

WHOLE = "rolltrace_batch"
"""In the `meta_info` of a batch: `[workers, the sample of each row]`, before it is split among the workers."""

numbers: ContextVar[list[int] | None] = ContextVar("rolltrace_verl_numbers", default=None)
"""Which rollout of its sample each row of the whole batch is."""


class Decision(NamedTuple):
    """For one batch."""

    chosen: set[Any] | None
    """The samples that are traced; None for all."""
    numbers: list[int] | None
    """None if nobody knows the whole batch."""


def telling(generate_sequences: Any) -> Any:
    """`AgentLoopManager.generate_sequences`, which tells the workers how the whole batch looks."""
    if not inspect.iscoroutinefunction(generate_sequences):
        raise TypeError("AgentLoopManager.generate_sequences is no coroutine")

    @functools.wraps(generate_sequences)
    async def tell(self: Any, prompts: Any) -> Any:
        return await generate_sequences(self, _told(self, prompts))

    return tell


def deciding(generate_sequences: Any) -> Any:
    """`AgentLoopWorker.generate_sequences`, which decides before anything is recorded."""

    @functools.wraps(generate_sequences)
    async def decide(self: Any, batch: Any) -> Any:
        if not is_on():
            return await generate_sequences(self, batch)
        decision = _decide(batch)
        chosen_token, numbers_token = chosen.set(decision.chosen), numbers.set(decision.numbers)
        try:
            return await generate_sequences(self, batch)
        finally:
            chosen.reset(chosen_token)
            numbers.reset(numbers_token)

    return decide


def group_column(columns: Any) -> str | None:
    """What tells samples apart: the index in the dataset or, if there is none, the trainer's id of the prompt."""
    return next((name for name in ("index", "uid") if name in columns), None)


def whole_groups(samples: Sequence[Any], workers: int, limit: int, seed: int) -> set[Any]:
    """The samples to trace, so that no worker traces more than `limit` and every one is traced by all its workers."""
    rows_each = -(-len(samples) // workers) or 1
    held_by: dict[Any, set[int]] = {}
    for row, sample in enumerate(samples):
        held_by.setdefault(sample, set()).add(row // rows_each)
    room = [limit] * workers
    taken = set()
    for sample in sorted(held_by, key=lambda each: rank_of(text_of(each), seed)):
        if all(room[worker] for worker in held_by[sample]):
            taken.add(sample)
            for worker in held_by[sample]:
                room[worker] -= 1
    return taken


def _told(manager: Any, prompts: Any) -> Any:
    try:
        columns = prompts.non_tensor_batch
        column = group_column(columns)
        ours = names_of(manager.config.actor_rollout_ref.rollout.trace.get("backend")) is not None
        if not ours or column is None or "priority" in columns:  # verl numbers the rows there, if nobody else has
            return prompts
        told = copy.copy(prompts)
        told.meta_info = {**prompts.meta_info, WHOLE: [len(manager.agent_loop_workers), columns[column].tolist()]}
        return told
    except Exception:
        caught("verl batch")
        return prompts


def _decide(batch: Any) -> Decision:
    try:
        recorder, column, whole = scope.recorder, group_column(batch.non_tensor_batch), batch.meta_info.get(WHOLE)
        limit = None if recorder is None else recorder.settings.max_samples_per_step_per_worker
        if whole is not None and recorder is not None:
            workers, samples = whole
            seed = recorder.settings.sample_seed
            return Decision(None if limit is None else whole_groups(samples, workers, limit, seed), _numbered(samples))
        if limit is None or column is None:
            return Decision(None, None)
        return Decision(rolltrace.choose_samples(batch.non_tensor_batch[column]), None)
    except Exception:
        caught("verl batch")
        return Decision(None, None)


def _numbered(samples: Sequence[Any]) -> list[int]:
    """verl counts in each worker, and so would give a number twice in a group that is split."""
    seen: dict[Any, int] = {}
    found = []
    for sample in samples:
        found.append(seen.get(sample, 0))
        seen[sample] = found[-1] + 1
    return found
