"""Beginnings and ends: each op that starts has an end, whatever happens between."""

import asyncio
import contextlib
import os
import threading
from typing import Any

import pytest

import rolltrace
from rolltrace import rollout_trace_attr, rollout_trace_op
from rolltrace.capture import scope
from rolltrace.record import NOTHING, OpEnd, OpStart, TrajectoryEnd, TrajectoryStart
from rolltrace.testing import Recording


class Pause:
    """One await point that nobody else can reach."""

    def __await__(self) -> Any:
        yield


@rollout_trace_op
async def call_tool(name: str) -> str:
    await Pause()
    try:
        await Pause()
    finally:
        tidy()
    return name


@rollout_trace_op
def tidy() -> None: ...


@rollout_trace_op
async def generate(prompt: list[str]) -> Any:
    prompt.append("mutated")
    for token in range(3):
        await Pause()
        yield token


@rollout_trace_op
async def rollout(messages: list[str]) -> list[str]:
    async with rollout_trace_attr(name="sub-agent"), contextlib.aclosing(generate(messages)) as tokens:
        async for token in tokens:
            answer = await call_tool(str(token))
            messages.append(answer)
    await Pause()
    return messages


async def whole_rollout() -> list[str]:
    async with rollout_trace_attr(sample_index=1, step=2):
        return await rollout(["q"])


def await_points() -> int:
    running, points = whole_rollout(), 0
    try:
        while True:
            running.send(None)
            points += 1
    except StopIteration:
        return points


POINTS = await_points()


def test_there_are_points_to_cancel_at() -> None:
    assert POINTS == 10


@pytest.mark.parametrize("point", range(1, POINTS + 1))
def test_cancelled_at_any_await_every_op_has_an_end(traced: Recording, point: int) -> None:
    running = whole_rollout()
    for _ in range(point):
        running.send(None)
    with pytest.raises(asyncio.CancelledError) as told:
        running.throw(asyncio.CancelledError("stop"))
    assert told.value.args == ("stop",)

    records = traced.records
    started = {each.op_id for each in records if isinstance(each, OpStart)}
    ended = {each.op_id for each in records if isinstance(each, OpEnd)}
    assert started == ended
    begun = [each.trajectory_id for each in records if isinstance(each, TrajectoryStart)]
    over = [each.trajectory_id for each in records if isinstance(each, TrajectoryEnd)]
    assert sorted(begun) == sorted(over)
    top = traced.ops[-1]
    assert (top.name, top.status, top.inputs) == ("rollout", "cancelled", {"messages": ["q"]})
    assert traced.trajectories[-1].status == "cancelled"
    assert scope.current.get() is None


async def test_a_cancelled_task_ends_its_span_and_its_childrens(traced: Recording) -> None:
    @rollout_trace_op(name="inner")
    async def inner() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(rollout_trace_op(name="outer")(inner)())
    await asyncio.sleep(0)
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(op.name, op.status) for op in traced.ops] == [("inner", "cancelled"), ("outer", "cancelled")]


async def test_a_timeout_is_cancelled_inside_and_an_error_outside(traced: Recording) -> None:
    @rollout_trace_op(name="slow")
    async def slow() -> None:
        await asyncio.Event().wait()

    @rollout_trace_op(name="patient")
    async def patient() -> None:
        await asyncio.wait_for(slow(), 0.001)

    with pytest.raises(asyncio.TimeoutError):
        await patient()
    assert [(op.name, op.status) for op in traced.ops] == [("slow", "cancelled"), ("patient", "error")]


async def test_an_op_that_swallows_its_cancellation_is_fine(traced: Recording) -> None:
    @rollout_trace_op
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "anyway"
        return ""

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "anyway"
    assert (traced.op.status, traced.op.outputs) == ("ok", "anyway")


def test_a_coroutine_that_is_closed_unfinished_is_cancelled(traced: Recording) -> None:
    running = call_tool("x")
    running.send(None)
    running.close()
    assert traced.ops[-1].status == "cancelled"


def test_small_inputs_are_in_the_start_and_large_ones_only_in_the_end(traced: Recording) -> None:
    echo = rollout_trace_op(name="echo")(lambda text: None)
    echo("small")
    echo("x" * 10_000)
    small, large = (each for each in traced.records if isinstance(each, OpStart))
    assert small.inputs != NOTHING
    assert large.inputs == NOTHING
    assert traced.ops[1].inputs == {"text": "x" * 10_000}


def test_the_thread_is_named_unless_it_is_the_main_one(traced: Recording) -> None:
    thread = threading.Thread(target=tidy, name="worker-7")
    thread.start()
    thread.join()
    tidy()
    assert [op.thread for op in traced.ops] == ["worker-7", ""]


def test_an_op_that_shutdown_overtook_does_not_raise(tmp_path: Any) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    assert rollout_trace_op(lambda: rolltrace.shutdown() or 5)() == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_end_its_parents_ops(tmp_path: Any) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    reader, writer = os.pipe()

    @rollout_trace_op
    def forks() -> int:
        return os.fork()

    if forks() == 0:
        os.write(writer, str(rolltrace.stats().records).encode())
        os._exit(0)
    os.wait()
    assert os.read(reader, 9) == b"0"
    os.close(reader)
    os.close(writer)
    assert rolltrace.stats().records == 2


@pytest.mark.parametrize("how", ["return", "raise"])
def test_what_is_recorded_is_what_was_there_before_the_op_changed_it(traced: Recording, how: str) -> None:
    @rollout_trace_op
    def f(messages: list[str]) -> list[str]:
        messages.append("late")
        if how == "raise":
            raise ValueError
        return messages

    try:
        f(["early"]).append("later")
    except ValueError:
        pass
    assert traced.op.inputs == {"messages": ["early"]}
    assert traced.op.outputs == (["early", "late"] if how == "return" else None)


async def test_a_cancelled_op_that_changed_its_inputs_keeps_the_former_ones(traced: Recording) -> None:
    @rollout_trace_op
    async def f(messages: list[str]) -> None:
        messages.append("late")
        await asyncio.Event().wait()

    task = asyncio.create_task(f(["early"]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (traced.op.inputs, traced.op.status) == ({"messages": ["early"]}, "cancelled")
