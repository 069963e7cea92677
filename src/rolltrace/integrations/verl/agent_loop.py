"""`AgentLoopWorker` and `AgentLoopManager`: what rollouts are called, their reward, and what is known of their fate.

verl computes the reward after the traced run, but still inside the trajectory. Both workers are served: the one that
returns a batch, and the one of the v1 trainer that puts its results into a queue and that verl itself does not trace.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.integrations.seams import replace_in_subclasses
from rolltrace.integrations.verl.batch import CARRIED, ROW, deciding, telling
from rolltrace.integrations.verl.ops import Rollout, decision, is_on, rollout, trace_subclasses

_TAGS = {"agent_name": "agent", "data_source": "data_source", "uid": "uid"}
"""Columns of the batch -> what the tag of a trajectory is called."""


def change(module: Any) -> None:
    """Change `verl.experimental.agent_loop.agent_loop`."""
    worker, manager = module.AgentLoopWorker, module.AgentLoopManager
    split = inspect.unwrap(manager.generate_sequences, stop=_is_async)
    changes = [  # all of them or, in a release that lacks one, none
        (worker, "generate_sequences", deciding(worker.generate_sequences)),
        (worker, "_run_agent_loop", _described(worker._run_agent_loop)),
        (worker, "_compute_score", _rewarded(worker._compute_score)),
        (manager, "generate_sequences", module.auto_await(telling(split))),
    ]
    for owner, name, changed in changes:
        setattr(owner, name, changed)
    replace_in_subclasses(worker, "_agent_loop_postprocess", _marked)
    trace_subclasses(module.AgentLoopBase, "run")  # that of SingleTurnAgentLoop has no decorator in verl 0.7.1


def _is_async(func: Any) -> bool:
    """`auto_await` looks at its caller to see if that awaits, so there must be nothing around it."""
    return inspect.iscoroutinefunction(func)


def _described(run_agent_loop: Any) -> Any:
    @functools.wraps(run_agent_loop)
    async def described(self: Any, sampling_params: Any, trajectory: Any, **kwargs: Any) -> Any:
        row = kwargs.pop(ROW, None)
        if not is_on():
            return await run_agent_loop(self, sampling_params, trajectory, **kwargs)
        about, trajectory, trace = _describe(trajectory, row, kwargs, of_queue=hasattr(self, "background_tasks"))
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


def _describe(
    trajectory: Any, row: Any, kwargs: dict[str, Any], *, of_queue: bool
) -> tuple[Rollout, Any, dict[str, bool]]:
    about, trace = Rollout(), {}
    try:
        coordinates = dict(trajectory)
        about.tags = {tag: str(kwargs[name]) for name, tag in _TAGS.items() if kwargs.get(name) is not None}
        if of_queue and "session_id" in kwargs and "uid" in kwargs:
            coordinates["rollout_n"] = kwargs["session_id"]
            about.left_out_if_failed = None if coordinates.get("validate") else "the rollout failed"
            trace = {"trace": True}  # the v1 trainer of verl 0.9.1 has no tracing of its own, and always says False
        else:
            if row is not None and decision.get().numbers:
                coordinates["rollout_n"] = decision.get().numbers[int(row)]
                about.left_out = decision.get().left_out.get(int(row))
            if "index" not in kwargs and kwargs.get("uid") is not None:
                coordinates["sample_index"] = str(kwargs["uid"])
        return about, coordinates, trace
    except Exception:
        caught("verl rollout")
        return about, trajectory, trace


def _marked(postprocess: Any) -> Any:
    """The trainer learns whose rows these are, also from a worker that computes rewards in its own way."""

    @functools.wraps(postprocess)
    async def marked(self: Any, one_or_many: Any, *args: Any, **kwargs: Any) -> Any:
        if is_on():
            try:
                _carry(_listed(one_or_many), rewarded=False)
            except Exception:
                caught("verl rollout")
        return await postprocess(self, one_or_many, *args, **kwargs)

    return marked


def _listed(one_or_many: Any) -> list[Any]:
    return one_or_many if isinstance(one_or_many, list) else [one_or_many]


def _carry(outputs: list[Any], *, rewarded: bool) -> None:
    """Of every rollout, traced or not: batches are joined only if they have the same keys."""
    about = rollout.get()
    trajectory = None if about is None else about.trajectory
    traced = trajectory is not None and trajectory.traced
    carried = {"id": trajectory.id if trajectory is not None and traced else None, "rewarded": rewarded}
    for output in outputs:
        output.extra_fields[CARRIED] = dict(carried)


def _rewarded(compute_score: Any) -> Any:
    @functools.wraps(compute_score)
    async def rewarded(self: Any, one_or_many: Any, *args: Any, **kwargs: Any) -> None:
        scoring = compute_score(self, one_or_many, *args, **kwargs)
        if not is_on():
            await scoring
            return
        outputs = _listed(one_or_many)  # verl 0.7.1 gives one
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
    reward_info = output.extra_fields.get("reward_extra_info")
    return reward_info if isinstance(reward_info, dict) else {}


def _keep_reward(outputs: Any) -> None:
    try:
        about, last = rollout.get(), outputs[-1]
        trajectory = None if about is None else about.trajectory
        if trajectory is not None and last.reward_score is not None:
            trajectory.reward(last.reward_score, terms=_terms(last))
        _carry(outputs, rewarded=last.reward_score is not None)
    except Exception:
        caught("verl reward")
