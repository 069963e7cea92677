"""A hook around a call of another package's function: what it sees, and that the caller sees nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import BoundArguments
from types import SimpleNamespace
from typing import Any

import pytest

from rolltrace._guard import internal_errors
from rolltrace.integrations.seams import Hook, Steps, hook, hook_subclasses, hooked
from rolltrace.testing import Recording

Call = Callable[..., Any]


def divide(dividend: int, by: int = 1) -> float:
    return dividend / by


async def divide_later(dividend: int, by: int = 1) -> float:
    await asyncio.sleep(0)
    return dividend / by


@pytest.fixture(params=[divide, divide_later], ids=["function", "coroutine"])
def around(request: pytest.FixtureRequest, traced: Recording) -> Callable[[Hook], Call]:
    """Put a hook around a plain function, and around a coroutine function."""

    def make(work: Hook) -> Call:
        ours = hooked(request.param, work)
        if not asyncio.iscoroutinefunction(request.param):
            return ours  # type: ignore[no-any-return]
        return lambda *args, **kwargs: asyncio.run(ours(*args, **kwargs))

    return make


def test_a_hook_sees_the_arguments_and_the_result(around: Callable[[Hook], Call]) -> None:
    seen = []

    def note(call: BoundArguments) -> Steps:
        result = yield
        seen.append((dict(call.arguments), result))

    assert around(note)(6, by=3) == 2
    assert seen == [({"dividend": 6, "by": 3}, 2)]


def test_a_hook_may_change_an_argument(around: Callable[[Hook], Call]) -> None:
    def double(call: BoundArguments) -> Steps:
        call.arguments["dividend"] *= 2
        yield

    assert around(double)(6, 3) == 4


def test_a_hook_that_does_not_yield_leaves_the_call_alone(around: Callable[[Hook], Call]) -> None:
    def skip(call: BoundArguments) -> Steps:
        call.arguments["dividend"] = 0
        if call.arguments["dividend"]:
            yield

    assert around(skip)(6, 3) == 2


def test_an_exception_passes_through_the_hook_to_the_caller(around: Callable[[Hook], Call]) -> None:
    seen: list[BaseException] = []

    def watch(call: BoundArguments) -> Steps:
        try:
            yield
        except ZeroDivisionError as failure:
            seen.append(failure)

    with pytest.raises(ZeroDivisionError) as raised:
        around(watch)(1, 0)
    assert seen == [raised.value]
    assert "seams" not in str(raised.traceback[-1].path)


@pytest.mark.parametrize("fails_before", [True, False])
def test_a_hook_that_fails_costs_what_it_is_for_and_nothing_else(
    around: Callable[[Hook], Call], fails_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLTRACE_STRICT", "0")

    def fail(call: BoundArguments) -> Steps:
        if fails_before:
            raise KeyError("before")
        yield
        raise KeyError("after")

    before = sum(internal_errors.values())
    assert around(fail)(6, 3) == 2
    assert sum(internal_errors.values()) == before + 1


def test_without_tracing_a_hook_is_not_asked_unless_it_is_always() -> None:
    module = SimpleNamespace(divide=divide, other=divide)
    seen = []

    def note(call: BoundArguments) -> Steps:
        seen.append(call.args)
        yield

    hook(module, "divide", note)
    hook(module, "other", note, always=True)
    assert (module.divide(4, 2), module.other(9, 3)) == (2, 3)
    assert seen == [(9, 3)]


def test_methods_of_subclasses_to_come_are_hooked(traced: Recording) -> None:
    class Base:
        def answer(self) -> int:
            return 1

    seen = []

    def note(call: BoundArguments) -> Steps:
        result = yield
        seen.append((type(call.args[0]).__name__, result))

    hook_subclasses(Base, "answer", note)

    class Late(Base):
        def answer(self) -> int:
            return super().answer() + 1

    assert Late().answer() == 2
    assert seen == [("Late", 1), ("Late", 2)]
