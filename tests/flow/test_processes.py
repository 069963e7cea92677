"""Many processes, forks and threads at once on one store."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import rolltrace
from rolltrace.journal import Damage, Entry, SegmentReader, journal_files, read_journals
from rolltrace.record import OpEnd, decode_value
from tests.nightly import nightly

FORKS = nightly(25, 8)
WORKER = """
import sys, time
import rolltrace
store, worker, start_at = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
time.sleep(max(0, start_at - time.time()))
rolltrace.init("p", "e", "rolltrace", store=store)

@rolltrace.rollout_trace_op
def op(worker, number):
    return [worker, number]

for number in range(200):
    with rolltrace.rollout_trace_attr(sample_index=number, step=1, rollout_n=worker):
        op(worker, number)
assert rolltrace.stats().lost == 0
"""


def ops(store: Path) -> list[OpEnd]:
    items = [item for _, item in read_journals(store)]
    assert not [item for item in items if isinstance(item, Damage)]
    return [item.record for item in items if isinstance(item, Entry) and isinstance(item.record, OpEnd)]


def test_eight_processes_start_at_once_on_a_fresh_store(tmp_path: Path) -> None:
    store, start_at = tmp_path / "fresh", time.time() + 1.5
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(store), str(n), str(start_at)], stderr=subprocess.PIPE)
        for n in range(8)
    ]
    for worker in workers:
        _, errors = worker.communicate()
        assert (worker.returncode, errors) == (0, b"")
    found = Counter(tuple(decode_value(op.outputs)) for op in ops(store))
    assert found == Counter((worker, number) for worker in range(8) for number in range(200))
    assert all(SegmentReader.open(path).state == "sealed" for path in journal_files(store))


@rolltrace.rollout_trace_op
def traced(number: int) -> int:
    return number


def test_a_fork_while_another_thread_writes(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, limits={"segment_bytes": "64KiB"})
    stop = threading.Event()
    counts = [0, 0]

    def write(slot: int) -> None:
        while not stop.is_set():
            traced(counts[slot])
            counts[slot] += 1

    threads = [threading.Thread(target=write, args=(slot,)) for slot in range(2)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(FORKS):
        child = os.fork()
        if child == 0:
            try:
                for number in range(20):
                    traced(1_000_000 + number)
                os._exit(0 if rolltrace.stats().records == 40 else 3)
            finally:
                os._exit(4)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * FORKS
    stop.set()
    for thread in threads:
        thread.join()
    rolltrace.shutdown()
    found = Counter(decode_value(op.outputs) for op in ops(tmp_path))
    assert all(found[1_000_000 + number] == FORKS for number in range(20))
    assert sum(found[n] for n in range(1_000_000)) == sum(counts)


def test_an_op_that_forks_is_ended_by_the_parent_alone(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)

    @rolltrace.rollout_trace_op
    def forks() -> str:
        child = os.fork()
        if child == 0:
            traced(7)
            return "child"
        os.waitpid(child, 0)
        return "parent"

    with rolltrace.rollout_trace_attr(step=1, sample_index=1):
        if forks() == "child":
            os._exit(0)
    rolltrace.shutdown()
    found = ops(tmp_path)
    assert sorted(op.name.rpartition(".")[2] for op in found) == ["forks", "traced"]
    parent, inner = sorted(found, key=lambda op: op.start_ns)
    assert decode_value(parent.outputs) == "parent"
    assert (inner.parent_id, inner.trajectory_id) == (parent.op_id, parent.trajectory_id)


def test_the_parents_journal_is_seen_as_abandoned_though_its_child_lives(tmp_path: Path) -> None:
    program = (
        "import os, sys, time, rolltrace\n"
        "rolltrace.init('p', 'e', 'rolltrace', store=sys.argv[1])\n"
        "rolltrace.rollout_trace_op(abs)(-1)\n"
        "if os.fork() == 0:\n"
        "    print('child', os.getpid(), flush=True)\n"
        "    time.sleep(60)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline().split()[1])
    try:
        (path,) = journal_files(tmp_path)
        assert SegmentReader.open(path).state == "live"
        parent.kill()
        parent.wait()
        assert SegmentReader.open(path).state == "abandoned"
    finally:
        os.kill(child, 9)
        parent.stdout.close()


def _spawned(store: str, context: str, number: int) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store)
    with rolltrace.use_context(context):
        traced(number)


def test_a_spawned_process_continues_the_trajectory(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    with rolltrace.rollout_trace_attr(step=3, sample_index="a", rollout_n=1):
        context = rolltrace.current_context()
        worker = multiprocessing.get_context("spawn").Process(target=_spawned, args=(str(tmp_path), context, 5))
        worker.start()
        worker.join()
        traced(4)
    rolltrace.shutdown()
    found = ops(tmp_path)
    assert sorted(decode_value(op.outputs) for op in found) == [4, 5]
    assert len({(op.trajectory_id, bytes(op.coordinates)) for op in found}) == 1
