"""As `trainer`, for the v1 trainer, whose rollouts lie in a queue.

The key of a row is `{uid of the prompt}_{session}_{number}`: a session is one rollout, and may have several rows.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.integrations.verl.batch import CARRIED
from rolltrace.integrations.verl.tools import follow_subclasses
from rolltrace.integrations.verl.trainer import (
    Ids,
    follow_updates,
    ids_of_batch,
    looking_at_manager,
    lose_untraced,
    score_advantages,
    start_with,
)

TRAIN = "train"
"""The partition of the queue with the rollouts to train on; the other one is for validation."""
_PADDING = re.compile(r"pad[0-9a-f]{32}")
"""The uid of rows that verl makes up, so that a batch can be divided."""
_reasons: ContextVar[Mapping[str, str]] = ContextVar("rolltrace_verl_reasons", default={})  # noqa: B039 (never changed)
"""Why groups are about to be cleared, by uid."""


class Key(NamedTuple):
    """The key of a row, taken apart."""

    uid: str
    session: str
    number: int


def parse(key: str) -> Key:
    """A uid may have underscores of its own."""
    uid, session, number = key.rsplit("_", 2)
    return Key(uid, session, int(number))


def change_trainer(module: Any) -> None:
    """Change `verl.trainer.ppo.v1.trainer_base`."""
    start_with(module.PPOTrainer)
    follow_subclasses(module.PPOTrainer, "fit", looking_at_manager)
    follow_updates(module.PPOTrainer)
    compute_reward = module.PPOTrainer._compute_reward_colocate

    @functools.wraps(compute_reward)
    def knowing(self: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        token = ids_of_batch.set(_of_last_rows(batch))
        try:
            return compute_reward(self, batch, *args, **kwargs)
        finally:
            ids_of_batch.reset(token)

    module.PPOTrainer._compute_reward_colocate = knowing


def change_advantage(module: Any) -> None:
    """Change `verl.trainer.ppo.v1.utils`."""
    compute = module.compute_advantage_for_multi_trajectories

    @functools.wraps(compute)
    def scoring(data: Any, batch_keys: Any, *args: Any, **kwargs: Any) -> Any:
        if scope.recorder is None:
            return compute(data, batch_keys, *args, **kwargs)
        ids = _known(list(batch_keys))
        token = ids_of_batch.set(ids)
        try:
            result = compute(data, batch_keys, *args, **kwargs)
        finally:
            ids_of_batch.reset(token)
        try:
            score_advantages(ids, result)
        except Exception:
            caught("verl advantage")
        return result

    module.compute_advantage_for_multi_trajectories = scoring


def _known(keys: list[str]) -> Ids:
    """The trajectories of rows that are going to be trained on. A rollout without one is counted."""
    try:
        carried = _carried(keys, TRAIN)
        lose_untraced(len({parse(key)[:2] for key, each in carried.items() if each is None}))
        return [(carried.get(key) or {}).get("id") for key in keys]
    except Exception:
        caught("verl advantage")
        return [None] * len(keys)


def change_replay_buffer(module: Any) -> None:
    """Change `verl.trainer.ppo.v1.replay_buffer`: a group that it clears is never trained on."""
    evict, clear = module.ReplayBuffer._evict_terminal_groups, module.ReplayBuffer._clear_groups

    @functools.wraps(evict)
    def explaining(self: Any, global_steps: Any, partition_id: Any, eviction_reasons: Any) -> Any:
        token = _reasons.set({} if scope.recorder is None else _by_uid(eviction_reasons))
        try:
            return evict(self, global_steps, partition_id, eviction_reasons)
        finally:
            _reasons.reset(token)

    @functools.wraps(clear)
    def noting(self: Any, partition_id: Any, uids: Any) -> Any:
        if scope.recorder is not None and partition_id == TRAIN and uids:
            try:
                _note_filtered([key for key in self.partitions[partition_id] if parse(key).uid in uids])
            except Exception:
                caught("verl filter")
        return clear(self, partition_id, uids)

    module.ReplayBuffer._evict_terminal_groups = explaining
    module.ReplayBuffer._clear_groups = noting


def ids_of(keys: list[str], partition: str) -> Ids:
    """The trajectories of these rows.

    The queue says it: after a resume it has rollouts of the run before, and others have begun again with the same keys.
    """
    carried = _carried(keys, partition)
    return [(carried.get(key) or {}).get("id") for key in keys]


def _carried(keys: Iterable[str], partition: str) -> dict[str, Mapping[str, Any] | None]:
    """What the workers gave along, by row; None for one that is not from a worker of verl's. Padding is left out."""
    made = [key for key in keys if not _PADDING.fullmatch(parse(key).uid)]
    if not made:
        return {}
    queue = importlib.import_module("transfer_queue")  # verl has it
    try:
        columns = queue.kv_batch_get(keys=made, partition_id=partition, select_fields=["extra_fields"])
    except ValueError:  # somebody puts rows there without them
        return dict.fromkeys(made)
    fields = [getattr(each, "data", each) for each in columns["extra_fields"]]
    return {key: each.get(CARRIED) for key, each in zip(made, fields)}


def _of_last_rows(batch: Any) -> Ids | None:
    """The last row of a session has its reward, verl says; so the others have no trajectory here."""
    if scope.recorder is None:
        return None
    try:
        keys = list(batch.keys)
        last: dict[tuple[str, str], str] = {}
        for name, key in sorted(zip(keys, map(parse, keys)), key=lambda pair: pair[1].number):
            last[key.uid, key.session] = name
        last_rows = set(last.values())
        return [each if name in last_rows else None for name, each in zip(keys, ids_of(keys, batch.partition_id))]
    except Exception:
        caught("verl reward")
        return None


def _by_uid(reasons: Any) -> dict[str, str]:
    try:
        stale, alike, failed = reasons[:3]
        return {
            **dict.fromkeys(failed, "a rollout of the group failed"),
            **dict.fromkeys(alike, "all rewards alike"),
            **dict.fromkeys(stale, "stale"),
        }
    except Exception:
        caught("verl filter")
        return {}


def _note_filtered(rows: Iterable[str]) -> None:
    keys = list(rows)
    why = {each: _reasons.get().get(parse(key).uid, "surplus") for key, each in zip(keys, ids_of(keys, TRAIN)) if each}
    for each, reason in why.items():
        rolltrace.score(each, "fate", "filtered", reason=reason)
