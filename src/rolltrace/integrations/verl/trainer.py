"""What the trainer learns of a rollout later: its advantage, whether it was trained or filtered, perhaps its reward.

The trainer knows our trajectories by the id that came with the batch. The v1 trainer has no such batch: `trainer_v1`.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from inspect import BoundArguments
from typing import Any

import rolltrace
from rolltrace._guard import caught, logger
from rolltrace.capture import scope
from rolltrace.errors import RolltraceError
from rolltrace.integrations.seams import Steps, hook, hook_subclasses
from rolltrace.integrations.verl.batch import CARRIED
from rolltrace.integrations.verl.ops import asked_backend, names_of, turn_on

UNTRACED = "untraced_rollout"
"""The reason of a loss: a rollout that was not made by a worker of verl's."""
Ids = list["str | None"]
"""Which trajectory each row of a batch belongs to; None for a row that is not traced."""

ids_of_batch: ContextVar[Ids | None] = ContextVar("rolltrace_verl_ids", default=None)
"""Those of the batch whose reward or advantage is being computed, if the batch itself does not say."""
_trainer: weakref.ref[Any] | None = None
_is_asked = False
"""Whether the trainer's config asks for us."""
_warned_untraced = False
_awaiting_update: dict[str, None] = {}
"""The rollouts whose advantages were computed, until the actor has been updated with them."""


def change_ray_trainer(module: Any) -> None:
    """Change `verl.trainer.ppo.ray_trainer`."""
    follow_trainer(module.RayPPOTrainer)
    hook(module, "compute_advantage", _score_batch)


def change_reward_loop(module: Any) -> None:
    """Change `verl.experimental.reward_loop.reward_loop`: who computes a reward that the workers do not."""
    hook(module.RewardLoopManager, "compute_rm_score", _score_late)


def follow_trainer(trainer: Any) -> None:
    """Rollouts are trained when the actor was updated with them, or during its warm-up the critic."""
    start_with(trainer)
    hook_subclasses(trainer, "fit", _look_at_manager)
    hook_subclasses(trainer, "_update_actor", functools.partial(_note_trained, by_critic=False))
    hook_subclasses(trainer, "_update_critic", functools.partial(_note_trained, by_critic=True))


