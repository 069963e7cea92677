"""Rollouts in worker processes: a task says where its group stands, and turns tracing on where it arrives.

The executor may be a process pool, Ray, or anything that pickles. Nothing of ours is in the builder or the client.
"""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import Any, NamedTuple

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.integrations.tinker.coordinates import Position, positions, version_of


class Sent(NamedTuple):
    """What a worker is told of a group."""

    context: str
    """How tracing is turned on there."""
    position: Position
    version: int | None


received: ContextVar[Sent | None] = ContextVar("rolltrace_tinker_sent", default=None)
_run_theirs: Any = None
"""tinker-cookbook's own `_run_rollout_sync`, where it was replaced."""


def change(module: Any) -> None:
    """Change `tinker_cookbook.rl.rollouts`: these two names are looked up there when a task is handed out."""
    global _run_theirs
    make_task, _run_theirs = module._RolloutTask, module._run_rollout_sync

    @functools.wraps(make_task, updated=())
    def task(*args: Any, **kwargs: Any) -> Any:
        made = make_task(*args, **kwargs)
        try:
            return made if scope.recorder is None else Task(made, _sent(made))
        except Exception:
            caught("tinker task")
            return made

    module._RolloutTask = task
    module._run_rollout_sync = run


def _sent(task: Any) -> Sent:
    known = positions.get()
    position = None if known is None else known.draw(task.env_group_builder)
    return Sent(rolltrace.current_context(), position or Position(), version_of(task.sampling_client))


class Task:
    """A task of tinker-cookbook's, and what the worker is told."""

    def __init__(self, task: Any, sent: Sent) -> None:
        self.task = task
        self.sent = sent


def run(task: Any) -> Any:
    """What a worker runs: of this name, since the worker looks it up and knows nothing of us yet."""
    if not isinstance(task, Task):
        return _run(task)
    from rolltrace.integrations.tinker.plugin import install_when_imported

    install_when_imported()
    with rolltrace.use_context(task.sent.context):
        token = received.set(task.sent)
        try:
            return _run(task.task)
        finally:
            received.reset(token)


def _run(task: Any) -> Any:
    from tinker_cookbook.rl import rollouts

    return (_run_theirs or rollouts._run_rollout_sync)(task)
