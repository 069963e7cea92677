"""To its consumer, a traced generator behaves as the plain one: compared, scenario by scenario."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolltrace import rollout_trace_op
from rolltrace.capture import scope
from rolltrace.testing import Recording, recording


class Odd(Exception):
    """Thrown into generators."""


def plain(log: list[Any]) -> Any:
    log.append((yield 1))
    log.append((yield 2))
    return "value"


def catches(log: list[Any]) -> Any:
    for i in range(4):
        try:
            log.append((yield i))
        except Odd as odd:
            log.append(f"caught {odd}")
    return len(log)


def translates(log: list[Any]) -> Any:
    try:
        yield 1
    except Odd as odd:
        raise KeyError("translated") from odd
    finally:
        log.append("cleaned")


def ignores_close(log: list[Any]) -> Any:
    try:
        yield 1
    except GeneratorExit:
        log.append("ignored")
    yield 2
    yield 3


def returns_on_close(log: list[Any]) -> Any:
    try:
        yield 1
    except GeneratorExit:
        return "closed"


def raises_at_once(log: list[Any]) -> Any:
    raise ValueError("at once")
    yield


def raises_stop(log: list[Any]) -> Any:
    yield 1
    raise StopIteration("by hand")


def delegates(log: list[Any]) -> Any:
    return (yield from rollout_trace_op(catches)(log))


BODIES = [plain, catches, translates, ignores_close, returns_on_close, raises_at_once, raises_stop, delegates]
ACTIONS = ["next", "send", "throw Odd", "throw StopIteration", "throw GeneratorExit", "close"]


def act(stream: Any, action: str) -> Any:
    verb, _, what = action.partition(" ")
    if verb == "next":
        return next(stream)
    if verb == "send":
        return stream.send("sent")
    if verb == "throw":
        return stream.throw({"Odd": Odd, "StopIteration": StopIteration, "GeneratorExit": GeneratorExit}[what]("t"))
    return stream.close()


def shape_of(failure: BaseException | None, depth: int = 3) -> Any:
    if failure is None or depth == 0:
        return None
    return (
        type(failure), failure.args, getattr(failure, "value", None), failure.__suppress_context__,
        shape_of(failure.__cause__, depth - 1), shape_of(failure.__context__, depth - 1),
    )  # fmt: skip


def behaviour(make: Callable[[list[Any]], Any], actions: list[str]) -> list[Any]:
    """Everything a consumer can see."""
    log: list[Any] = []
    stream = make(log)
    for action in [*actions, "close", "close"]:
        try:
            log.append((action, act(stream, action)))
        except BaseException as failure:
            log.append((action, shape_of(failure)))
    return log


@given(body=st.sampled_from(BODIES), actions=st.lists(st.sampled_from(ACTIONS), max_size=6))
def test_a_traced_generator_behaves_as_the_plain_one(body: Any, actions: list[str]) -> None:
    expected = behaviour(body, actions)
    with recording():
        assert behaviour(rollout_trace_op(body), actions) == expected
        assert scope.current.get() is None


async def aplain(log: list[Any]) -> Any:
    try:
        log.append((yield 1))
        await asyncio.sleep(0)
        log.append((yield 2))
    finally:
        await asyncio.sleep(0)
        log.append("cleaned")


async def acatches(log: list[Any]) -> Any:
    for i in range(4):
        try:
            log.append((yield i))
        except Odd as odd:
            await asyncio.sleep(0)
            log.append(f"caught {odd}")


async def atranslates(log: list[Any]) -> Any:
    try:
        yield 1
    except Odd as odd:
        raise KeyError("translated") from odd


async def aignores_close(log: list[Any]) -> Any:
    try:
        yield 1
    except GeneratorExit:
        log.append("ignored")
    yield 2
    yield 3


async def areturns_on_close(log: list[Any]) -> Any:
    try:
        yield 1
    except GeneratorExit:
        await asyncio.sleep(0)
        return


async def araises_at_once(log: list[Any]) -> Any:
    raise ValueError("at once")
    yield


async def araises_stop(log: list[Any]) -> Any:
    yield 1
    raise StopAsyncIteration("by hand")


ASYNC_BODIES = [
    aplain, acatches, atranslates, aignores_close, areturns_on_close, araises_at_once, araises_stop,
]  # fmt: skip


def aact(stream: Any, action: str) -> Any:
    verb, _, what = action.partition(" ")
    if verb == "next":
        return anext(stream)
    if verb == "send":
        return stream.asend("sent")
    if verb == "throw":
        kinds = {"Odd": Odd, "StopIteration": StopAsyncIteration, "GeneratorExit": GeneratorExit}
        return stream.athrow(kinds[what]("t"))
    return stream.aclose()


async def abehaviour(make: Callable[[list[Any]], Any], actions: list[str]) -> list[Any]:
    log: list[Any] = []
    stream = make(log)
    for action in [*actions, "close", "close"]:
        try:
            log.append((action, await aact(stream, action)))
        except BaseException as failure:
            log.append((action, shape_of(failure)))
    return log


@given(body=st.sampled_from(ASYNC_BODIES), actions=st.lists(st.sampled_from(ACTIONS), max_size=6))
def test_a_traced_async_generator_behaves_as_the_plain_one(body: Any, actions: list[str]) -> None:
    expected = asyncio.run(abehaviour(body, actions))
    assert asyncio.run(abehaviour(rollout_trace_op(body), actions)) == expected
    with recording():
        assert asyncio.run(abehaviour(rollout_trace_op(body), actions)) == expected


async def test_closing_an_async_generator_that_runs_elsewhere_fails_as_before(traced: Recording) -> None:
    messages = []
    for wrap in (lambda fn: fn, rollout_trace_op):

        @wrap
        async def stream() -> AsyncIterator[int]:
            await asyncio.sleep(0)
            yield 1

        made: Any = stream()
        running = asyncio.ensure_future(anext(made))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError) as told:
            await made.aclose()
        messages.append(str(told.value))
        await running
        await made.aclose()
    assert messages[0] == messages[1]


kept: list[Any] = []


@pytest.mark.parametrize("wrap", [lambda fn: fn, rollout_trace_op])
def test_the_loop_closes_an_open_async_generator_without_complaint(traced: Recording, wrap: Any) -> None:
    cleaned, complaints = [], []

    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, said: complaints.append(said))
        kept.append(wrap(stream)())
        await anext(kept[-1])

    asyncio.run(main())
    kept.clear()
    assert (cleaned, complaints) == ([True], [])
