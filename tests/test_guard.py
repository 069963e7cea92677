"""Internal errors: caught, counted, logged once; the rollout goes on."""

import asyncio
import logging
from typing import Any

import pytest

import rolltrace
from rolltrace import _guard, rollout_trace_attr, rollout_trace_op
from rolltrace.capture import scope
from rolltrace.testing import MemorySink, Recording, recording


class BrokenSink(MemorySink):
    def append(self, body: bytes, step: int | None = None) -> bool:
        raise OSError("no sink")


class Fault(Exception):
    """Raised where rolltrace, not the user, is at work."""


def broken(value: Any) -> Any:
    raise Fault("mine")


def test_a_broken_choice_of_inputs_costs_the_inputs_only(lenient: None, traced: Recording) -> None:
    assert rollout_trace_op(inputs=broken)(lambda x: x + 1)(1) == 2
    assert (traced.op.inputs, traced.op.outputs, traced.op.status) == (None, 2, "ok")
    assert _guard.internal_errors == {"op input: Fault": 1}


def test_a_broken_choice_of_outputs_costs_the_outputs_only(lenient: None, traced: Recording) -> None:
    assert rollout_trace_op(outputs=broken)(lambda x: x + 1)(1) == 2
    assert (traced.op.inputs, traced.op.outputs, traced.op.status) == ({"x": 1}, None, "ok")
    assert _guard.internal_errors == {"op output: Fault": 1}


def test_a_broken_choice_of_items_costs_the_items_only(lenient: None, traced: Recording) -> None:
    @rollout_trace_op(outputs=broken)
    def stream() -> Any:
        yield 1
        return 2

    assert list(stream()) == [1]
    assert traced.op.status == "ok"
    assert _guard.internal_errors == {"op item: Fault": 1, "op output: Fault": 1}


def walk_everything() -> list[Any]:
    @rollout_trace_op
    def plain(x: Any) -> Any:
        return x

    @rollout_trace_op
    async def coroutine(x: Any) -> Any:
        return plain(x)

    @rollout_trace_op
    def generator(x: Any) -> Any:
        yield plain(x)

    @rollout_trace_op
    async def async_generator(x: Any) -> Any:
        yield plain(x)

    @rollout_trace_op
    def fails(x: Any) -> Any:
        raise KeyError(x)

    async def run() -> list[Any]:
        with rollout_trace_attr(step=1, tagged=1) as trajectory:
            trajectory.tag(a=1)
            trajectory.reward(1.0)
            trajectory.transition(lambda: 1)
            trajectory.note("n")
            got = [plain(1), await coroutine(2), *generator(3)]
            got += [item async for item in async_generator(4)]
            with pytest.raises(KeyError):
                fails(5)
            return got

    return asyncio.run(run())


def test_a_broken_sink_never_reaches_the_caller(lenient: None) -> None:
    with recording(sink=BrokenSink()):
        assert walk_everything() == [1, 2, 3, 4]
        assert scope.current.get() is None
    assert set(_guard.internal_errors) >= {"op start: OSError"}


def test_a_broken_snapshot_never_reaches_the_caller(lenient: None) -> None:
    with recording() as traced:
        traced.recorder.snapshot = broken  # type: ignore[method-assign]
        assert walk_everything() == [1, 2, 3, 4]
        assert scope.current.get() is None
    assert {op.status for op in traced.ops} == {"ok", "error"}


@pytest.mark.parametrize("part", ["wall_ns", "tick_ns", "random_bytes", "next_op_id"])
def test_a_broken_part_of_the_recorder_never_reaches_the_caller(lenient: None, part: str) -> None:
    def fail(*_: Any) -> Any:
        raise Fault

    with recording() as traced:
        setattr(traced.recorder, part, fail)
        assert walk_everything() == [1, 2, 3, 4]
        assert scope.current.get() is None


def test_a_transition_that_cannot_be_made_is_a_fault_not_an_exception(lenient: None, traced: Recording) -> None:
    with rollout_trace_attr() as trajectory:
        trajectory.transition(lambda: broken(1))
    assert _guard.internal_errors == {"transition: Fault": 1}


def test_faults_are_in_the_stats(lenient: None, traced: Recording) -> None:
    rollout_trace_op(inputs=broken)(lambda: 1)()
    assert rolltrace.stats().internal_errors == {"op input: Fault": 1}


def test_a_fault_is_logged_once_per_kind(lenient: None, traced: Recording, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        rollout_trace_op(inputs=broken, outputs=broken)(lambda: 1)()
    said = [each for each in caplog.records if each.name == "rolltrace"]
    assert [each.levelno for each in said] == [logging.ERROR] * 2
    assert "op input: Fault" in said[0].getMessage()
    assert said[0].exc_info is not None
    assert _guard.internal_errors == {"op input: Fault": 3, "op output: Fault": 3}


def test_shutdown_sums_the_faults_up(lenient: None, traced: Recording, caplog: pytest.LogCaptureFixture) -> None:
    rollout_trace_op(inputs=broken)(lambda: 1)()
    caplog.clear()
    rolltrace.shutdown()
    assert "{'op input: Fault': 1}" in caplog.text


@pytest.mark.parametrize("options", [{"inputs": broken}, {"outputs": broken}])
def test_when_strict_a_fault_is_raised_and_the_scope_restored(traced: Recording, options: Any) -> None:
    with pytest.raises(Fault):
        rollout_trace_op(**options)(lambda: 1)()
    assert scope.current.get() is None


@pytest.mark.parametrize("value", ["", "0"])
def test_strict_can_be_turned_off(monkeypatch: pytest.MonkeyPatch, traced: Recording, value: str) -> None:
    monkeypatch.setenv("ROLLTRACE_STRICT", value)
    assert rollout_trace_op(inputs=broken)(lambda: 1)() == 1


class Interrupting:
    """A value that is interrupted while it is recorded."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure

    def __call__(self, given: Any) -> Any:
        raise self.failure


def test_an_interrupt_while_we_work_is_the_users_and_passes(lenient: None, traced: Recording) -> None:
    interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as told:
        rollout_trace_op(outputs=Interrupting(interrupt))(lambda: 1)()
    assert told.value is interrupt
    assert scope.current.get() is None
