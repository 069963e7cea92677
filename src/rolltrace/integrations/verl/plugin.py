"""What verl loads at `import verl` (entry point group `verl.plugins`), in the driver and in every worker of Ray.

Loading it changes nothing yet: each of verl's modules is changed right after it is imported, and all changes do nothing
until the backend is ours. It never raises, because verl would hide that; what went wrong is kept in `status`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rolltrace.integrations.after_import import waiting_for
from rolltrace.integrations.ray import follow_actors, follow_tasks
from rolltrace.integrations.verl import agent_loop, ops, status, tools, trainer, trainer_v1

SEAMS: dict[str, Callable[[Any], None]] = {
    "verl.utils.rollout_trace": ops.change,
    "verl.experimental.agent_loop.agent_loop": agent_loop.change,
    "verl.tools.base_tool": tools.change_base,
    "verl.tools.function_tool": tools.change_functions,
    "verl.interactions.base": tools.change_interactions,
    "verl.trainer.ppo.ray_trainer": trainer.change_ray_trainer,
    "verl.experimental.reward_loop.reward_loop": trainer.change_reward_loop,
    "verl.trainer.ppo.v1.trainer_base": trainer_v1.change_trainer,
    "verl.trainer.ppo.v1.utils": trainer_v1.change_advantage,
    "verl.trainer.ppo.v1.replay_buffer": trainer_v1.change_replay_buffer,
    "ray.actor": follow_actors,
    "ray.remote_function": follow_tasks,
}
"""Module of verl -> what we change there."""


@waiting_for("verl", "ray")
def install() -> None:
    """Done once per process, however often it is called."""
    if status.loaded:
        return
    status.loaded = True
    for name, change in SEAMS.items():
        if not status.changes.make(name, change) and name in status.MUST_COME_LATER:
            status.too_early.append(name)


install()
