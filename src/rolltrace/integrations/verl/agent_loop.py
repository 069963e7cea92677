"""`AgentLoopWorker` and `AgentLoopManager`: which rollouts are traced, what they are called, and their reward.

verl computes the reward after the traced run, but still inside the trajectory. Both workers are served: the one that
returns a batch, and the one of the v1 trainer that puts its results into a queue and that verl itself does not trace.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import xxhash

import rolltrace
from rolltrace._guard import caught
from rolltrace.integrations.verl.batch import deciding, numbers, telling
from rolltrace.integrations.verl.ops import Rollout, is_on, rollout

CARRIED = "rolltrace"
"""In `extra_fields`, and so in the batch of the trainer: the trajectory's id, and whether it has its reward."""
_TAGS = {"agent_name": "agent", "data_source": "data_source", "uid": "uid"}
"""Columns of the batch -> what the tag of a trajectory is called."""


def change(module: Any) -> None:
    """Change `verl.experimental.agent_loop.agent_loop`."""
    worker, manager = module.AgentLoopWorker, module.AgentLoopManager
    worker.generate_sequences = deciding(worker.generate_sequences)
    worker._run_agent_loop = _described(worker._run_agent_loop)
    worker._compute_score = _rewarded(worker._compute_score)
    manager.generate_sequences = module.auto_await(telling(inspect.unwrap(manager.generate_sequences, stop=_is_async)))


def session_id(uid: Any, session: Any) -> bytes:
    """The id of a trajectory of the v1 trainer: workers and trainer both know the prompt's uid and the session."""
    return xxhash.xxh3_128_digest(f"verl:{uid}_{session}".encode())


def _is_async(func: Any) -> bool:
    """`auto_await` looks at its caller to see if that awaits, so there must be nothing around it."""
    return inspect.iscoroutinefunction(func)


def _described(run_agent_loop: Any) -> Any:
    @functools.wraps(run_agent_loop)
    async def described(self: Any, sampling_params: Any, trajectory: Any, **kwargs: Any) -> Any:
        if not is_on():
            return await run_agent_loop(self, sampling_params, trajectory, **kwargs)
        about, trajectory, trace = _describe(trajectory, kwargs, of_queue=hasattr(self, "background_tasks"))
        token = rollout.set(about)
        try:
            return await run_agent_loop(self, sampling_params, trajectory, **{**kwargs, **trace})
        finally:
            rollout.reset(token)

    return described


def _describe(trajectory: Any, kwargs: dict[str, Any], *, of_queue: bool) -> tuple[Rollout, Any, dict[str, bool]]:
    about, trace = Rollout(), {}
    try:
        given = dict(trajectory)
        about.tags = {tag: str(kwargs[name]) for name, tag in _TAGS.items() if kwargs.get(name) is not None}
        if of_queue and "session_id" in kwargs and "uid" in kwargs:
            about.trajectory_id = session_id(kwargs["uid"], kwargs["session_id"])
            given["rollout_n"] = kwargs["session_id"]
            trace = {"trace": True}  # the v1 trainer of verl 0.9.1 has no tracing of its own, and always says False
        else:
            of_batch, row = numbers.get(), kwargs.get("priority")
            if of_batch is not None and row is not None:
                given["rollout_n"] = of_batch[int(row)]
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
