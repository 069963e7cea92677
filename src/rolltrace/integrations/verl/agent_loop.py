"""`AgentLoopWorker` and `AgentLoopManager`: which rollouts are traced, what they are called, and their reward.

verl computes the reward after the traced run, but still inside the trajectory. Both workers are served: the one that
returns a batch, and the one of the v1 trainer that puts its results into a queue and that verl itself does not trace.
"""

from __future__ import annotations

import copy
import functools
import inspect
from typing import Any

import xxhash

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.integrations.verl.ops import Rollout, chosen, is_on, names_of, rollout
from rolltrace.integrations.verl.tools import follow_subclasses

ROLLOUT_N = "rolltrace_rollout_n"
"""The column in which the manager tells the workers which rollout of its sample each row is."""
CARRIED = "rolltrace"
"""In `extra_fields`, and so in the batch of the trainer: the trajectory's id, and whether it has its reward."""
_TAGS = {"agent_name": "agent", "data_source": "data_source", "uid": "uid"}
"""Columns of the batch -> what the tag of a trajectory is called."""


def change(module: Any) -> None:
    """Change `verl.experimental.agent_loop.agent_loop`."""
    worker, manager = module.AgentLoopWorker, module.AgentLoopManager
    changes = [  # all of them or, in a release that lacks one, none
        (worker, "generate_sequences", _choosing(worker.generate_sequences)),
        (worker, "_run_agent_loop", _described(worker._run_agent_loop)),
        (worker, "_compute_score", _rewarded(worker._compute_score)),
        (
            manager,
            "generate_sequences",
            module.auto_await(_numbered(inspect.unwrap(manager.generate_sequences, stop=_is_async))),
        ),
    ]
    for owner, name, changed in changes:
        setattr(owner, name, changed)
    follow_subclasses(module.AgentLoopBase, "run")  # that of SingleTurnAgentLoop has no decorator in verl 0.7.1


def session_id(uid: Any, session: Any) -> bytes:
    """The id of a trajectory of the v1 trainer: workers and trainer both know the prompt's uid and the session."""
    return xxhash.xxh3_128_digest(f"verl:{uid}_{session}".encode())


def _choosing(generate_sequences: Any) -> Any:
    """The whole batch of a worker is known here, so the samples to trace are chosen before anything is recorded."""

    @functools.wraps(generate_sequences)
    async def choosing(self: Any, batch: Any) -> Any:
        if not is_on():
            return await generate_sequences(self, batch)
        token = chosen.set(_chosen_of(batch))
        try:
            return await generate_sequences(self, batch)
        finally:
            chosen.reset(token)

    return choosing


def _chosen_of(batch: Any) -> set[Any] | None:
    try:
        recorder = scope.recorder
        column = _group_column(batch.non_tensor_batch)
        if recorder is None or recorder.settings.max_samples_per_step_per_worker is None or column is None:
            return None
        return rolltrace.choose_samples(batch.non_tensor_batch[column])
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
        return _without_ours(await generate_sequences(self, _with_numbers(self, prompts)), prompts)

    return numbered


def _is_async(func: Any) -> bool:
    """`auto_await` looks at its caller to see if that awaits, so there must be nothing around it."""
    return inspect.iscoroutinefunction(func)


def _with_numbers(manager: Any, prompts: Any) -> Any:
    try:
        columns = prompts.non_tensor_batch
        column = _group_column(columns)
        ours = names_of(manager.config.actor_rollout_ref.rollout.trace.get("backend")) is not None
        if not ours or column is None:
            return prompts
        import numpy

        seen: dict[Any, int] = {}
        numbers = []
        for group in columns[column]:
            numbers.append(seen.get(group, 0))
            seen[group] = numbers[-1] + 1
        numbered = copy.copy(prompts)
        numbered.non_tensor_batch = {**columns, ROLLOUT_N: numpy.array(numbers)}
        return numbered
    except Exception:
        caught("verl batch")
        return prompts


def _without_ours(output: Any, prompts: Any) -> Any:
    """Take out our columns that the trainer has no use for."""
    try:
        output.non_tensor_batch.pop(ROLLOUT_N, None)  # columns of the input come back if no worker gives rewards
        if prompts.meta_info.get("do_sample") is False and not prompts.meta_info.get("validate"):
            # The baseline of REMAX in verl 0.7.1 is joined with the rollouts of the same prompts, where columns of the
            # same name must be equal. It is not trained, so nobody asks for its ids.
            output.non_tensor_batch.pop(CARRIED, None)
    except Exception:
        caught("verl batch")
    return output


def _described(run_agent_loop: Any) -> Any:
    @functools.wraps(run_agent_loop)
    async def described(self: Any, sampling_params: Any, trajectory: Any, **kwargs: Any) -> Any:
        number = kwargs.pop(ROLLOUT_N, None)
        if not is_on():
            return await run_agent_loop(self, sampling_params, trajectory, **kwargs)
        about, trajectory, trace = _describe(trajectory, number, kwargs, of_queue=hasattr(self, "background_tasks"))
        token = rollout.set(about)
        try:
            return await run_agent_loop(self, sampling_params, trajectory, **{**kwargs, **trace})
        finally:
            rollout.reset(token)

    return described


def _describe(
    trajectory: Any, number: Any, kwargs: dict[str, Any], *, of_queue: bool
) -> tuple[Rollout, Any, dict[str, bool]]:
    about, trace = Rollout(), {}
    try:
        given = dict(trajectory)
        about.tags = {tag: str(kwargs[name]) for name, tag in _TAGS.items() if kwargs.get(name) is not None}
        if of_queue and "session_id" in kwargs and "uid" in kwargs:
            about.trajectory_id = session_id(kwargs["uid"], kwargs["session_id"])
            given["rollout_n"] = kwargs["session_id"]
            trace = {"trace": True}  # the v1 trainer of verl 0.9.1 has no tracing of its own, and always says False
        else:
            if number is not None:
                given["rollout_n"] = int(number)
            if "index" not in kwargs and kwargs.get("uid") is not None:
                given["sample_index"] = str(kwargs["uid"])
        return about, given, trace
    except Exception:
        caught("verl rollout")
        return about, trajectory, trace


def _rewarded(compute_score: Any) -> Any:
    @functools.wraps(compute_score)
    async def rewarded(self: Any, given: Any, *args: Any, **kwargs: Any) -> None:
        scoring = compute_score(self, given, *args, **kwargs)
        if not is_on():
            await scoring
            return
        outputs = given if isinstance(given, list) else [given]  # verl 0.7.1 gives one, not a list of them
        if getattr(self, "reward_loop_worker_handles", None) is None:
            await scoring
        else:
            await _score(scoring, outputs[-1])
        _keep_reward(outputs)

    return rewarded


@rolltrace.rollout_trace_op(name="compute_score", kind="reward", inputs=False)
async def _score(scoring: Any, output: Any) -> dict[str, Any]:
    await scoring
    return {"reward_score": output.reward_score, **_terms(output)}


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
