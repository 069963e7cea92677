"""`AgentLoopWorker` and `AgentLoopManager`: which rollouts are traced, what they are called, and their reward.

verl computes the reward after the traced run, but still inside the trajectory. Both workers are served: the one that
returns a batch, and the one of the v1 trainer that puts its results into a queue and that verl itself does not trace.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import xxhash

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.integrations.verl.batch import chosen_for, thrown_away
from rolltrace.integrations.verl.ops import Rollout, chosen, is_on, names_of, rollout

ROW_NUMBERS = "rolltrace_rollout_n"
"""Where the manager tells the workers which rollout of its sample each row is, by row of the whole batch."""
LEFT_OUT = "rolltrace_left_out"
"""Where it tells them which rows the trainer will throw away, and why."""
CHOSEN = "rolltrace_chosen"
"""Where it tells them which samples are traced, if there is a limit."""
CARRIED = "rolltrace"
"""In `extra_fields`, and so in the batch of the trainer: the trajectory's id, and whether it has its reward."""
_TAGS = {"agent_name": "agent", "data_source": "data_source", "uid": "uid"}
"""Columns of the batch -> what the tag of a trajectory is called."""

_numbers: ContextVar[Any] = ContextVar("rolltrace_verl_numbers", default=None)
_left_out: ContextVar[Mapping[int, str]] = ContextVar("rolltrace_verl_left_out", default={})  # noqa: B039 (never changed)


def change(module: Any) -> None:
    """Change `verl.experimental.agent_loop.agent_loop`."""
    worker, manager = module.AgentLoopWorker, module.AgentLoopManager
    worker.generate_sequences = _choosing(worker.generate_sequences)
    worker._run_agent_loop = _described(worker._run_agent_loop)
    worker._compute_score = _rewarded(worker._compute_score)
    manager.generate_sequences = module.auto_await(
        _numbered(inspect.unwrap(manager.generate_sequences, stop=_is_async))
    )


def session_id(uid: Any, session: Any) -> bytes:
    """The id of a trajectory of the v1 trainer: workers and trainer both know the prompt's uid and the session."""
    return xxhash.xxh3_128_digest(f"verl:{uid}_{session}".encode())


def _choosing(generate_sequences: Any) -> Any:
    """The whole batch of a worker is known here, so the samples to trace are chosen before anything is recorded."""

    @functools.wraps(generate_sequences)
    async def choosing(self: Any, batch: Any) -> Any:
        if not is_on():
            return await generate_sequences(self, batch)
        chosen_token, numbers_token = chosen.set(_chosen_of(batch)), _numbers.set(batch.meta_info.get(ROW_NUMBERS))
        left_out_token = _left_out.set(batch.meta_info.get(LEFT_OUT) or {})
        try:
            return await generate_sequences(self, batch)
        finally:
            chosen.reset(chosen_token)
            _numbers.reset(numbers_token)
            _left_out.reset(left_out_token)

    return choosing


def _chosen_of(batch: Any) -> set[Any] | None:
    try:
        recorder = scope.recorder
        column = _group_column(batch.non_tensor_batch)
        if recorder is None or recorder.settings.max_samples_per_step_per_worker is None or column is None:
            return None
        told: set[Any] | None = batch.meta_info.get(CHOSEN)
        return rolltrace.choose_samples(batch.non_tensor_batch[column]) if told is None else told
    except Exception:
        caught("verl batch")
        return None


def _group_column(columns: Any) -> str | None:
    """What tells samples apart: the index in the dataset or, if there is none, the trainer's id of the prompt."""
    return next((name for name in ("index", "uid") if name in columns), None)


def _numbered(generate_sequences: Any) -> Any:
    """verl counts the rollouts of a sample in each worker; a group that is split over two would have numbers twice."""
    if not _is_async(generate_sequences):
        raise TypeError("AgentLoopManager.generate_sequences is no coroutine")

    @functools.wraps(generate_sequences)
    async def numbered(self: Any, prompts: Any) -> Any:
        return await generate_sequences(self, _with_numbers(self, prompts))

    return numbered


def _is_async(func: Any) -> bool:
    """`auto_await` looks at its caller to see if that awaits, so there must be nothing around it."""
    return inspect.iscoroutinefunction(func)


