"""The test kit that others build on."""

import pytest

from rolltrace import rollout_trace_attr, rollout_trace_op
from rolltrace.capture import scope
from rolltrace.record import Coordinates
from rolltrace.testing import FakeClock, MemorySink, Recording, counting_ids, recording


def test_a_recording_restores_what_was_on_before() -> None:
    with recording() as outer:
        with recording(), pytest.raises(ZeroDivisionError), recording():
            rollout_trace_op(lambda: 1 / 0)()
        assert scope.recorder is outer.recorder
    assert scope.recorder is None


def test_ids_and_times_are_the_same_in_every_run() -> None:
    def run() -> list[bytes]:
        with recording() as traced, rollout_trace_attr(sample_index=1):
            rollout_trace_op(lambda: 1)()
        return traced.sink.bodies

    assert run() == run()


def test_ops_are_in_the_order_they_ended(traced: Recording) -> None:
    rollout_trace_op(name="outer")(rollout_trace_op(name="inner")(lambda: 1))()
    assert [op.name for op in traced.ops] == ["inner", "outer"]
    with pytest.raises(ValueError, match="too many"):
        _ = traced.op


def test_a_trajectory_is_decoded(traced: Recording) -> None:
    with rollout_trace_attr(sample_index="a", step=1, team="x") as trajectory:
        trajectory.note("hello")
    (found,) = traced.trajectories
    assert (found.id, found.coordinates, found.tags) == (trajectory.id, Coordinates(1, "a"), {"team": "x"})
    assert [(said.event, said.body["text"]) for said in traced.events] == [("note", "hello")]


def test_a_fake_clock_goes_by_steps_and_by_hand() -> None:
    clock = FakeClock(start_ns=0, step_ns=1)
    clock.advance(1.5)
    assert (clock(), clock()) == (1_500_000_001, 1_500_000_002)


def test_ids_count() -> None:
    ids = counting_ids()
    assert (ids(2), ids(2)) == (b"\x00\x01", b"\x00\x02")


def test_a_memory_sink_counts_what_it_holds_and_what_was_lost() -> None:
    sink = MemorySink()
    sink.append(b"abc", 1)
    sink.lose("why", None)
    sink.lose("why", 2)
    assert (sink.records, sink.bytes, sink.losses) == (1, 3, {"why": {"": 1, "2": 1}})
