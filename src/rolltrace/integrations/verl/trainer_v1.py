"""As `trainer`, for the v1 trainer, whose rollouts lie in a queue.

The key of a row is `{uid of the prompt}_{session}_{number}`: a session is one rollout, and may have several rows.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from inspect import BoundArguments
from typing import Any, NamedTuple

import rolltrace
from rolltrace.integrations.seams import Steps, hook
from rolltrace.integrations.verl.batch import CARRIED
from rolltrace.integrations.verl.trainer import Ids, follow_trainer, ids_of_batch, lose_untraced, score_advantages

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
    follow_trainer(module.PPOTrainer)
    hook(module.PPOTrainer, "_compute_reward_colocate", _know_last_rows)


def change_advantage(module: Any) -> None:
    """Change `verl.trainer.ppo.v1.utils`."""
    hook(module, "compute_advantage_for_multi_trajectories", _score_rows)


def change_replay_buffer(module: Any) -> None:
    """Change `verl.trainer.ppo.v1.replay_buffer`: a group that it clears is never trained on."""
    hook(module.ReplayBuffer, "_evict_terminal_groups", _keep_reasons)
    hook(module.ReplayBuffer, "_clear_groups", _note_cleared)


def _know_last_rows(call: BoundArguments) -> Steps:
    """The last row of a session has its reward, verl says; so the others have no trajectory here."""
    batch = call.args[1]
    keys = list(batch.keys)
    last: dict[tuple[str, str], str] = {}
    for name, key in sorted(zip(keys, map(parse, keys)), key=lambda pair: pair[1].number):
        last[key.uid, key.session] = name
    last_rows = set(last.values())
    ids = [each if name in last_rows else None for name, each in zip(keys, ids_of(keys, batch.partition_id))]
    token = ids_of_batch.set(ids)
    try:
        yield
    finally:
        ids_of_batch.reset(token)


def _score_rows(call: BoundArguments) -> Steps:
    """Rows that are going to be trained on. A rollout without a trajectory is counted."""
    keys = list(call.args[1])
    carried = _carried(keys, TRAIN)
    lose_untraced(len({parse(key)[:2] for key, each in carried.items() if each is None}))
    ids = [(carried.get(key) or {}).get("id") for key in keys]
    token = ids_of_batch.set(ids)
    try:
        result = yield
    finally:
        ids_of_batch.reset(token)
    score_advantages(ids, result)


def _keep_reasons(call: BoundArguments) -> Steps:
    stale, alike, failed = call.args[3][:3]
    token = _reasons.set(
        {
            **dict.fromkeys(failed, "a rollout of the group failed"),
            **dict.fromkeys(alike, "all rewards alike"),
            **dict.fromkeys(stale, "stale"),
        }
    )
    try:
        yield
    finally:
        _reasons.reset(token)


def _note_cleared(call: BoundArguments) -> Steps:
    buffer, partition, uids = call.args[:3]
    if partition == TRAIN and uids:
        keys = [key for key in buffer.partitions[partition] if parse(key).uid in uids]
        reasons = _reasons.get()
        why = {each: reasons.get(parse(key).uid, "surplus") for key, each in zip(keys, ids_of(keys, TRAIN)) if each}
        for each, reason in why.items():
            rolltrace.score(each, "fate", "filtered", reason=reason)
    yield


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
