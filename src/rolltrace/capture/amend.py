"""`amend_transition`: a last word on a step of a trajectory that is known by its id, from anywhere, long after."""

from __future__ import annotations

from typing import Any

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.trajectory import TrajectoryHandle
from rolltrace.capture.transition import amendment_body
from rolltrace.errors import ConfigError
from rolltrace.record import target_of

_LAST = -1


def amend_transition(
    target: str | TrajectoryHandle,
    *,
    turn: int | None = None,
    reward: Any = ...,
    episode_done: Any = ...,
    metrics: Any = ...,
    logs: Any = ...,
    stop_reason: Any = ...,
    **more: Any,
) -> None:
    """Change a step of a trajectory that another process recorded, or that has ended: the newest word counts.

        amend_transition(trajectory_id, episode_done=True, stop_reason="max_turns", metrics={"turns": 8})

    What is not given (`...`) stays; None is a value like any other. Metrics and logs are merged, key by key. What was
    there before is kept as the history of the step. While tracing is off nothing happens; a call that makes no sense
    warns, is counted as `refused_score`, and is raised only with `ROLLTRACE_STRICT=1`.

    Args:
        target: The id of the trajectory, or its handle.
        turn: Which step: from 0, from the end if negative; the last one of the trajectory if not given.
        reward, episode_done, metrics, logs, stop_reason: As in `TrajectoryHandle.transition`.
        **more: Further fields.
    """
    recorder = scope.recorder
    if recorder is None:
        return
    changes = {
        "reward": reward, "episode_done": episode_done, "metrics": metrics, "logs": logs, "stop_reason": stop_reason,
        **more,
    }  # fmt: skip
    step: int | None = None
    try:
        handle = target if isinstance(target, TrajectoryHandle) else TrajectoryHandle(recorder, trace_id=_id(target))
        step = handle.step
        if handle.traced:
            body = amendment_body(recorder, _LAST if turn is None else turn, changes)
            handle._write(recorder, "amend", body)
            recorder.trajectory_ended()  # as good a moment to hand over: here, no trajectory may ever end
    except ConfigError:
        recorder.refuse_score(step)
    except Exception:
        caught("amend_transition")


def _id(target: Any) -> bytes:
    if isinstance(target, str):
        return target_of(target).trajectory_id
    raise ConfigError(
        f"amend_transition knows a trajectory by its id, 32 hexadecimal digits, or its handle, not {target!r:.80}"
    )
