"""`trackio`: trajectories as traces in Trackio's local folder (TRACKIO_DIR), where its dashboard shows them.

Written with the function that Trackio's own runs write with, because it takes ids: the log id of a trace is our
trajectory id. A trace that is there already is replaced.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import xxhash
from trackio import Trace
from trackio.sqlite_storage import SQLiteStorage

from rolltrace.backends.backend import Refused, convert_each
from rolltrace.backends.values import iso_time, view_link, word
from rolltrace.errors import BackendError
from rolltrace.query import Op, Trajectory

KEY = "rollout_trace"
"""What the traces are called in Trackio."""
_KINDS = {"llm": "generation", "aux_llm": "generation", "tool": "tool"}
_DEEPEST = 100
_MAX_DECIMAL_LENGTH = 4096
"""Bits of an integer that Python writes as decimals, whatever its settings."""

Run = tuple[str, str]
"""Project and experiment."""


class TrackioBackend:
    """Writes to this machine's Trackio. See docs/howto/trackio.md."""

    def __init__(self) -> None:
        for variable in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
            if os.environ.get(variable):
                raise BackendError(
                    f"{variable} is set, and rolltrace writes to Trackio's local folder; unset it for the process that "
                    "traces, and send the project there with `trackio sync`"
                )

    def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
        """Write a trace for each."""
        runs: dict[Run, dict[str, Trajectory]] = {}
        for each in trajectories:
            runs.setdefault((each.project, each.experiment), {})[each.trajectory_id] = each
        refused: dict[str, str] = {}
        for (project, experiment), of_run in runs.items():
            _write(project, experiment, list(convert_each(of_run.values(), trace_of, refused)))
        return [Refused(*each) for each in refused.items()]

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        """Write them anew, with their newest scores."""
        self.send(trajectories)

    def close(self) -> None:
        """There is no connection to close."""


def _write(project: str, experiment: str, traces: list[tuple[Trajectory, dict[str, Any]]]) -> None:
    if not traces:
        return
    trajectories = [each for each, _ in traces]
    try:
        SQLiteStorage.validate_project_name(project)
    except ValueError as error:
        raise BackendError(f"Trackio does not accept this project name: {error}") from error
    SQLiteStorage.init_db(project)
    run_id = _make_room(project, experiment, [each.trajectory_id for each in trajectories])
    SQLiteStorage.bulk_log(
        project=project,
        run=experiment,
        run_id=run_id,
        metrics_list=[{KEY: trace} for _, trace in traces],
        steps=[each.step or 0 for each in trajectories],
        timestamps=[iso_time(each.start_ns) for each in trajectories],
        log_ids=[each.trajectory_id for each in trajectories],
    )


def _make_room(project: str, experiment: str, trajectory_ids: list[str]) -> str:
    """Remove older traces of these; Trackio would keep them. Gives the id of the run that they belong to.

    That is the run that has traces of ours already, else the one that the trainer logs to under the experiment's name,
    else one of our own.
    """
    marks = ", ".join("?" * len(trajectory_ids))
    with closing(sqlite3.connect(SQLiteStorage.get_project_db_path(project), timeout=30)) as database, database:
        question = "SELECT run_id FROM traces WHERE run_name = ? AND key = ? LIMIT 1"
        ours = database.execute(question, (experiment, KEY)).fetchone()
        for table in ("traces", "metrics"):
            database.execute(f"DELETE FROM {table} WHERE log_id IN ({marks})", trajectory_ids)
    if ours is not None:
        return str(ours[0])
    trainers = SQLiteStorage.get_latest_run_record_by_name(project, experiment)
    if trainers is not None and trainers.get("id"):
        return str(trainers["id"])
    return f"rolltrace-{xxhash.xxh3_64_hexdigest(f'{project}/{experiment}'.encode('utf-8', 'replace'))}"


def trace_of(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as Trackio keeps a trace: messages, what is known about it, and a span for each op."""
    trace = Trace(
        messages=[_safe(message) for message in trajectory.conversation],
        metadata=_safe(_metadata(trajectory)),
        spans=[_safe(span) for op in trajectory.ops for span in _spans(op, None)],
    )
    return {"_type": Trace.TYPE, "messages": trace.messages, "metadata": trace.metadata, "spans": trace.spans}


def _metadata(trajectory: Trajectory) -> dict[str, Any]:
    scores = trajectory.newest_scores
    reward = scores.get("reward")
    metadata = {
        "trajectory_id": trajectory.trajectory_id,
        "url": view_link(trajectory.trajectory_id),
        "project_name": trajectory.project,
        "experiment_name": trajectory.experiment,
        **trajectory.coordinates,
        "name": trajectory.name,
        "status": "ok" if trajectory.status == "ok" else "error",
        "ended": trajectory.status,
        "error": trajectory.error,
        "duration_ms": None if trajectory.duration_s is None else trajectory.duration_s * 1000,
        "reward": trajectory.reward,
        "reward_terms": None if reward is None else reward.terms or None,
        "scores": {name: score.shown for name, score in scores.items()} or None,
        "flags": trajectory.flags or None,
        "pruned": None if trajectory.pruned is None else str(trajectory.pruned),
        "tags": trajectory.tags or None,
        "policy_version": trajectory.policy_version_max,
        # Trackio searches in values, not in names: `[step=3]` finds step 3 and no other.
        "find": [f"[{name}={word(value)}]" for name, value in trajectory.coordinates.items()],
    }
    return {name: value for name, value in metadata.items() if value is not None}


def _spans(op: Op, parent: str | None) -> list[dict[str, Any]]:
    own = f"{op.op_id:016x}"
    outputs = op.outputs if isinstance(op.outputs, dict) else {}
    inputs = op.inputs if isinstance(op.inputs, dict) else {}
    span = {
        "id": own,
        "parent_id": parent,
        "name": op.name,
        "kind": _KINDS.get(op.kind, "span"),
        "start_time": iso_time(op.start_ns),
        "end_time": None if op.end_ns is None else iso_time(op.end_ns),
        "duration_ms": None if op.duration_s is None else op.duration_s * 1000,
        "status": "ok" if op.status == "ok" else "error",
        "error": op.error or (None if op.status == "ok" else op.status),
        "input": op.inputs,
        "output": op.outputs,
        "model": outputs.get("model") or inputs.get("model"),
        "usage": _usage(op),
        "metadata": {"kind": op.kind, "finish_reason": op.finish_reason, "policy_version": op.policy_version},
    }
    set_fields = {name: value for name, value in span.items() if value is not None}
    return [set_fields, *(each for child in op.children for each in _spans(child, own))]


def _usage(op: Op) -> dict[str, int] | None:
    counts = {
        "input_tokens": op.prompt_tokens,
        "output_tokens": op.response_tokens,
        "cached_tokens": op.cached_tokens,
        "reasoning_tokens": op.reasoning_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None} or None


def _safe(value: Any, depth: int = 0) -> Any:
    """A value that Trackio's JSON takes: it has no integers over 64 bits and no more than some hundred levels."""
    if isinstance(value, dict | list) and depth > _DEEPEST:
        return str(value)
    if isinstance(value, dict):
        return {str(key): _safe(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_safe(item, depth + 1) for item in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        return str(value) if value.bit_length() < _MAX_DECIMAL_LENGTH else hex(value)
    return value