def _with_numbers(manager: Any, prompts: Any) -> Any:
    try:
        columns = prompts.non_tensor_batch
        column = _group_column(columns)
        ours = names_of(manager.config.actor_rollout_ref.rollout.trace.get("backend")) is not None
        if not ours or column is None or "priority" in columns:  # verl numbers the rows there, if nobody else has
            return prompts
        seen: dict[Any, int] = {}
        numbers = []
        for group in columns[column]:
            numbers.append(seen.get(group, 0))
            seen[group] = numbers[-1] + 1
        numbered = copy.copy(prompts)
        config = manager.config.actor_rollout_ref.rollout
        told = {ROW_NUMBERS: numbers, LEFT_OUT: thrown_away(prompts, config)}
        limit = config.trace.get("max_samples_per_step_per_worker")
        if limit is not None:
            told[CHOSEN] = chosen_for(columns[column], len(manager.agent_loop_workers), limit)
        numbered.meta_info = {**prompts.meta_info, **told}
        return numbered
    except Exception:
        caught("verl batch")
        return prompts


def _described(run_agent_loop: Any) -> Any:
    @functools.wraps(run_agent_loop)
    async def described(self: Any, sampling_params: Any, trajectory: Any, **kwargs: Any) -> Any:
        if not is_on():
            return await run_agent_loop(self, sampling_params, trajectory, **kwargs)
        about, trajectory, trace = _describe(trajectory, kwargs, of_queue=hasattr(self, "background_tasks"))
        token = rollout.set(about)
        try:
            return await run_agent_loop(self, sampling_params, trajectory, **{**kwargs, **trace})
        except Exception:
            about.left_out = about.left_out or about.left_out_if_failed
            raise
        finally:
            rollout.reset(token)
            if about.left_out and about.trajectory is not None:
                rolltrace.score(about.trajectory, "fate", "filtered", reason=about.left_out)

    return described


def _describe(trajectory: Any, kwargs: dict[str, Any], *, of_queue: bool) -> tuple[Rollout, Any, dict[str, bool]]:
    about, trace = Rollout(), {}
    try:
        given = dict(trajectory)
        about.tags = {tag: str(kwargs[name]) for name, tag in _TAGS.items() if kwargs.get(name) is not None}
        if of_queue and "session_id" in kwargs and "uid" in kwargs:
            about.trajectory_id = session_id(kwargs["uid"], kwargs["session_id"])
            given["rollout_n"] = kwargs["session_id"]
            about.left_out_if_failed = None if given.get("validate") else "the rollout failed"
            trace = {"trace": True}  # the v1 trainer of verl 0.9.1 has no tracing of its own, and always says False
        else:
            numbers, row = _numbers.get(), kwargs.get("priority")
            if numbers is not None and row is not None:
                given["rollout_n"] = numbers[int(row)]
                about.left_out = _left_out.get().get(int(row))
            if "index" not in kwargs and kwargs.get("uid") is not None:
                given["sample_index"] = str(kwargs["uid"])
        return about, given, trace
    except Exception:
        caught("verl rollout")
        return about, trajectory, trace


def _rewarded(compute_score: Any) -> Any:
    @functools.wraps(compute_score)
    async def rewarded(self: Any, outputs: Any, *args: Any, **kwargs: Any) -> None:
        if not is_on():
            await compute_score(self, outputs, *args, **kwargs)
            return
        if getattr(self, "reward_loop_worker_handles", None) is None:
            await compute_score(self, outputs, *args, **kwargs)
        else:
            await _score(compute_score, self, outputs, *args, **kwargs)
        _keep_reward(outputs)

    return rewarded


@rolltrace.rollout_trace_op(name="compute_score", kind="reward", inputs=False)
async def _score(compute_score: Any, self: Any, outputs: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    await compute_score(self, outputs, *args, **kwargs)
    return {"reward_score": outputs[-1].reward_score, **_terms(outputs[-1])}


def _terms(output: Any) -> dict[str, Any]:
    found = output.extra_fields.get("reward_extra_info")
    return found if isinstance(found, dict) else {}


def _keep_reward(outputs: Any) -> None:
    try:
        about, last = rollout.get(), outputs[-1]
        trajectory = None if about is None else about.trajectory
        traced = trajectory is not None and trajectory.traced
        if trajectory is not None and last.reward_score is not None:
            trajectory.reward(last.reward_score, terms=_terms(last))
        carried = {
            "id": trajectory.id if trajectory is not None and traced else None,
            "rewarded": last.reward_score is not None,
        }
        for output in outputs:  # of every rollout, traced or not: batches are joined only if they have the same keys
            output.extra_fields[CARRIED] = dict(carried)
    except Exception:
        caught("verl reward")
