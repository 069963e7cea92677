"""Trainers that do nothing but update the actor, or the critic, and perhaps fail to."""

from __future__ import annotations

from typing import Any

from verl.trainer.ppo.ray_trainer import RayPPOTrainer
from verl.trainer.ppo.v1 import PPOTrainerSync

STEP = 6


class _Updating:
    def __init__(self, config: Any, *, fails: bool = False) -> None:
        self.config = config
        self.global_steps = STEP
        self.fails = fails

    def _update_actor(self, batch: Any, *more: Any) -> Any:
        if self.fails:
            raise RuntimeError("out of memory")
        return batch

    def _update_critic(self, batch: Any, *more: Any) -> Any:
        return batch


class Updating(_Updating, RayPPOTrainer):
    """Of the old trainer."""

    _update_actor = _Updating._update_actor
    _update_critic = _Updating._update_critic


class UpdatingV1(_Updating, PPOTrainerSync):
    """Of the v1 trainer."""

    _update_actor = _Updating._update_actor
    _update_critic = _Updating._update_critic
