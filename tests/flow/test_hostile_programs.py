"""Programs that interrupt, mutate and fork in the worst moments: nothing crashes, nothing of the user's is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rolltrace
from rolltrace.capture import scope
from rolltrace.journal import Damage, Entry, JournalWriter, SegmentReader, journal_files, read_journals, segment
from rolltrace.record import NOTHING, Blob, OpEnd, decode_coordinates, decode_value, encode_record


@rolltrace.rollout_trace_op
def traced(number: object) -> object:
    return number


def ops(store: Path) -> list[OpEnd]:
    records = [item.record for _, item in read_journals(store) if isinstance(item, Entry)]
    return [record for record in records if isinstance(record, OpEnd)]


def test_a_list_that_another_thread_changes_while_it_is_recorded_does_not_crash(tmp_path: Path) -> None:
    program = """
import sys, threading, numpy as np, rolltrace
sys.setswitchinterval(1e-5)
rolltrace.init("p", "e", "rolltrace", store=sys.argv[1], drain="off")
score = rolltrace.rollout_trace_op(lambda logprobs: None)
values, stop = [], threading.Event()
def change():
    while not stop.is_set():
        values.extend(np.float32(n) for n in range(3000))
        values.clear()
thread = threading.Thread(target=change); thread.start()
for _ in range(300): score(values)
stop.set(); thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(ops(tmp_path)) == 300


def test_what_is_hooked_is_recorded_as_it_was(tmp_path: Path) -> None:
    """A converter that runs Python code in the middle of an encoding sees a copy, not the caller's list."""
    values: list[object] = [np.float32(n) for n in range(100)]

    class Trigger:
        @property
        def __dict__(self) -> dict[str, object]:  # type: ignore[override]
            values.clear()
            return {}

    values.insert(50, Trigger())
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    traced(values)
    rolltrace.shutdown()
    (op,) = ops(tmp_path)
    assert len(decode_value(op.inputs)["number"]) in (0, 101)


class Timeout(Exception):
    """What a user's own signal handler raises."""


# Interrupted between two instructions, Python itself may leave a folder listing open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_timeout_raised_by_a_signal_handler_is_never_swallowed(tmp_path: Path, lenient: None) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, limits={"segment_bytes": "64KiB"})

    def alarm(number: int, frame: object) -> None:
        raise Timeout

    before = signal.signal(signal.SIGALRM, alarm)
    caught = 0
    try:
        for _ in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.002)
                for n in range(100_000):
                    traced(n)
            except Timeout:
                caught += 1
            assert scope.current.get() is None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert caught == 150


@pytest.mark.parametrize(("place", "called"), [(segment, "lock_now"), (os, "pwrite"), (os, "rename")])
def test_ctrl_c_while_a_segment_is_opened_loses_only_that_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, called: str
) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)

    def once(*arguments: Any) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(place, called, once, raising=False)
    with pytest.raises(KeyboardInterrupt):
        traced(0)
    assert scope.current.get() is None
    for n in range(1, 100):
        traced(n)
    assert rolltrace.stats().losses == {}
    assert [decode_value(op.outputs) for op in ops(tmp_path)] == list(range(1, 100))


def test_work_in_a_process_pool_belongs_to_the_trajectory_that_submitted_it(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        for sample in range(6):
            with rolltrace.rollout_trace_attr(step=1, sample_index=sample):
                assert pool.submit(traced, sample).result() == sample
        assert pool.submit(traced, "outside").result() == "outside"
    rolltrace.shutdown()
    found = {decode_value(op.inputs)["number"]: decode_coordinates(op.coordinates).sample_index for op in ops(tmp_path)}
    assert found == {**{n: n for n in range(6)}, "outside": None}


def test_the_workers_of_a_pool_made_inside_a_trajectory_do_not_keep_it(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    with rolltrace.rollout_trace_attr(step=1, sample_index=0):
        pool = get_context("fork").Pool(1)
    with pool:
        assert pool.apply(traced, (7,)) == 7
        pool.close()
        pool.join()
    rolltrace.shutdown()
    (op,) = ops(tmp_path)
    assert decode_coordinates(op.coordinates).sample_index is None


def test_short_lived_children_leave_little_on_the_disk(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, limits={"max_unsent_bytes": "64MiB"})
    for number in range(40):
        if os.fork() == 0:
            traced(number)
            os._exit(0)
        os.wait()
    processes = [get_context("fork").Process(target=traced, args=(n,)) for n in range(5)]
    for process in processes:
        process.start()
        process.join()
    rolltrace.shutdown()
    assert len(ops(tmp_path)) == 45
    states = Counter(SegmentReader.open(path).state for path in journal_files(tmp_path))
    assert states == {"abandoned": 40, "sealed": 5}


def test_a_live_journal_read_while_it_is_written_is_not_called_damaged(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set() and number < 20_000:
            writer.append(encode_record(Blob(str(number), "test", NOTHING, b"x" * (number % 2000))))
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(60):
            for path in journal_files(tmp_path):
                assert not [item for item in SegmentReader.open(path) if isinstance(item, Damage)]
    finally:
        stop.set()
        thread.join()


def test_flush_from_a_signal_handler_does_not_hang(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    told: list[bool] = []
    before = signal.signal(signal.SIGALRM, lambda *_: told.append(rolltrace.flush(30)))
    try:
        while len(told) < 20:
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            for n in range(300):
                traced(n)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert all(told)


def test_a_background_task_does_not_keep_the_inputs_of_the_op_it_was_started_in(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    kept: list[scope.Place | None] = []

    @rolltrace.rollout_trace_op
    def starts(text: str) -> None:
        kept.append(scope.current.get())

    starts("x" * 100_000)
    (span,) = kept
    assert span is not None
    assert span._inputs is NOTHING  # type: ignore[attr-defined]
