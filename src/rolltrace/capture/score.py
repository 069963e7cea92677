"""`score`: say something about a trajectory from anywhere, long after it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.trajectory import TrajectoryHandle
from rolltrace.errors import ConfigError
from rolltrace.record import Event, clean_text, encode_record, score_body, target_of

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
