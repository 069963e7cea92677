"""What verl loads at `import verl` (entry point group `verl.plugins`), in the driver and in every worker of Ray.

Loading it changes nothing yet: each of verl's modules is changed right after it is imported, and all changes do nothing
until the backend is ours. It never raises, because verl would hide that; `framework.RELEASES` keeps what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rolltrace.integrations.after_import import waiting_for
from rolltrace.integrations.ray import follow_actors, follow_tasks
from rolltrace.integrations.verl import agent_loop, ops, trainer, trainer_v1
from rolltrace.integrations.verl.framework import RELEASES

SEAMS: dict[str, Callable[[Any], None]] = {
    "verl.utils.rollout_trace": ops.change,
    "verl.experimental.agent_loop.agent_loop": agent_loop.change,
    "verl.tools.base_tool": ops.change_tools,
    "verl.tools.function_tool": ops.change_function_tools,
    "verl.interactions.base": ops.change_interactions,
    "verl.trainer.ppo.ray_trainer": trainer.change_ray_trainer,
    "verl.experimental.reward_loop.reward_loop": trainer.change_reward_loop,
    "verl.trainer.ppo.v1.trainer_base": trainer_v1.change_trainer,
    "verl.trainer.ppo.v1.utils": trainer_v1.change_advantage,
    "verl.trainer.ppo.v1.replay_buffer": trainer_v1.change_replay_buffer,
    "ray.actor": follow_actors,
    "ray.remote_function": follow_tasks,
}
"""Module of verl -> what we change there."""


_is_installed = False


@waiting_for("verl", "ray")
def install() -> None:
    """Done once per process, however often it is called."""
    global _is_installed
    if not _is_installed:
        _is_installed = True
        for name, change in SEAMS.items():
            RELEASES.change(name, change)


install()
