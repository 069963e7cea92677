"""Rows of a batched call: several trajectories open at once in one thread, each with ops of its own."""

import asyncio

from rolltrace import rollout_trace_attr, rollout_trace_op
from rolltrace.capture import BatchRow, scope
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
    later.gave(None)
    span.gave({"response_ids": [3]})
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
    span.gave(1)
    row.run(look, 1)
    row.close()
    assert traced.ops == []
    assert traced.trajectories == []
