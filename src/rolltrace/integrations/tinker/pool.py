"""Rollouts in worker processes: a task says where its group stands, and turns tracing on where it arrives.

The executor may be a process pool, Ray, or anything that pickles. Nothing of ours is in the builder or the client.
"""

from __future__ import annotations

from contextvars import ContextVar
from inspect import BoundArguments
from typing import Any, NamedTuple

import rolltrace
from rolltrace.integrations.seams import Steps, hook
from rolltrace.integrations.tinker.coordinates import GroupPosition, draw_position, version_of


class Sent(NamedTuple):
    """What a worker is told of a group."""

    context: str
    """How tracing is turned on there."""
    position: GroupPosition
    version: int | None


_SENT = "_rolltrace"
"""The attribute of a task in which that is."""

received: ContextVar[Sent | None] = ContextVar("rolltrace_tinker_sent", default=None)
_run_theirs: Any = None
"""tinker-cookbook's own `_run_rollout_sync`, where it was replaced."""


def change(module: Any) -> None:
    """Change `tinker_cookbook.rl.rollouts`. What a worker runs is looked up there when a task is handed out."""
    global _run_theirs
    hook(module._RolloutTask, "__init__", _address)
    _run_theirs, module._run_rollout_sync = module._run_rollout_sync, run


def _address(call: BoundArguments) -> Steps:
    yield
    task = call.arguments["self"]
    position = draw_position(task.env_group_builder)
    sent = Sent(rolltrace.current_context(), position, version_of(task.sampling_client))
    task.__dict__[_SENT] = sent  # it is frozen, and pickles all the same


def run(task: Any) -> Any:
    """What a worker runs: of this name, since the worker looks it up and knows nothing of us yet."""
    sent = task.__dict__.get(_SENT)
    if sent is None:
        return _run(task)
    from rolltrace.integrations.tinker.plugin import install_when_imported

    install_when_imported()
    with rolltrace.use_context(sent.context):
        token = received.set(sent)
        try:
            return _run(task)
        finally:
            received.reset(token)


def _run(task: Any) -> Any:
    from tinker_cookbook.rl import rollouts

    return (_run_theirs or rollouts._run_rollout_sync)(task)
