"""A trajectory as spans: a root for itself, one for each op, one for each score that came after its end.

Ids are ours: the trace id is the trajectory's, a span id the op's. So a repeat has the same ids.
Children stand before their parents, the root last: then a receiver that looks at the root has seen the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rolltrace._own_spans import root_id, score_id
from rolltrace.backends.otlp.attributes import coordinates, error_type, of_op, of_score, of_trajectory, whole_scores
from rolltrace.backends.otlp.wire import CLIENT, ERROR, INTERNAL, OK, Attributes, Event, Link, SentSpan, Value
from rolltrace.backends.values import strict_json, word
from rolltrace.query import Op, Trajectory
from rolltrace.record import MODEL_KINDS

CUT = "... [cut by rolltrace, {} bytes in all]"
_ELSEWHERE = ("time_ns", "op_id", "amends")


def spans_of(trajectory: Trajectory, *, longest: int, mlflow: bool = False) -> Iterator[SentSpan]:
    """All spans of a trajectory.

    Attributes of more than `longest` bytes are cut, with a mark. `mlflow`: the coordinates are also MLflow's tags.
    """
    where = coordinates(trajectory)
    for op in trajectory.ops:
        yield from _ops(op, root_id(trajectory.trajectory_id), trajectory.trajectory_id, where, longest)
    yield from root_and_scores(trajectory, longest=longest, mlflow=mlflow)


def root_and_scores(trajectory: Trajectory, *, longest: int, mlflow: bool = False) -> Iterator[SentSpan]:
    """What changes when a score comes late: a span for it, and the root with its newest values."""
    where = coordinates(trajectory)
    last_ns = trajectory.last_ns
    for score in trajectory.scores:
        if score["time_ns"] > last_ns:
            yield _score(trajectory.trajectory_id, score, where, longest)
    in_time = [score for score in trajectory.scores if score["time_ns"] <= last_ns]
    attributes = {**where, **of_trajectory(trajectory), **whole_scores(in_time)}
    if mlflow:
        tags = {**where, "rl.experiment_name": trajectory.experiment}
        attributes.update({f"mlflow.traceTag.{name[3:]}": word(value) for name, value in tags.items()})
    parent = trajectory.parent_trajectory_id
    yield SentSpan(
        bytes.fromhex(trajectory.trajectory_id),
        root_id(trajectory.trajectory_id),
        b"",
        trajectory.name,
        INTERNAL,
        trajectory.start_ns,
        last_ns,
        cut(attributes, longest),
        [*_exception(trajectory, longest), *_events(trajectory, longest)],
        [Link(bytes.fromhex(parent), _op_id(trajectory.parent_op_id or 0))] if parent else (),
        *_status(trajectory),
    )


def _ops(op: Op, parent: bytes, trajectory_id: str, where: Attributes, longest: int) -> Iterator[SentSpan]:
    own = _op_id(op.op_id)
    for child in op.children:
        yield from _ops(child, own, trajectory_id, where, longest)
    yield SentSpan(
        bytes.fromhex(trajectory_id),
        own,
        parent,
        op.name,
        CLIENT if op.kind in MODEL_KINDS else INTERNAL,
        op.start_ns,
        op.last_ns,
        cut({**where, **of_op(op)}, longest),
        _exception(op, longest),
        (),
        *_status(op),
    )


def _score(trajectory_id: str, score: Mapping[str, Any], where: Attributes, longest: int) -> SentSpan:
    """A score that came when the trajectory was over: some receivers never change a span that they have."""
    name, time_ns, values = str(score["name"]), score["time_ns"], of_score(score)
    key = "rl.reward" if name == "reward" else f"rl.score.{name}"
    attributes: dict[str, Any] = {
        "openinference.span.kind": "EVALUATOR",
        "rl.kind": "score",
        "gen_ai.evaluation.name": name,
        "gen_ai.evaluation.score.value": values.get(key),
        "gen_ai.evaluation.score.label": values.get(f"{key}_text"),
        "gen_ai.evaluation.explanation": str(score["reason"]) if score.get("reason") else None,
    }
    told = {name: value for name, value in attributes.items() if value is not None}
    return SentSpan(
        bytes.fromhex(trajectory_id),
        score_id(trajectory_id, name, time_ns),
        root_id(trajectory_id),
        f"score {name}",
        INTERNAL,
        time_ns,
        time_ns,
        cut({**where, **told, **values, **whole_scores([score])}, longest),
    )


def _op_id(op_id: int) -> bytes:
    return (op_id & (2**64 - 1) or 1).to_bytes(8, "big")


def _status(ended: Op | Trajectory) -> tuple[int, str]:
    return (OK, "") if ended.status == "ok" else (ERROR, (ended.error or ended.status)[:4096])


def _exception(ended: Op | Trajectory, longest: int) -> list[Event]:
    if ended.error is None:
        return []
    attributes: dict[str, Value] = {
        "exception.type": error_type(ended),
        "exception.message": ended.error.partition(": ")[2],
    }
    if ended.traceback:
        attributes["exception.stacktrace"] = ended.traceback
    return [Event(ended.last_ns, "exception", cut(attributes, longest))]


def _events(trajectory: Trajectory, longest: int) -> Iterator[Event]:
    """Environment steps and notes, as events of the root."""
    for step in trajectory.transitions:
        fields = {name: value for name, value in step.items() if value not in (None, []) and name not in _ELSEWHERE}
        yield Event(step.time_ns, "rl.transition", cut({f"rl.{k}": _plain(v) for k, v in fields.items()}, longest))
    for note in trajectory.notes:
        yield Event(note.time_ns, f"rl.{note.event}", cut({"rl.body": _plain(note.body)}, longest))


def _plain(value: Any) -> Value:
    return value if isinstance(value, str | bool) else strict_json(value)


def cut(attributes: Attributes, longest: int) -> dict[str, Value]:
    """The attributes with none longer than so many bytes; `rl.cut` names those that were."""
    fitting: dict[str, Value] = dict(attributes)
    short = []
    for name, value in attributes.items():
        if isinstance(value, str) and len(value) > longest // 4:
            data = value.encode("utf-8", "replace")
            if len(data) > longest:
                fitting[name] = data[:longest].decode("utf-8", "ignore") + CUT.format(len(data))
                short.append(name)
    if short:
        fitting["rl.cut"] = short
    return fitting
