"""Words about a trajectory from anywhere, long after it ended: `score`, and `amend_transition` for one of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.trajectory import TrajectoryHandle
from rolltrace.capture.transition import amendment_body
from rolltrace.errors import ConfigError
from rolltrace.record import Event, clean_text, encode_record, score_body, target_of

_LAST = -1

Target = str | TrajectoryHandle | tuple[Any, Any, Any] | tuple[Any, Any, Any, bool]


def score(
    target: Target,
    name: str,
    value: Any,
    *,
    terms: Mapping[str, Any] | None = None,
    reason: str | None = None,
    trained_step: int | None = None,
) -> None:
    """Give a trajectory a score, from any process in which tracing is on: `score((step, 7, 0), "advantage", 0.3)`.

    It joins its trajectory when somebody reads; the newest of a name counts, all are kept. One for a trajectory that
    nobody traced is kept too, and shown as such. While tracing is off nothing happens, and a call that makes no sense
    does not stop a training run: a warning names its line, it is counted under `refused_score`, which `rolltrace stats`
    and `doctor` show, and it is raised only with `ROLLTRACE_STRICT=1`.

    Args:
        target: The id of a trajectory, its handle, or its coordinates: `(step, sample_index, rollout_n)`, then
            `validate` if it is a validation rollout. Of several with the same coordinates, the one that began last
            before the score was given.
        name: `reward`, `advantage`, `fate` (`"trained"` or `"filtered"`), `note`, or any other.
        value: A number, a NumPy or torch scalar, None, or text, which becomes a label; `reward` and `advantage` are
            numbers.
        terms: The parts it is made of.
        reason: Why.
        trained_step: Of a fate, the step that trained on it: with asynchronous training it is not that of the rollout.
    """
    recorder = scope.recorder
    if recorder is None:
        return
    step: int | None = None
    try:
        body = score_body(value, terms, reason, name=name, trained_step=trained_step)
        if isinstance(target, TrajectoryHandle):
            if not target.traced:
                return
            trace_id, coordinates, step = target.trace_id, target.coordinates, target.step
        else:
            trace_id, where = target_of(target)
            coordinates, step = Raw(encode_record(where)), where.step
        raw = Raw(recorder.snapshot({"name": clean_text(name), **body}))
        time_ns = recorder.score_ns(recorder.wall_ns())
        recorder.write(Event(trace_id, coordinates, "score", time_ns, 0, raw), step)
        recorder.trajectory_ended()  # as good a moment to hand over: here, no trajectory may ever end
    except ConfigError:
        recorder.refuse_score(step)
    except Exception:
        caught("score")


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
