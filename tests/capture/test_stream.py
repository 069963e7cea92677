"""What is recorded of a traced generator: its items, its end, and whose children its ops are."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from rolltrace import rollout_trace_attr, rollout_trace_op
from rolltrace.capture import scope
from rolltrace.testing import Recording, recording


class Odd(Exception):
    """Thrown into generators."""


@rollout_trace_op
def tokens(n: int) -> Any:
    for i in range(n):
        yield {"token": i}
    return "done"


def test_items_and_the_returned_value_are_recorded(traced: Recording) -> None:
    assert list(tokens(2)) == [{"token": 0}, {"token": 1}]
    assert traced.op.outputs == {
        "items": [{"token": 0}, {"token": 1}], "count": 2, "end": "exhausted", "return": "done",
    }  # fmt: skip


def test_items_over_the_limit_are_counted() -> None:
    with recording(max_stream_items=2) as traced:
        list(tokens(5))
    assert traced.op.outputs["items"] == [{"token": 0}, {"token": 1}]
    assert traced.op.outputs["count"] == 5


def test_items_over_the_size_limit_are_counted() -> None:
    @rollout_trace_op
    def large() -> Iterator[str]:
        for _ in range(5):
            yield "x" * 600

    with recording(max_bytes=1300) as traced:
        list(large())
    assert [len(item) for item in traced.op.outputs["items"]] == [600, 600]
    assert (traced.op.outputs["count"], traced.recorder.cuts) == (5, 1)


def test_a_limit_on_containers_does_not_reach_the_list_of_items() -> None:
    with recording(max_items=1) as traced:
        list(tokens(3))
    assert len(traced.op.outputs["items"]) == 3


def test_a_closed_generator_ends_well(traced: Recording) -> None:
    stream = tokens(5)
    next(stream)
    stream.close()
    assert (traced.op.status, traced.op.outputs["end"], traced.op.outputs["count"]) == ("ok", "closed", 1)


def test_a_forgotten_generator_ends_well(traced: Recording) -> None:
    for _ in tokens(5):
        break
    gc.collect()
    assert traced.op.outputs["end"] == "closed"


def test_a_generator_never_started_is_not_recorded(traced: Recording) -> None:
    tokens(5).close()
    assert traced.records == []


def test_a_generator_that_raises_keeps_the_items_before(traced: Recording) -> None:
    @rollout_trace_op
    def translates() -> Iterator[int]:
        try:
            yield 1
        except Odd as odd:
            raise KeyError("translated") from odd

    stream: Any = translates()
    next(stream)
    with pytest.raises(KeyError):
        stream.throw(Odd("x"))
    assert (traced.op.status, traced.op.outputs) == ("error", {"items": [1], "count": 1, "end": "raised"})
    assert traced.op.error is not None
    assert "Odd: x" in traced.op.error.traceback


def test_items_are_recorded_as_they_were_when_they_went_by(traced: Recording) -> None:
    @rollout_trace_op
    def grow(start: list[int]) -> Iterator[list[int]]:
        start.append(1)
        yield start
        start.append(2)
        yield start

    for each in grow([0]):
        each.append(99)
    assert traced.op.inputs == {"start": [0]}
    assert traced.op.outputs["items"] == [[0, 1], [0, 1, 99, 2]]


def test_outputs_false_keeps_neither_items_nor_the_returned_value(traced: Recording) -> None:
    list(rollout_trace_op(outputs=False)(tokens.__wrapped__)(2))
    assert traced.op.outputs == {"items": [None, None], "count": 2, "end": "exhausted", "return": None}


def test_the_consumers_ops_are_not_children_of_the_generator(traced: Recording) -> None:
    step = rollout_trace_op(lambda: None)

    @rollout_trace_op(name="stream")
    def stream() -> Iterator[int]:
        rollout_trace_op(name="inside")(lambda: None)()
        yield 1

    for _ in stream():
        step()
    parents = {op.name.rpartition(".")[2]: op.parent_id for op in traced.ops}
    ids = {op.name: op.op_id for op in traced.ops}
    assert parents == {"inside": ids["stream"], "<lambda>": 0, "stream": 0}


@pytest.mark.parametrize("trace", [True, False])
def test_a_trajectory_begun_in_a_generator_lasts_over_its_yields(traced: Recording, trace: bool) -> None:
    step = rollout_trace_op(name="step")(lambda where: None)

    @rollout_trace_op(name="stream")
    def stream() -> Iterator[None]:
        with rollout_trace_attr(sample_index=7, trace=trace):
            yield
            step("inside")
            yield
        step("behind")

    for _ in stream():
        step("consumer")
    found = {(op.inputs["where"], op.coordinates.sample_index) for op in traced.ops if op.name == "step"}
    assert found == {("consumer", None), ("behind", None)} | ({("inside", 7)} if trace else set())
    assert scope.current.get() is None


def test_interleaved_generators_do_not_mix_their_scopes(traced: Recording) -> None:
    inside = rollout_trace_op(name="inside")(lambda which: which)

    @rollout_trace_op(name="stream")
    def stream(which: str) -> Iterator[str]:
        while True:
            yield inside(which)

    a, b = stream("a"), stream("b")
    for each in (a, b, b, a):
        next(each)
    a.close()
    b.close()
    owners = {op.op_id: op.inputs["which"] for op in traced.ops if op.name == "stream"}
    assert all(owners[op.parent_id] == op.inputs["which"] for op in traced.ops if op.name == "inside")
    assert scope.current.get() is None


def test_a_context_manager_can_be_made_of_a_traced_generator(traced: Recording) -> None:
    @contextlib.contextmanager
    @rollout_trace_op(name="session")
    def session() -> Iterator[str]:
        try:
            yield "open"
        except Odd:
            pass  # a manager may swallow

    with session() as state:
        assert state == "open"
        raise Odd
    assert traced.op.outputs == {"items": ["open"], "count": 1, "end": "exhausted"}


async def test_an_async_context_manager_can_be_made_of_a_traced_generator(traced: Recording) -> None:
    @contextlib.asynccontextmanager
    @rollout_trace_op(name="session")
    async def session() -> AsyncIterator[str]:
        yield "open"

    odd = Odd("mine")
    with pytest.raises(Odd) as told:
        async with session():
            raise odd
    assert told.value is odd
    assert (traced.op.status, traced.op.outputs["end"]) == ("error", "raised")


async def test_an_async_generator_cancelled_while_it_waits_is_cancelled(traced: Recording) -> None:
    @rollout_trace_op
    async def stream() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    async def consume() -> None:
        async for _ in stream():
            pass

    task = asyncio.create_task(consume())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (traced.op.status, traced.op.outputs["items"]) == ("cancelled", [1])


async def test_an_async_generator_closed_by_another_task_ends_well(traced: Recording) -> None:
    @rollout_trace_op
    async def stream() -> AsyncIterator[int]:
        yield 1

    made: Any = stream()
    await anext(made)
    await asyncio.create_task(made.aclose())
    assert traced.op.outputs["end"] == "closed"
    assert scope.current.get() is None


def test_an_async_generator_forgotten_by_its_task_is_closed_and_recorded(traced: Recording) -> None:
    @rollout_trace_op
    async def stream() -> AsyncIterator[int]:
        yield 1

    async def main() -> None:
        async for _ in stream():
            break
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    gc.collect()
    assert traced.op.outputs["end"] == "closed"
