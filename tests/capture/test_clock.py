"""Times never run backwards within a trajectory, and a later score is a newer one, whatever happens to the clock."""

from __future__ import annotations

import itertools
import os
import threading
import time
from pathlib import Path

import pytest

import rolltrace
from rolltrace.capture import Recorder, scope
from rolltrace.record import Event, OpEnd, TrajectoryEnd, TrajectoryStart, decode_record
from rolltrace.settings import Settings
from rolltrace.testing import FakeClock, MemorySink
from rolltrace.text import claim_tokenizer, tokenizers_pending

HOUR = 3600.0


class Clocks:
    """A time of day that can be set, and ticks that only go forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.ticks, self.sink = FakeClock(), FakeClock(start_ns=0), MemorySink()
        recorder = Recorder(Settings(), self.sink, wall_ns=self.wall, tick_ns=self.ticks)
        monkeypatch.setattr(scope, "recorder", recorder)

    def set_back(self, seconds: float = HOUR) -> None:
        self.wall.advance(-seconds)

    @property
    def records(self) -> list[object]:
        return [decode_record(body) for body in self.sink.bodies]


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


@rolltrace.rollout_trace_op
def op(number: int) -> int:
    return number


def other_rollout() -> None:
    with rolltrace.rollout_trace_attr(sample_index=99):
        op(99)


def test_op_times_do_not_run_backwards_when_the_clock_is_set_back_and_others_begin(clocks: Clocks) -> None:
    with rolltrace.rollout_trace_attr(sample_index=1) as handle:
        for number in range(4):
            op(number)
            clocks.set_back()
            thread = threading.Thread(target=other_rollout)
            thread.run()
            handle.tag(turn=number)
            handle.transition(reward=1.0)
            handle.reward(0.5)
    mine = [each for each in clocks.records if getattr(each, "trajectory_id", b"").hex() == handle.id]
    times: list[int] = []
    for record in mine:
        if isinstance(record, TrajectoryStart):
            times.append(record.start_ns)
        elif isinstance(record, OpEnd):
            times += [record.start_ns, record.end_ns]
        elif isinstance(record, Event):
            times.append(record.time_ns)
        elif isinstance(record, TrajectoryEnd):
            times.append(record.end_ns)
    assert len(times) > 20
    assert times == sorted(times)


def test_a_trajectory_that_begins_after_the_clock_was_set_has_the_new_time(clocks: Clocks) -> None:
    other_rollout()
    clocks.set_back()
    other_rollout()
    first, second = [each.start_ns for each in clocks.records if isinstance(each, TrajectoryStart)]
    assert first - second > (HOUR - 1) * 1e9


def test_a_trajectory_begun_inside_another_has_its_clock(clocks: Clocks) -> None:
    with rolltrace.rollout_trace_attr(sample_index=1):
        clocks.set_back()
        other_rollout()
    outer, inner = [each for each in clocks.records if isinstance(each, TrajectoryEnd)][::-1]
    assert outer.start_ns < inner.start_ns < inner.end_ns < outer.end_ns


def test_scores_are_strictly_later_than_those_before(clocks: Clocks) -> None:
    with rolltrace.rollout_trace_attr(sample_index=1, step=1, rollout_n=0) as handle:
        handle.reward(0.1)
        clocks.set_back()
        with rolltrace.rollout_trace_attr(sample_index=2) as other:
            other.reward(0.2)
    for number in range(20):
        rolltrace.score(handle if number % 2 else (1, 1, 0), "advantage", number)
        clocks.set_back(HOUR / 10)
    times = [each.time_ns for each in clocks.records if isinstance(each, Event)]
    assert len(times) == 22
    assert all(before < after for before, after in itertools.pairwise(times))


def test_scores_of_several_threads_all_have_times_of_their_own(clocks: Clocks) -> None:
    def give() -> None:
        for number in range(300):
            rolltrace.score((1, 1, 0), "advantage", number)

    clocks.wall.step_ns = 0
    threads = [threading.Thread(target=give) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = [each.time_ns for each in clocks.records if isinstance(each, Event)]
    assert len(set(times)) == len(times) == 1200


def marker(store: Path, ahead_sec: float) -> None:
    assert claim_tokenizer(store, "abc")
    then = time.time() + ahead_sec
    os.utime(store / "tokenizers" / "abc.pending", (then, then))


def test_a_tokenizer_marker_from_tomorrow_makes_nobody_wait(tmp_path: Path) -> None:
    marker(tmp_path, 24 * HOUR)
    assert not tokenizers_pending(tmp_path)


def test_a_tokenizer_marker_from_tomorrow_is_taken_over(tmp_path: Path) -> None:
    marker(tmp_path, 24 * HOUR)
    assert claim_tokenizer(tmp_path, "abc")
    assert tokenizers_pending(tmp_path), "as fresh as any other"


def test_a_marker_of_a_server_whose_clock_is_a_little_ahead_is_believed(tmp_path: Path) -> None:
    marker(tmp_path, 2.0)
    assert tokenizers_pending(tmp_path)
