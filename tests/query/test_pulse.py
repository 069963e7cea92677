"""What runs right now, and what is usual."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import rolltrace
from rolltrace.query import Pulse, experiment_overview, pulse_of, store_status


@rolltrace.rollout_trace_op(name="python", kind="tool")
def quick(code: str) -> str:
    return code


@rolltrace.rollout_trace_op(name="python", kind="tool")
def slow(store: Path) -> object:
    return pulse_of(rolltrace.open(store))


def test_an_op_in_flight_stands_beside_what_such_ops_take(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for n in range(6):
        with rolltrace.rollout_trace_attr(1, 1, n):
            quick("1 + 1")
    with rolltrace.rollout_trace_attr(2, 1, 0, name="hangs"):
        pulse = slow(tmp_path)
    (row,) = pulse.rows  # type: ignore[attr-defined]
    assert (row["name"], row["current_op"], row["sample_index"]) == ("hangs", "python", 2)
    assert 0 < row["op_p95_s"] < row["op_age_s"] <= row["age_s"]
    assert pulse.trajectories_per_min == 6  # type: ignore[attr-defined]
    assert pulse.tool_error_rate == 0  # type: ignore[attr-defined]


@rolltrace.rollout_trace_op
def agent() -> None:
    quick("1 + 1")
    quick("2 + 2")


LATER_NS = 60 * 10**9


@pytest.mark.parametrize("inside", ["a trajectory", "an op"])
def test_a_rollout_that_hangs_between_ops_is_hung(tmp_path: Path, inside: str) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    pulses: list[Pulse] = []

    @rolltrace.rollout_trace_op(name="agent")
    def hang() -> None:
        quick("1 + 1")
        now_ns = time.time_ns()
        pulses.extend(pulse_of(rolltrace.open(tmp_path), now_ns=each) for each in (now_ns, now_ns + LATER_NS))

    for n in range(6):
        with rolltrace.rollout_trace_attr(1, 1, n):
            agent()
    with rolltrace.rollout_trace_attr(2, 1, 0):
        hang.__wrapped__() if inside == "a trajectory" else hang()
    (now,), (later,) = (pulse.rows for pulse in pulses)
    assert now["pace"] in ("fine", "slow")
    assert later["idle_s"] > 60 > 10 * later["idle_p95_s"]
    assert (later["current_op"], later["pace"]) == (None if inside == "a trajectory" else "agent", "hung")


def test_a_rollout_that_never_came_to_its_first_op_is_hung(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for n in range(6):
        with rolltrace.rollout_trace_attr(1, 1, n):
            quick("1 + 1")
    with rolltrace.rollout_trace_attr(2, 1, 0):
        (row,) = pulse_of(rolltrace.open(tmp_path), now_ns=time.time_ns() + LATER_NS).rows
    assert (row["current_op"], row["pace"]) == (None, "hung")


def test_while_an_op_runs_the_time_since_the_one_before_does_not_count(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")

    @rolltrace.rollout_trace_op(name="never ended before", kind="tool")
    def long() -> list[dict[str, object]]:
        return pulse_of(rolltrace.open(tmp_path), now_ns=time.time_ns() + LATER_NS).rows

    for n in range(6):
        with rolltrace.rollout_trace_attr(1, 1, n):
            agent()
    with rolltrace.rollout_trace_attr(2, 1, 0):
        quick("1 + 1")
        (row,) = long()
    assert (row["idle_s"], row["op_p95_s"], row["pace"]) == (None, None, "unknown")


def test_few_ops_do_not_say_what_is_usual(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(2, 1, 0):
        quick("1")
        pulse = slow(tmp_path)
    assert pulse.rows[0]["op_p95_s"] is None  # type: ignore[attr-defined]


def test_an_experiment_is_recording_while_its_process_writes(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    quick("1")
    store = rolltrace.open(tmp_path)
    assert store_status(store).recording
    assert [row["state"] for row in experiment_overview(store)] == ["recording"]
    rolltrace.shutdown()
    store.refresh()
    assert not store_status(store).recording
    assert [row["state"] for row in experiment_overview(store)] == ["ended"]


@pytest.mark.parametrize("changes", ["a new trajectory", "a late score"])
def test_the_version_changes_with_what_is_recorded(tmp_path: Path, changes: str) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(1, 1, 0) as trajectory:
        quick("1")
    store = rolltrace.open(tmp_path)
    before, same = store.version(), store.version()
    assert before == same
    if changes == "a new trajectory":
        with rolltrace.rollout_trace_attr(1, 2, 0):
            quick("2")
    else:
        rolltrace.score(trajectory.id, "reward", 1.0)
    store.refresh()
    assert store.version() != before
