"""The drainer as a process: started by itself, one at a time, killed without harm."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import rolltrace
from rolltrace.journal import journal_files
from rolltrace.tables import ConflictError
from tests.background import keepers, kill_keepers
from tests.draining import compact, rows
from tests.nightly import nightly

WORKER = """
import sys, rolltrace
store, worker = sys.argv[1], int(sys.argv[2])
rolltrace.init("p", "e", "rolltrace", store=store, drain="process", limits={"segment_bytes": "64KiB"})

@rolltrace.rollout_trace_op
def op(worker, number, text):
    return [worker, number]

for number in range(int(sys.argv[3])):
    with rolltrace.rollout_trace_attr(sample_index=number, step=number // 100, rollout_n=worker):
        op(worker, number, "x" * 2000)
"""


@rolltrace.rollout_trace_op
def traced(number: int) -> dict[str, int]:
    return {"number": number}


@pytest.mark.parametrize("drain", ["process", "thread"])
def test_flush_waits_until_everything_is_in_the_store(tmp_path: Path, drain: str) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain=drain)
    for number in range(50):
        with rolltrace.rollout_trace_attr(step=1, sample_index=number):
            traced(number)
    assert rolltrace.flush(30)
    assert sorted(str(row["payload"]) for row in rows(tmp_path)) == sorted(
        f'{{"inputs":{{"number":{n}}},"outputs":{{"number":{n}}}}}' for n in range(50)
    )


def test_the_drainer_gives_way_to_the_rollout_and_takes_one_core(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="process")
    traced(1)
    assert rolltrace.flush(30)
    (drainer,) = keepers(tmp_path)
    assert os.getpriority(os.PRIO_PROCESS, drainer) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)
    assert b"OMP_NUM_THREADS=1" in Path(f"/proc/{drainer}/environ").read_bytes().split(b"\0")


def test_the_rollouts_process_loads_no_column_library(tmp_path: Path) -> None:
    program = (
        "import sys, rolltrace\n"
        "rolltrace.init('p', 'e', 'rolltrace', store=sys.argv[1], drain='process')\n"
        "rolltrace.rollout_trace_op(abs)(-1)\n"
        "assert rolltrace.flush(30)\n"
        "heavy = {'pyarrow', 'duckdb', 'numpy', 'deltalake', 'rolltrace.tables', 'rolltrace.drain'}\n"
        "assert not heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert len(rows(tmp_path)) == 1


def test_a_killed_drainer_is_started_again(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="process")
    traced(1)
    assert rolltrace.flush(30)
    kill_keepers(tmp_path)
    traced(2)
    assert rolltrace.flush(30)
    assert len(rows(tmp_path)) == 2


def test_many_writers_while_the_drainer_is_killed_again_and_again(tmp_path: Path) -> None:
    # Not strict: a launcher may be killed too, which would then be raised in the thread that waits for it.
    lenient = {**os.environ, "ROLLTRACE_STRICT": ""}
    writers, count = nightly(16, 8), nightly(2000, 200)
    programs = [[sys.executable, "-c", WORKER, str(tmp_path), str(n), str(count)] for n in range(writers)]
    workers = [subprocess.Popen(program, env=lenient) for program in programs]
    killed = 0
    while any(worker.poll() is None for worker in workers):
        time.sleep(0.5)
        killed += kill_keepers(tmp_path)
        with contextlib.suppress(ConflictError):  # a drainer has settled the same step
            compact(tmp_path)
    assert [worker.returncode for worker in workers] == [0] * writers
    subprocess.run([sys.executable, "-m", "rolltrace", "store", "drain", "--once", str(tmp_path)], check=True)
    assert killed
    assert journal_files(tmp_path) == []
    numbers = (re.findall(r"\d+", str(row["payload"]).partition('"outputs"')[2]) for row in rows(tmp_path))
    found = Counter((int(worker), int(number)) for worker, number in numbers)
    assert found == Counter((worker, number) for worker in range(writers) for number in range(count))
