"""Trajectories that somebody else timed."""

from rolltrace import score
from rolltrace.capture import ToldTrajectory, scope
from rolltrace.record import Coordinates, Error
from rolltrace.testing import Recording

ID = bytes(range(16))
WHERE = Coordinates(3, "gsm8k/7", 1, True)


def test_times_ids_and_parents_are_as_they_were_told(traced: Recording) -> None:
    trajectory = ToldTrajectory(ID, WHERE, "agent", 1_000, {"env": "gsm8k"})
    phase = trajectory.reserve()
    trajectory.op("generate", "llm", 1_100, 1_200, {"prompt_ids": [1]}, {"response_ids": [2]}, parent_id=phase)
    trajectory.op("agent", "other", 1_050, 1_300, op_id=phase)
    score(trajectory.handle, "reward", 1.0)
    trajectory.end(1_400)
    inner, outer = traced.ops
    assert (inner.start_ns, inner.end_ns, inner.parent_id) == (1_100, 1_200, outer.op_id)
    assert (inner.inputs, inner.outputs) == ({"prompt_ids": [1]}, {"response_ids": [2]})
    (whole,) = traced.trajectories
    assert (whole.id, whole.start_ns, whole.end_ns, whole.status) == (ID.hex(), 1_000, 1_400, "ok")
    assert whole.coordinates == WHERE
    assert whole.tags == {"env": "gsm8k"}


def test_a_failure_is_told_in_its_own_words(traced: Recording) -> None:
    trajectory = ToldTrajectory(ID, WHERE, "agent", 1_000)
    error = Error("TaskError", "no box", "Traceback ...")
    trajectory.op("generate", "llm", 1_100, 1_200, status="error", error=error)
    trajectory.end(1_300, "error", error)
    assert [each.error for each in (*traced.ops, *traced.trajectories)] == [error, error]


def test_nothing_is_recorded_while_tracing_is_off() -> None:
    assert scope.recorder is None
    trajectory = ToldTrajectory(ID, WHERE, "agent", 1_000)
    assert trajectory.reserve() == 0
    trajectory.op("generate", "llm", 1_100, 1_200)
    trajectory.end(1_300)
    assert not trajectory.handle.traced
