"""What the trainer learns of a rollout later: its advantage, whether it was trained or filtered, perhaps its reward.

The trainer knows our trajectories by the id that came with the batch or, in the v1 trainer, by the keys of its rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.errors import RolltraceError
from rolltrace.integrations.verl.agent_loop import session_id
from rolltrace.integrations.verl.batch import CARRIED
from rolltrace.integrations.verl.ops import names_of, turn_on

_late: set[str] = set()
"""Rows of the v1 trainer whose reward the trainer itself has computed."""


def change_ray_trainer(module: Any) -> None:
    """Change `verl.trainer.ppo.ray_trainer`."""
    _start_with(module.RayPPOTrainer, at=0)
    module.compute_advantage = _scoring(module.compute_advantage)


def change_v1_trainer(module: Any) -> None:
    """Change `verl.trainer.ppo.v1.trainer_base`."""
    _start_with(module.PPOTrainer, at=0)
    compute_reward = module.PPOTrainer._compute_reward_colocate

    @functools.wraps(compute_reward)
    def noting(self: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        if scope.recorder is not None:
            _late.update(getattr(batch, "keys", ()))
        return compute_reward(self, batch, *args, **kwargs)

    module.PPOTrainer._compute_reward_colocate = noting


def change_v1_advantage(module: Any) -> None:
    """Change `verl.trainer.ppo.v1.utils`."""
    compute = module.compute_advantage_for_multi_trajectories

    @functools.wraps(compute)
    def scoring(data: Any, batch_keys: Any, *args: Any, **kwargs: Any) -> Any:
        result = compute(data, batch_keys, *args, **kwargs)
        if scope.recorder is not None:
            try:
                _score_sessions(result, list(batch_keys))
            except Exception:
                caught("verl advantage")
        return result

    module.compute_advantage_for_multi_trajectories = scoring


def change_v1_replay_buffer(module: Any) -> None:
    """Change `verl.trainer.ppo.v1.replay_buffer`."""
    evict = module.ReplayBuffer._evict_terminal_groups

    @functools.wraps(evict)
    def noting(self: Any, global_steps: Any, partition_id: Any, eviction_reasons: Any) -> Any:
        if scope.recorder is not None:
            try:
                _note_filtered(self.partitions[partition_id], eviction_reasons)
            except Exception:
                caught("verl filter")
        return evict(self, global_steps, partition_id, eviction_reasons)

    module.ReplayBuffer._evict_terminal_groups = noting


def _start_with(trainer: Any, *, at: int) -> None:
    """Turn tracing on in the trainer's own process: its workers do so in theirs."""
    verls_init = trainer.__init__

    @functools.wraps(verls_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        start(kwargs["config"] if "config" in kwargs else args[at])
        verls_init(self, *args, **kwargs)

    trainer.__init__ = init


def start(config: Any) -> None:
    """Turn tracing on if the config says so.

    Raises:
        RolltraceError: it says so, in a way that cannot work; better now than in a worker an hour later.
    """
    try:
        trace = config.actor_rollout_ref.rollout.trace
        names = names_of(trace.get("backend"))
        if names is not None:
            limit = trace.get("max_samples_per_step_per_worker")
            turn_on(names, trace.get("project_name"), trace.get("experiment_name"), trace.get("token2text"), limit)
    except RolltraceError:
        raise
    except Exception:
        caught("verl trainer")


def _scoring(compute_advantage: Any) -> Any:
    @functools.wraps(compute_advantage)
    def scoring(data: Any, *args: Any, **kwargs: Any) -> Any:
        before = _carried(data)
        result = compute_advantage(data, *args, **kwargs)
        if before:
            try:
                after = _carried(result)
                for each in _ids(before) - _ids(after):
                    rolltrace.score(each, "fate", "filtered", reason="left out when the batch was reweighted")
                _score_rows(result, [each.get("id") for each in after], [not each.get("rewarded") for each in after])
            except Exception:
                caught("verl advantage")
        return result

    return scoring


def _carried(data: Any) -> list[Mapping[str, Any]]:
    """What the workers gave along, by row; nothing when tracing is off, or the rollouts came from elsewhere."""
    if scope.recorder is None:
        return []
    column = getattr(data, "non_tensor_batch", {}).get(CARRIED)
    return [] if column is None else [each if isinstance(each, Mapping) else {} for each in column]


def _ids(carried: Iterable[Mapping[str, Any]]) -> set[str]:
    return {each["id"] for each in carried if each.get("id")}


def _score_sessions(data: Any, keys: list[str]) -> None:
    """Of the v1 trainer: a session may have several rows; its last one has the reward and the advantage."""
    last: dict[str, tuple[int, int]] = {}
    for row, key in enumerate(keys):
        session, _, index = key.rpartition("_")
        last[session] = max(last.get(session, (-1, -1)), (int(index), row))
    ids: list[str | None] = [None] * len(keys)
    for session, (_, row) in last.items():
        uid, _, number = session.rpartition("_")
        ids[row] = session_id(uid, number).hex()
    _score_rows(data, ids, [key in _late for key in keys])
    _late.difference_update(keys)


def _score_rows(data: Any, ids: list[str | None], late: list[bool]) -> None:
    mask, advantages = data.batch["response_mask"], data.batch["advantages"]
    counts = mask.sum(-1)
    means = ((advantages * mask).sum(-1) / counts.clamp(min=1)).tolist()
    scores = data.batch.get("token_level_scores", None)
    rewards = None if scores is None else scores.sum(-1).tolist()
    for row, (each, count) in enumerate(zip(ids, counts.tolist())):
        if not each:
            continue
        if late[row] and rewards is not None:
            rolltrace.score(each, "reward", rewards[row])
        if count:
            rolltrace.score(each, "advantage", means[row])
            rolltrace.score(each, "fate", "trained")
        else:
            rolltrace.score(each, "fate", "filtered", reason="no token is left to train on, as rollout correction does")


def _note_filtered(rows: Iterable[str], reasons: Any) -> None:
    stale, alike, failed = reasons[:3]
    for why, uids in (("stale", stale), ("all rewards alike", alike), ("a rollout of the group failed", failed)):
        for session in {key.rpartition("_")[0] for key in rows if key.split("_")[0] in uids} if uids else ():
            uid, _, number = session.rpartition("_")
            rolltrace.score(session_id(uid, number).hex(), "fate", "filtered", reason=why)
