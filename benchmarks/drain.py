"""How fast journals become the store: `python -m benchmarks.drain [--ops N ...] [--trajectories N] [--json FILE]`.

Small ops show what a row costs, the realistic workload what its bytes do. Figures are processor time, because a drainer
runs beside a rollout; memory is the most that a drainer in a process of its own had.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import rolltrace
from benchmarks.replay import record
from benchmarks.store import DRAIN_AND_TELL
from benchmarks.table import Row, at_least, at_most, render, write_json
from benchmarks.workload import generate
from rolltrace.drain import Drainer
from rolltrace.keeper import collect_rarely

OPS_PER_TRAJECTORY = 10
TRAJECTORIES_PER_STEP = 1000
ROUNDS = 3


class Cost(NamedTuple):
    """What draining a store took."""

    sec: float
    journal_bytes: int
    memory_mib: float


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


def drain(write: Callable[[Path], None], rounds: int) -> Cost:
    """The median over some rounds, each with a store of its own."""
    collect_rarely()  # as a drainer does in its own process
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            store = Path(folder) / str(number)
            write(store)
            drainer = Drainer(store)
            begin = time.process_time()
            drainer.drain()
            seconds.append(time.process_time() - begin)
        write(Path(folder) / "memory")
        process = [sys.executable, "-c", DRAIN_AND_TELL, str(Path(folder) / "memory")]
        memory_kib = int(subprocess.run(process, check=True, capture_output=True, text=True).stdout)
    return Cost(statistics.median(seconds), drainer.bytes, memory_kib / 1024)


def measure(sizes: list[int], trajectories: int, rounds: int) -> Iterator[Row]:
    """Rows of the table."""
    drain(lambda store: small_ops(store, 100), 1)  # what is loaded and compiled once
    for ops in sizes:
        cost = drain(lambda store, ops=ops: small_ops(store, ops), rounds)  # type: ignore[misc]
        section = f"drain: {ops:,} small ops, {OPS_PER_TRAJECTORY} a trajectory"
        yield Row(section, "ops drained", ops / cost.sec, "/s", at_least(25_000))
        yield Row(section, "an op", 1e6 * cost.sec / ops, "us")
        yield Row(section, "most memory of the drainer", cost.memory_mib, "MiB", at_most(500))
    for count in sorted({max(1, trajectories // 10), trajectories}):
        workload = generate(count)
        raw_bytes = sum(len(json.dumps(payload)) for each in workload for payload in each.payloads())
        cost = drain(lambda store, workload=workload: record(store, workload), rounds)  # type: ignore[misc]
        section = f"drain: the realistic workload, {count:,} trajectories, {raw_bytes / 1e6:,.0f} MB of raw JSON"
        yield Row(section, "drained, of raw JSON", raw_bytes / 1e6 / cost.sec, "MB/s", at_least(120))
        yield Row(section, "drained, of the journal", cost.journal_bytes / 1e6 / cost.sec, "MB/s")
        yield Row(section, "most memory of the drainer", cost.memory_mib, "MiB", at_most(500))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument(
        "--ops", type=int, nargs="+", default=[10_000, 100_000], help="how many small ops, each in turn"
    )
    parser.add_argument("--trajectories", type=int, default=200, help="how many of the realistic workload")
    parser.add_argument("--quick", action="store_true", help="a few seconds, figures mean little")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    arguments = parser.parse_args()
    if arguments.quick:
        rows = list(measure([1000], 4, 1))
    else:
        rows = list(measure(arguments.ops, arguments.trajectories, ROUNDS))
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if arguments.json:
        write_json(rows, arguments.json)


if __name__ == "__main__":
    main()
