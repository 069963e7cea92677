"""The user's exceptions: they pass through as they are, and are told in full."""

import asyncio
import builtins
import sys
from collections.abc import Callable
from typing import Any

import pytest

from rolltrace import rollout_trace_op
from rolltrace.capture.failure import describe_failure, status_of
from rolltrace.record import Error
from rolltrace.testing import Recording


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Cancelled(BaseException):
    """As trio's."""


FAILURES: list[BaseException] = [
    ValueError("v"), asyncio.CancelledError("c"), KeyboardInterrupt(), SystemExit(3), GeneratorExit(),
    Silent(), Cancelled(), StopAsyncIteration("s"), RecursionError("r"), OSError(2, "no such file", "x"),
]  # fmt: skip
if sys.version_info >= (3, 11):
    FAILURES += [
        builtins.ExceptionGroup("g", [ValueError("one")]),
        builtins.BaseExceptionGroup("b", [KeyboardInterrupt()]),
    ]


def error_of(traced: Recording) -> Error:
    assert traced.op.error is not None
    return traced.op.error


def fails_in(how: str, failure: BaseException, cause: BaseException) -> Callable[[], Any]:
    """Something to call: it fails inside a traced function of this kind. No event loop, which would stop."""

    def plain() -> None:
        raise failure from cause

    async def coroutine() -> None:
        raise failure from cause

    def generator() -> Any:
        yield 1
        raise failure from cause

    async def async_generator() -> Any:
        if how == "never":
            yield 1
        raise failure from cause

    if how == "plain":
        return rollout_trace_op(plain)
    if how == "coroutine":
        return lambda: rollout_trace_op(coroutine)().send(None)
    if how == "generator":
        return lambda: list(rollout_trace_op(generator)())
    return lambda: rollout_trace_op(async_generator)().asend(None).send(None)


KINDS = ["plain", "coroutine", "generator", "async generator"]
CASES = [
    pytest.param(how, failure, id=f"{how}-{type(failure).__name__}")
    for how in KINDS
    for failure in FAILURES
    # Python itself makes a RuntimeError of this one.
    if not (how == "async generator" and isinstance(failure, StopAsyncIteration))
]


@pytest.mark.parametrize(("how", "failure"), CASES)
def test_an_exception_passes_through_unchanged(traced: Recording, how: str, failure: BaseException) -> None:
    cause = KeyError("cause")
    failure.__context__ = None
    with pytest.raises(type(failure)) as told:
        fails_in(how, failure, cause)()
    assert told.value is failure
    assert (failure.__cause__, failure.__context__) == (cause, None)
    assert traced.op.status == status_of(failure) != "ok"
    assert error_of(traced).type.endswith(type(failure).__name__)


def test_the_traceback_shows_the_users_lines_and_not_ours(traced: Recording) -> None:
    @rollout_trace_op
    def inner() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        rollout_trace_op(lambda: inner())()
    said = traced.ops[1].error
    assert said is not None
    assert f'File "{__file__}", line' in said.traceback
    assert 'raise ValueError("broken")' in said.traceback
    assert "rolltrace/capture" not in said.traceback
    assert said.traceback.endswith("ValueError: broken\n")


def test_cause_and_context_are_told(traced: Recording) -> None:
    @rollout_trace_op
    def fail() -> None:
        try:
            int("x")
        except ValueError as cause:
            raise KeyError("second") from cause

    with pytest.raises(KeyError):
        fail()
    said = error_of(traced).traceback
    assert "direct cause" in said
    assert said.index("invalid literal") < said.index("KeyError: 'second'")


def test_a_suppressed_context_is_not_told(traced: Recording) -> None:
    @rollout_trace_op
    def fail() -> None:
        try:
            int("x")
        except ValueError:
            raise KeyError("second") from None

    with pytest.raises(KeyError):
        fail()
    assert "invalid literal" not in error_of(traced).traceback


def test_causes_in_a_circle_come_to_an_end() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert describe_failure(first).traceback.count("ValueError: a") == 1


def test_a_message_that_cannot_be_made_is_said_so() -> None:
    assert describe_failure(Silent()).message == "<its message could not be made: RuntimeError>"


def test_a_long_message_is_cut_and_says_so() -> None:
    said = describe_failure(ValueError("x" * 100_000)).message
    assert len(said) < 10_000
    assert said.endswith("(100000 characters)")


def test_a_message_with_broken_text_is_kept_readable() -> None:
    assert describe_failure(ValueError("\ud800!")).message == "\\ud800!"


def test_a_deep_traceback_is_shortened(traced: Recording) -> None:
    def dive(n: int) -> None:
        if n == 0:
            raise ValueError("deep")
        dive(n - 1)

    with pytest.raises(ValueError, match="deep"):
        rollout_trace_op(dive)(200)
    assert "more ..." in error_of(traced).traceback
    assert error_of(traced).traceback.count("File ") == 40


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with 3.11")
def test_the_members_of_a_group_are_told() -> None:
    members = [ValueError("one"), builtins.ExceptionGroup("inner", [KeyError("two")])]
    said = describe_failure(builtins.ExceptionGroup("several", members)).traceback
    assert all(word in said for word in ("several (2 sub-exceptions)", "ValueError: one", "KeyError: 'two'"))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TaskGroup came with 3.11")
async def test_a_task_group_that_fails_tells_whose_fault_it_was(traced: Recording) -> None:
    async def fail() -> None:
        raise ValueError("in the task")

    @rollout_trace_op
    async def rollout() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    with pytest.raises(builtins.ExceptionGroup):
        await rollout()
    assert "ValueError: in the task" in error_of(traced).traceback


def test_an_error_type_names_its_module() -> None:
    assert describe_failure(asyncio.CancelledError()).type == "asyncio.exceptions.CancelledError"
    assert describe_failure(ValueError()).type == "ValueError"
