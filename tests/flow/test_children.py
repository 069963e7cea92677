"""Processes that a traced program starts, in every way that Python has: what they do belongs to its trajectories."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rolltrace.query import open_store

PROGRAM = """
import multiprocessing, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
import rolltrace

@rolltrace.rollout_trace_op
def work(x):
    return 2 * x

def rollout(sample):
    with rolltrace.rollout_trace_attr(step=1, sample_index=sample, rollout_n=0) as trajectory:
        trajectory.reward(float(sample))
        return work(sample)

def continued(text):
    with rolltrace.use_context(text):
        work("by hand")

class ForkWorker(multiprocessing.get_context("fork").Process):
    def run(self):
        work("subclass")

class SpawnWorker(multiprocessing.get_context("spawn").Process):
    def run(self):
        work("subclass")

class ForkserverWorker(multiprocessing.get_context("forkserver").Process):
    def run(self):
        work("subclass")

WORKERS = {"fork": ForkWorker, "spawn": SpawnWorker, "forkserver": ForkserverWorker}

if __name__ == "__main__":
    store, method = sys.argv[1:]
    context = multiprocessing.get_context(method)
    early = context.Pool(1)
    early.map(len, ["there before tracing is turned on"])
    rolltrace.init("p", "e", store=store, drain="off")
    with context.Pool(2) as pool:
        assert pool.map(rollout, range(4)) == [0, 2, 4, 6]
        pool.close()
        pool.join()
    with rolltrace.rollout_trace_attr(step=2, sample_index="outer", rollout_n=0):
        with context.Pool(2) as pool:
            pool.map(work, ["map"])
            pool.starmap(work, [("starmap",)])
            pool.apply(work, ("apply",))
            list(pool.imap(work, ["imap"]))
            list(pool.imap_unordered(work, ["imap_unordered"]))
            pool.close()
            pool.join()
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            list(executor.map(work, ["executor"]))
        early.map(work, ["early"])
        worker = WORKERS[method]()
        worker.start()
        worker.join()
        assert worker.exitcode == 0
        for target, argument in ((work, "process"), (continued, rolltrace.current_context())):
            child = context.Process(target=target, args=(argument,))
            child.start()
            child.join()
            assert child.exitcode == 0
    early.close()
    early.join()
    assert rolltrace.stats().lost == 0
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_what_children_do_belongs_to_the_trajectory_that_started_them(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROLLTRACE_RUN")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    made = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "store"), method], capture_output=True, text=True
    )
    assert (made.returncode, made.stderr) == (0, "")
    store = open_store(tmp_path / "store")
    rows = store.trajectories().rows()
    assert [(row["step"], row["sample_index"], row["status"]) for row in rows] == [
        (1, 0, "ok"), (1, 1, "ok"), (1, 2, "ok"), (1, 3, "ok"), (2, "outer", "ok"),
    ]  # fmt: skip
    assert len({row["run"] for row in rows}) == 1
    ops = [op.inputs["x"] for op in store.trajectory(rows[-1]["trajectory_id"]).walk()]
    assert sorted(ops) == sorted(
        ["map", "starmap", "apply", "imap", "imap_unordered", "executor", "early", "subclass", "process", "by hand"]
    )


def test_a_context_turns_tracing_on_with_the_settings_of_its_process(tmp_path: Path) -> None:
    first = (
        f"import rolltrace; rolltrace.init('p', 'e', store={str(tmp_path)!r}, drain='off', run='r7', "
        "limits={'max_bytes': 4096})\n"
        "with rolltrace.rollout_trace_attr(step=3, sample_index='s'): print(rolltrace.current_context())"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROLLTRACE_")}
    text = subprocess.run(
        [sys.executable, "-c", first], env=clean, capture_output=True, text=True, check=True
    ).stdout.strip()
    second = (
        f"import rolltrace\nwith rolltrace.use_context({text!r}): rolltrace.rollout_trace_op(lambda: 'x' * 9000)()\n"
        "print(rolltrace.stats().cuts)"
    )
    made = subprocess.run([sys.executable, "-c", second], env=clean, capture_output=True, text=True, check=True)
    assert made.stdout.split() == ["1"]
    (row,) = open_store(tmp_path).trajectories().rows()
    assert (row["step"], row["sample_index"], row["run"]) == (3, "s", "r7")
    assert len(list(open_store(tmp_path).trajectory(row["trajectory_id"]).walk())) == 1


@pytest.mark.parametrize("backend", ["off", None])
def test_a_process_that_cannot_record_says_so_once(backend: str | None) -> None:
    text = f"00-{'ab' * 16}-{'0' * 15}1-01;" + '{"step":1}'
    code = "import rolltrace\n" + f"with rolltrace.use_context({text!r}): pass\n" * 2
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ROLLTRACE_")}
    if backend is not None:
        clean["ROLLTRACE_BACKEND"] = backend
    made = subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True)
    assert made.stderr.count("tracing is off in this process") == 1
