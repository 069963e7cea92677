"""Rows of a batched call, open side by side in one thread, and trajectories that somebody else timed."""

import asyncio

from rolltrace import rollout_trace_attr, rollout_trace_op, score
from rolltrace.capture import BatchRow, ToldTrajectory, scope
from rolltrace.record import Coordinates, Error
from rolltrace.testing import Recording


@rollout_trace_op(kind="tool")
def look(where: int) -> int:
    return where


def test_rows_are_open_side_by_side_and_leave_the_caller_where_it_was(traced: Recording) -> None:
    rows = [BatchRow(rollout_trace_attr(number)) for number in range(3)]
    assert scope.current.get() is None
    for number in (2, 0, 1):
        assert rows[number].run(look, number) == number
    for row in rows:
        row.close()
    assert [each.coordinates.sample_index for each in traced.trajectories] == [0, 1, 2]
    outputs = {op.trajectory_id: op.outputs for op in traced.ops}
    assert [outputs[each.id] for each in traced.trajectories] == [0, 1, 2]


def test_an_op_ends_when_it_stopped_and_not_when_its_result_is_known(traced: Recording) -> None:
    row = BatchRow(rollout_trace_attr(7))
    span = row.begin("generate", "llm", {"prompt_ids": [1, 2]})
    span.stop()
    later = row.begin("later", "other", None)
    later.stop()
    later.returned(None)
    span.returned({"response_ids": [3]})
    row.close()
    after, first = traced.ops
    assert first.name == "generate"
    assert first.end_ns <= after.start_ns
    assert first.inputs == {"prompt_ids": [1, 2]}
    assert first.outputs == {"response_ids": [3]}


def test_a_failure_ends_the_op_and_the_row(traced: Recording) -> None:
    row = BatchRow(rollout_trace_attr(7))
    failure = KeyError("gone")
    row.begin("generate", "llm", None).failed(failure)
    row.close(failure)
    (op,), (trajectory,) = traced.ops, traced.trajectories
    assert (op.status, trajectory.status) == ("error", "error")


def test_a_task_of_another_loop_can_be_inside_a_row(traced: Recording) -> None:
    row = BatchRow(rollout_trace_attr(7))

    async def work() -> None:
        row.enter()
        look(1)

    asyncio.run(work())
    assert scope.current.get() is None
    row.close()
    assert traced.ops[0].trajectory_id == traced.trajectories[0].id


def test_nothing_is_recorded_of_a_row_that_is_not_traced(traced: Recording) -> None:
    row = BatchRow(rollout_trace_attr(7, trace=False))
    span = row.begin("generate", "llm", None)
    span.stop()
    span.returned(1)
    row.run(look, 1)
    row.close()
    assert traced.ops == []
    assert traced.trajectories == []


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
