"""What MLflow says of a trace besides its spans: tags to filter by, previews, the run, rewards as feedback."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mlflow.entities import AssessmentSource, Feedback, TraceInfo, TraceLocation, TraceState

from rolltrace.backends.mlflow.spans import mlflow_usage, trace_id_of
from rolltrace.backends.values import cut, plain, strict_json, view_link

if TYPE_CHECKING:
    from rolltrace.query import Trajectory

_LONGEST_PREVIEW = 1000
_LONGEST_NAME = 250
_LONGEST_TAG = 4096
RUN = "mlflow.sourceRun"
"""What ties a trace to a run."""
SOURCE = AssessmentSource("CODE", "rolltrace")
"""Who says so: feedback from anybody else is left alone."""


def info_of(trajectory: Trajectory, experiment_id: str, run_id: str) -> TraceInfo:
    """All about the trace but its spans."""
    asked, answered = _previews(trajectory)
    usage = trajectory.usage
    return TraceInfo(
        trace_id=trace_id_of(trajectory.trajectory_id),
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=trajectory.start_ns // 1_000_000,
        execution_duration=(trajectory.last_ns - trajectory.start_ns) // 1_000_000,
        state=TraceState.OK if trajectory.status == "ok" else TraceState.ERROR,
        request_preview=asked,
        response_preview=answered,
        client_request_id=trajectory.trajectory_id,
        trace_metadata={
            RUN: run_id,
            "mlflow.source.name": "rolltrace",
            **({} if usage is None else {"mlflow.trace.tokenUsage": strict_json(mlflow_usage(usage))}),
        },
        tags=_tags(trajectory),
        assessments=list({each.assessment_id: each for each in _feedback(trajectory)}.values()),
    )


def _previews(trajectory: Trajectory) -> tuple[str | None, str | None]:
    """What was asked and what was answered, for the columns of MLflow's list."""
    messages = trajectory.conversation
    asked = next((each.get("content") for each in messages if each.get("role") == "user"), None)
    answered = next((each.get("content") for each in reversed(messages) if each.get("role") == "assistant"), None)
    if trajectory.ops:
        asked = trajectory.ops[0].inputs if asked is None else asked
        answered = trajectory.ops[-1].outputs if answered is None else answered
    return _preview(asked), _preview(answered)


def _preview(value: Any) -> str | None:
    return None if value is None else cut(value if isinstance(value, str) else strict_json(value), _LONGEST_PREVIEW)


def _tags(trajectory: Trajectory) -> dict[str, str]:
    """Ours, and the user's own where their names are free. The coordinates read as verl's tracing writes them."""
    ours = {
        "mlflow.traceName": trajectory.name,
        **trajectory.coordinates,
        "experiment_name": trajectory.experiment,
        "worker": trajectory.worker,
        "pruned": None if trajectory.pruned is None else str(trajectory.pruned),
        "flags": ",".join(trajectory.flags) or None,
        "rolltrace.status": trajectory.status,
        "rolltrace.trajectory_id": trajectory.trajectory_id,
        "rolltrace.url": view_link(trajectory.trajectory_id),
        "rolltrace.parent_trajectory_id": trajectory.parent_trajectory_id,
    }
    users = {
        f"tag.{key}" if key in ours or key.startswith(("mlflow.", "rolltrace.")) else key: value
        for key, value in trajectory.tags.items()
    }
    return {
        cut(key, _LONGEST_NAME): cut(str(plain(value)), _LONGEST_TAG)
        for key, value in {**users, **ours}.items()
        if value is not None
    }


def _feedback(trajectory: Trajectory) -> Iterator[Feedback]:
    """The newest score of each name, and its terms as `NAME/TERM`."""
    newest = trajectory.newest_scores
    for name, score in newest.items():
        terms = score["terms"]
        for term, part in terms.items() if isinstance(terms, dict) else ():
            if part is not None:
                yield _one(trajectory, f"{name}/{term}", part, score, {})
    for name, score in newest.items():  # after the terms: one may have the name of another's term
        value, label = score["value"], score.get("label")
        also = {} if value is None or label is None else {"label": label}
        if value is not None or label is not None:
            yield _one(trajectory, name, label if value is None else value, score, also)


def _one(trajectory: Trajectory, name: str, value: Any, score: Mapping[str, Any], also: dict[str, str]) -> Feedback:
    time_ms = score["time_ns"] // 1_000_000
    feedback = Feedback(
        name=cut(name, _LONGEST_NAME),
        value=plain(value),
        source=SOURCE,
        trace_id=trace_id_of(trajectory.trajectory_id),
        rationale=score.get("reason"),
        metadata=also or None,
        create_time_ms=time_ms,
        last_update_time_ms=time_ms,
    )
    # Its id says which score it is, so a newer value takes its place.
    feedback.assessment_id = (
        "a-" + hashlib.blake2b(f"{trajectory.trajectory_id}/{name}".encode(), digest_size=16).hexdigest()
    )
    return feedback
