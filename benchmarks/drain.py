"""How fast journals become tables: `python -m benchmarks.drain [--ops N ...] [--trajectories N] [--steady SECONDS]`.

Small ops show what a row costs, the realistic workload what its bytes do. Figures are processor time, because a drainer
runs beside a rollout; memory is the most that a drainer in a process of its own had.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import rolltrace
from benchmarks.replay import record
from benchmarks.stores import drain, record_small, run_command
from benchmarks.table import Row, at_least, at_most, render, write_json
from benchmarks.workload import generate
from rolltrace.keeper import collect_rarely
from tests.background import keepers, kill_keepers

OPS_PER_TRAJECTORY = 10
TRAJECTORIES_PER_STEP = 1000
ROUNDS = 3


class Cost(NamedTuple):
    """What draining a store took."""

    sec: float
    journal_bytes: int
    memory_mb: float


def small_ops(store: Path, ops: int) -> None:
    """Ops of a hundred characters in and out, none of them said before."""
    rolltrace.init("bench", "small-ops", "rolltrace", store=store, drain="off")
    rng = random.Random(ops)

    @rolltrace.rollout_trace_op(name="search", kind="tool")
    def search(query: str) -> dict[str, object]:
        return {"text": query[::-1], "rank": len(query)}

    for number in range(ops // OPS_PER_TRAJECTORY):
        with rolltrace.rollout_trace_attr(
            sample_index=number, step=number // TRAJECTORIES_PER_STEP, rollout_n=0, validate=False
        ):
            for _ in range(OPS_PER_TRAJECTORY):
                search(" ".join(f"{rng.getrandbits(32):x}" for _ in range(11)))
    rolltrace.shutdown()


def measure_drain(write: Callable[[Path], None], rounds: int) -> Cost:
    """The median over some rounds, each with a store of its own."""
    collect_rarely()  # as a drainer does in its own process
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            store = Path(folder) / str(number)
            write(store)
            begin = time.process_time()
            follower = drain(store)
            seconds.append(time.process_time() - begin)
        write(Path(folder) / "memory")
        memory_mb = run_command("store", "drain", "--once", Path(folder) / "memory").memory_mb
    return Cost(statistics.median(seconds), follower.bytes, memory_mb)


_BUSY = """
import sys, time
import rolltrace
store, rate, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rolltrace.init("bench", "steady", "rolltrace", store=store, quiet=True)

@rolltrace.rollout_trace_op(kind="llm")
def generate(messages):
    ids = list(range(500))
    return {"text": "an answer", "prompt_ids": ids, "response_ids": ids[:100], "logprobs": [-0.5] * 100}

@rolltrace.rollout_trace_op(kind="tool")
def search(query):
    return "results of " + query

ops, number, begin = 0, 0, time.monotonic()
while time.monotonic() < begin + seconds:
    with rolltrace.rollout_trace_attr(number // 8, step=number // 400, rollout_n=number % 8) as trajectory:
        messages = [{"role": "user", "content": f"question {number}"}]
        for turn in range(5):
            messages.append({"role": "assistant", "content": generate(list(messages))["text"]})
            messages.append({"role": "tool", "content": search(f"words {turn}")})
        trajectory.reward(float(number % 3))
    number, ops = number + 1, ops + 10
    if (ahead := ops / rate - (time.monotonic() - begin)) > 0:
        time.sleep(ahead)
"""


def measure_steady(seconds: float, rate: int = 200) -> Iterator[Row]:
    """What a drainer takes beside a job that records all the time."""
    section = f"drainer beside {rate} ops/s for {seconds:.0f} s, commits and compaction included"
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        writer = subprocess.Popen([sys.executable, "-c", _BUSY, str(store), str(rate), str(seconds)])
        cpu_sec = memory_mb = 0.0
        started = ended = 0.0
        while writer.poll() is None:
            time.sleep(0.5)
            for process in keepers(store):
                with suppress(OSError):
                    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                    now_sec = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
                    status = Path(f"/proc/{process}/status").read_text()
                    peak_mb = int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line)) / 1000
                    cpu_sec, memory_mb = max(cpu_sec, now_sec), max(memory_mb, peak_mb)
                    started, ended = started or time.monotonic(), time.monotonic()
        kill_keepers(store)
    yield Row(section, "share of one core", 100 * cpu_sec / max(ended - started, 1), "%", at_most(15))
    yield Row(section, "memory", memory_mb, "MB", at_most(350))


def measure(sizes: list[int], rollouts: int, trajectories: int, rounds: int) -> Iterator[Row]:
    """Rows of the table."""
    measure_drain(lambda store: small_ops(store, 100), 1)  # what is loaded and compiled once
    for ops in sizes:
        cost = measure_drain(lambda store, ops=ops: small_ops(store, ops), rounds)  # type: ignore[misc]
        section = f"drain: {ops:,} small ops, {OPS_PER_TRAJECTORY} a trajectory"
        yield Row(section, "ops drained", ops / cost.sec, "/s", at_least(25_000))
        yield Row(section, "an op", 1e6 * cost.sec / ops, "us")
        yield Row(section, "most memory of the drainer", cost.memory_mb, "MB", at_most(500))
    cost = measure_drain(lambda store: record_small(store, rollouts), 1)
    section = f"drain: {rollouts:,} trajectories of 3 small ops, 2 of them model calls with tokens, and a reward"
    yield Row(section, "CPU", cost.sec, "s", at_most(7 * rollouts / 40_000))
    yield Row(section, "ops drained", 3 * rollouts / cost.sec, "/s")
    yield Row(section, "most memory of the drainer", cost.memory_mb, "MB", at_most(500))
    for count in sorted({max(1, trajectories // 10), trajectories}):
        workload = generate(count)
        raw_bytes = sum(len(json.dumps(payload)) for each in workload for payload in each.payloads())
        cost = measure_drain(lambda store, workload=workload: record(store, workload), rounds)  # type: ignore[misc]
        section = f"drain: the realistic workload, {count:,} trajectories, {raw_bytes / 1e6:,.0f} MB of raw JSON"
        yield Row(section, "drained, of raw JSON", raw_bytes / 1e6 / cost.sec, "MB/s", at_least(120))
        yield Row(section, "drained, of the journal", cost.journal_bytes / 1e6 / cost.sec, "MB/s")
        yield Row(section, "most memory of the drainer", cost.memory_mb, "MB", at_most(500))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument(
        "--ops", type=int, nargs="+", default=[10_000, 100_000], help="how many small ops, each in turn"
    )
    parser.add_argument("--trajectories", type=int, default=200, help="how many of the realistic workload")
    parser.add_argument("--steady", type=float, metavar="SECONDS", help="a drainer beside 200 ops/s, for so long")
    parser.add_argument("--quick", action="store_true", help="a few seconds, figures mean little")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    arguments = parser.parse_args()
    if arguments.quick:
        rows = [*measure([1000], 400, 4, 1), *measure_steady(6)]
    elif arguments.steady:
        rows = list(measure_steady(arguments.steady))
    else:
        rows = list(measure(arguments.ops, 40_000, arguments.trajectories, ROUNDS))
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if arguments.json:
        write_json(rows, arguments.json)


if __name__ == "__main__":
    main()