def start_with(trainer: Any) -> None:
    """Turn tracing on in the trainer's own process: its workers do so in theirs."""
    verls_init = trainer.__init__

    @functools.wraps(verls_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        _start_once(self, kwargs.get("config", args[0] if args else None))
        verls_init(self, *args, **kwargs)

    def init_subclass(cls: Any, /, **kwargs: Any) -> None:
        super(trainer, cls).__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _starting(cls.__init__)

    trainer.__init__ = init
    trainer.__init_subclass__ = classmethod(init_subclass)


def _look_at_manager(call: BoundArguments) -> Steps:
    """Before a trainer's `fit`: say if its rollouts are not traced."""
    if _is_asked:
        trainer, *more = call.args
        of_trainer = getattr(trainer, "async_rollout_manager", None)
        manager = more[0] if more else call.kwargs.get("agent_loop_manager", of_trainer)
        if manager is not None and not _has_verls_workers(manager):
            warn_untraced(f"{type(manager).__module__}.{type(manager).__qualname__}")
    yield


def warn_untraced(manager: str = "this training") -> None:
    """Say once that rollouts are made in a way that is not traced."""
    global _warned_untraced
    if not _warned_untraced:
        _warned_untraced = True
        logger.warning(
            "verl: the rollouts of %s are not traced, because they are not made by verl's AgentLoopWorker. "
            "See: rolltrace docs verl",
            manager,
        )


def _has_verls_workers(manager: Any) -> bool:
    module = sys.modules.get("verl.experimental.agent_loop.agent_loop")
    if module is None or not isinstance(manager, module.AgentLoopManager):
        return False
    workers = getattr(manager, "agent_loop_workers_class", None)
    of_actor = getattr(getattr(workers, "__ray_metadata__", None), "modified_class", workers)
    return not isinstance(of_actor, type) or issubclass(of_actor, module.AgentLoopWorker)


def lose_untraced(count: int) -> None:
    """Count rollouts that came from elsewhere than verl's workers."""
    recorder = scope.recorder
    if count and recorder is not None and _is_asked:
        trainer = None if _trainer is None else _trainer()
        recorder.sink.lose(UNTRACED, getattr(trainer, "global_steps", None), count)
        recorder.trajectory_ended()  # there may be no others, which would hand the count over
        warn_untraced()


def _note_trained(call: BoundArguments, *, by_critic: bool) -> Steps:
    try:
        yield
    except BaseException:
        _awaiting_update.clear()
        raise
    trainer = call.args[0]
    if _awaiting_update and (not by_critic or _is_warming_up(trainer)):
        _score_trained(trainer, "critic warm-up: only the critic" if by_critic else None)


def _score_trained(trainer: Any, reason: str | None) -> None:
    # That of a fully asynchronous trainer counts updates of which several make one version of the weights.
    version = getattr(trainer, "current_param_version", None)
    step = trainer.global_steps if version is None else version + 1
    while _awaiting_update:
        rolltrace.score(_awaiting_update.popitem()[0], "fate", "trained", reason=reason, trained_step=step)


def _starting(init: Any) -> Any:
    """Of a subclass: some of verl's own never call that of their base class."""

    @functools.wraps(init)
    def starting(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        _start_once(self, getattr(self, "config", None))

    return starting


def _start_once(trainer: Any, config: Any) -> None:
    global _trainer
    if config is not None and (_trainer is None or _trainer() is not trainer):
        start(config)
        _trainer = weakref.ref(trainer)


def start(config: Any) -> None:
    """Turn tracing on if the config says so.

    Raises:
        RolltraceError: it says so, in a way that cannot work; better now than in a worker an hour later.
    """
    global _is_asked
    try:
        trace = config.actor_rollout_ref.rollout.trace
        names = names_of(asked_backend(trace.get("backend")))
        _is_asked = names is not None
        if names is not None:
            limit = trace.get("max_samples_per_step_per_worker")
            turn_on(names, trace.get("project_name"), trace.get("experiment_name"), trace.get("token2text"), limit)
    except RolltraceError:
        raise
    except Exception:
        caught("verl trainer")


def _score_batch(call: BoundArguments) -> Steps:
    data = call.args[0]
    before = _carried(data)
    if not before:
        if ids_of_batch.get() is None:
            lose_untraced(len(data))
        return
    # A trainer of somebody else's may have computed the reward in its own way.
    late = [None if each.get("rewarded") else each.get("id") for each in before]
    score_rewards(late, data, "token_level_scores")
    result = yield
    after = _carried(result)
    for each in _ids(before) - _ids(after):
        rolltrace.score(each, "fate", "filtered", reason="left out when the batch was reweighted")
    score_advantages([each.get("id") for each in after], result)


def _score_late(call: BoundArguments) -> Steps:
    result = yield
    ids, carried = ids_of_batch.get(), _carried(call.args[1])
    if ids is None:
        ids = [each.get("id") for each in carried]
    score_rewards(ids, result, "rm_scores")
    for each in carried:
        if isinstance(each, dict):
            each["rewarded"] = True  # the same objects are in the batch until its advantages are computed


def _carried(data: Any) -> list[Mapping[str, Any]]:
    """What the workers gave along, by row; nothing when tracing is off, or the rollouts came from elsewhere."""
    if scope.recorder is None:
        return []
    column = getattr(data, "non_tensor_batch", {}).get(CARRIED)
    return [] if column is None else [each if isinstance(each, Mapping) else {} for each in column]


def _ids(carried: Iterable[Mapping[str, Any]]) -> set[str]:
    return {each["id"] for each in carried if each.get("id")}


def score_rewards(ids: Ids, data: Any, column: str) -> None:
    """The rewards in this column of the batch, with what verl calls `reward_extra_info` as terms."""
    if not any(ids) or column not in data.batch.keys():  # noqa: SIM118 (a TensorDict)
        return
    names = [name for name in data.meta_info.get("reward_extra_keys") or () if name in data.non_tensor_batch]
    for row, reward in enumerate(data.batch[column].sum(-1).tolist()):
        each = ids[row]
        if each:
            rolltrace.score(each, "reward", reward, terms={name: data.non_tensor_batch[name][row] for name in names})


def score_advantages(ids: Ids, data: Any) -> None:
    """The mean over all tokens that are trained on, in all rows of a trajectory; they await the update."""
    mask = data.batch["response_mask"]
    sums = data.batch["advantages"].masked_fill(mask == 0, 0).sum(-1).tolist()
    totals: dict[str, tuple[float, float]] = {}
    for each, more, tokens in zip(ids, sums, mask.sum(-1).tolist()):
        if each:
            total, count = totals.get(each, (0, 0))
            totals[each] = total + more, count + tokens
    for each, (total, count) in totals.items():
        if count:
            rolltrace.score(each, "advantage", total / count)
            _awaiting_update[each] = None
        else:
            rolltrace.score(each, "fate", "filtered", reason="no token is left to train on, as rollout correction does")


def _is_warming_up(trainer: Any) -> bool:
    """Whether the actor is not trained in this step, as verl decides it."""
    try:
        return bool(trainer.config.trainer.critic_warmup > trainer.global_steps)
    except Exception:  # a trainer of somebody else's
        return False
