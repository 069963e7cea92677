"""What is decided for a whole batch: which rollout of its sample each row is, and which samples are traced.

A worker has only its share of the rows, and a group may be split over two workers. So the manager tells every worker
how the whole batch looks, and all of them come to the same decision.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections import Counter
from collections.abc import Sequence
from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import rank_of, sample_text, scope
from rolltrace.integrations.verl.ops import NOTHING, Decision, asked_backend, decision, is_on, names_of

WHOLE = "rolltrace_batch"
"""In the `meta_info` of a batch: `[workers, the sample of each row, which rows the trainer throws away and why]`."""
ROW = "rolltrace_row"
"""The column that says which row of the whole batch a row is."""
CARRIED = "rolltrace"
"""In `extra_fields`, and so in the batch of the trainer: the trajectory's id, and whether it has its reward."""
BASELINE = "the greedy baseline of ReMax"


def telling(generate_sequences: Any) -> Any:
    """`AgentLoopManager.generate_sequences`, which tells the workers how the whole batch looks."""
    if not inspect.iscoroutinefunction(generate_sequences):
        raise TypeError("AgentLoopManager.generate_sequences is no coroutine")

    @functools.wraps(generate_sequences)
    async def tell(self: Any, prompts: Any) -> Any:
        return _without_ours(await generate_sequences(self, _annotated(self, prompts)), prompts)

    return tell


def deciding(generate_sequences: Any) -> Any:
    """`AgentLoopWorker.generate_sequences`, which decides before anything is recorded."""

    @functools.wraps(generate_sequences)
    async def decide(self: Any, batch: Any) -> Any:
        if not is_on():
            return await generate_sequences(self, batch)
        token = decision.set(_decide(batch))
        try:
            return await generate_sequences(self, batch)
        finally:
            decision.reset(token)

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
    chosen = set()
    for sample in sorted(held_by, key=lambda each: rank_of(sample_text(each), seed)):
        if all(room[worker] for worker in held_by[sample]):
            chosen.add(sample)
            for worker in held_by[sample]:
                room[worker] -= 1
    return chosen


def _annotated(manager: Any, prompts: Any) -> Any:
    try:
        columns, rollout = prompts.non_tensor_batch, manager.config.actor_rollout_ref.rollout
        column = group_column(columns)
        if names_of(asked_backend(rollout.trace.get("backend"))) is None or column is None:
            return prompts
        import numpy

        annotated = copy.copy(prompts)
        whole = [len(manager.agent_loop_workers), columns[column].tolist(), _thrown_away(prompts, rollout)]
        annotated.meta_info = {**prompts.meta_info, WHOLE: whole}
        annotated.non_tensor_batch = {**columns, ROW: numpy.arange(len(prompts))}
        return annotated
    except Exception:
        caught("verl batch")
        return prompts


def _thrown_away(prompts: Any, config: Any) -> dict[int, str]:
    """Rows that verl adds to a batch, and whose rollouts it does not keep: row -> why."""
    columns = prompts.non_tensor_batch
    if _is_baseline(prompts):
        return dict.fromkeys(range(len(prompts)), BASELINE)
    if not prompts.meta_info.get("validate"):
        return {row: BASELINE for row, is_sampled in enumerate(columns.get("__do_sample__", ())) if not is_sampled}
    thrown_away, rows_of = {}, Counter[Any]()
    for row, uid in enumerate(columns.get("uid", ())):
        rows_of[uid] += 1
        if rows_of[uid] > config.val_kwargs.n:
            thrown_away[row] = "padding of the batch"
    return thrown_away


def _without_ours(output: Any, prompts: Any) -> Any:
    """Take out our columns that the trainer has no use for."""
    try:
        output.non_tensor_batch.pop(ROW, None)  # columns of the input come back if no worker gives rewards
        if _is_baseline(prompts):
            # It is joined with the rollouts of the same prompts, where columns of the same name must be equal, and it
            # is not trained, so nobody asks for its ids.
            output.non_tensor_batch.pop(CARRIED, None)
    except Exception:
        caught("verl batch")
    return output


def _is_baseline(prompts: Any) -> bool:
    """In verl 0.7.1 the baseline of ReMax is a batch of its own; later it is rows among the others."""
    return prompts.meta_info.get("do_sample") is False and not prompts.meta_info.get("validate")


def _decide(batch: Any) -> Decision:
    try:
        recorder, column, whole = scope.recorder, group_column(batch.non_tensor_batch), batch.meta_info.get(WHOLE)
        limit = None if recorder is None else recorder.settings.max_samples_per_step_per_worker
        if whole is not None and recorder is not None:
            workers, samples, left_out = whole
            chosen = None if limit is None else whole_groups(samples, workers, limit, recorder.settings.sample_seed)
            return Decision(chosen, _numbered(samples), left_out)
        if limit is None or column is None:
            return NOTHING
        return Decision(rolltrace.capture.choose_samples(batch.non_tensor_batch[column]))
    except Exception:
        caught("verl batch")
        return NOTHING


def _numbered(samples: Sequence[Any]) -> list[int]:
    """verl counts in each worker, and so would give a number twice in a group that is split."""
    counts: dict[Any, int] = {}
    numbers = []
    for sample in samples:
        numbers.append(counts.get(sample, 0))
        counts[sample] = numbers[-1] + 1
    return numbers
