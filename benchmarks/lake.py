"""Nodes that record and ship to object storage (moto, over HTTP) for a while.

    python -m benchmarks.lake [--nodes 16] [--seconds 60]

Prints how many parts a second came into the lake, how long after its end a trajectory could be read there, what was
lost or doubled (nothing may be), and what a traced call costs on the node with the lake and without it.

Each node is a process with a store of its own, and with a drainer and a shipper of its own. All of them, moto and the
reader share this machine, so on a small one the rates say more about it than about the lake.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import rolltrace
from benchmarks.stand_in import object_storage
from rolltrace.lake import LakeAddress
from rolltrace.lake.objects import Objects
from rolltrace.lake.tables import LakeTable
from tests.background import kill_keepers

_A_SECOND = 4
"""Trajectories of each node."""
_WAIT_SEC = 180.0


@rolltrace.rollout_trace_op(kind="llm")
def generate(prompt: str, turn: int) -> dict[str, object]:
    return {"text": f"{prompt} {turn}" * 20, "response_ids": list(range(64)), "logprobs": [-0.5] * 64}


def node(seconds: float, backends: list[str]) -> None:
    """Record at a steady rate; print the ids, and what the calls took in nanoseconds."""
    rolltrace.init("bench", "lake", backend=backends, quiet=True, segment_bytes="64KiB")
    ids: list[str] = []
    took: list[int] = []
    begun = time.monotonic()
    while (now := time.monotonic()) < begun + seconds:
        step = int((now - begun) / 10)
        with rolltrace.rollout_trace_attr(step=step, sample_index=len(ids), rollout_n=0) as trajectory:
            for turn in range(4):
                started = time.thread_time_ns()  # the nodes share one machine: what others take does not count
                generate("a question " * 50, turn)
                took.append(time.thread_time_ns() - started)
            trajectory.reward(0.5)
        ids.append(trajectory.trajectory_id)
        time.sleep(max(0.0, begun + len(ids) / _A_SECOND - time.monotonic()))
    rolltrace.shutdown()
    print(json.dumps({"ids": ids, "took": took}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--node", nargs="*", metavar="BACKEND", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.node:
        node(options.seconds, options.node)
        return
    with tempfile.TemporaryDirectory() as folder, object_storage() as lake:
        os.environ.update(ROLLTRACE_LAKE=lake, ROLLTRACE_CACHE=f"{folder}/cache")
        try:
            plain = _run(Path(folder) / "plain", options, ["rolltrace"])
            begun = time.monotonic()
            processes = _start(Path(folder) / "shipped", options, ["rolltrace", "lake"])
            watch = _Watch()
            while any(process.poll() is None for process in processes):
                watch.look()
            recorded_sec = time.monotonic() - begun
            shipped = _results(processes)
            recorded = [each for result in shipped for each in result["ids"]]
            while len(watch.lags) < len(recorded) and time.monotonic() < begun + recorded_sec + _WAIT_SEC:
                watch.look()
            _report(options, recorded, watch, recorded_sec, plain, shipped)
        finally:
            for number in range(options.nodes):
                for kind in ("plain", "shipped"):
                    kill_keepers(f"{folder}/{kind}/{number}")


class _Watch:
    """A reader: when each trajectory could first be read."""

    def __init__(self) -> None:
        place = LakeAddress.of(os.environ["ROLLTRACE_LAKE"])
        self._objects = Objects(place, "trajectories")
        self._table = LakeTable(place, "trajectories")
        self._seen: set[str] = set()
        self.lags: dict[str, float] = {}

    @property
    def parts(self) -> int:
        return len(self._seen)

    def look(self) -> None:
        if self._table.refresh():
            now_ns = time.time_ns()
            for path in self._table.active().keys() - self._seen:
                self._seen.add(path)
                rows = pq.read_table(pa.BufferReader(self._objects.get(path)), columns=["trajectory_id", "end_ns"])
                for trajectory_id, end_ns in zip(*(column.to_pylist() for column in rows.columns)):
                    self.lags.setdefault(trajectory_id, (now_ns - end_ns) / 1e9)
        time.sleep(0.5)


def _start(folder: Path, options: argparse.Namespace, backends: list[str]) -> list[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.lake", "--seconds", str(options.seconds), "--node", *backends]
    return [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "ROLLTRACE_STORE": f"{folder}/{number}"}
        )
        for number in range(options.nodes)
    ]


def _results(processes: list[subprocess.Popen[str]]) -> list[dict[str, list[str]]]:
    return [json.loads(process.communicate()[0]) for process in processes]


def _run(folder: Path, options: argparse.Namespace, backends: list[str]) -> list[dict[str, list[str]]]:
    return _results(_start(folder, options, backends))


def _report(
    options: argparse.Namespace,
    recorded: list[str],
    watch: _Watch,
    seconds: float,
    plain: list[dict[str, list[str]]],
    shipped: list[dict[str, list[str]]],
) -> None:
    with rolltrace.open(os.environ["ROLLTRACE_LAKE"]) as lake:
        there = Counter(row["trajectory_id"] for row in lake.sql("SELECT trajectory_id FROM _trajectories"))
        spans = lake.sql("SELECT count(*) AS n FROM spans").rows()[0]["n"]
        parts = lake.parts().parts
    lags = sorted(watch.lags.values())
    versions = {name: _version(name) for name in ("trajectories", "spans", "scores")}
    print(f"{options.nodes} nodes for {seconds:.0f} s: {len(recorded)} trajectories, {parts} parts in the lake")
    print(f"commits           {', '.join(f'{name} {version}' for name, version in versions.items())}")
    print(f"trajectory parts  {watch.parts / seconds:.1f} a second")
    print(f"readable after    {_at(lags, 0.5):.1f} s (p50), {_at(lags, 0.99):.1f} s (p99)")
    print(f"lost              {len(set(recorded) - there.keys())} trajectories, {4 * len(recorded) - spans} ops")
    print(f"doubled           {sum(count > 1 for count in there.values())} trajectories")
    for name, results in (("without", plain), ("with", shipped)):
        took = sorted(int(each) for result in results for each in result["took"])
        p50, p99, mean = _at(took, 0.5) / 1e3, _at(took, 0.99) / 1e3, statistics.fmean(took) / 1e3
        print(f"a traced call {name:<8} the lake: {p50:.1f} us of CPU (p50), {p99:.0f} us (p99), {mean:.1f} us (mean)")


def _version(name: str) -> int:
    table = LakeTable(LakeAddress.of(os.environ["ROLLTRACE_LAKE"]), name)
    table.refresh()
    return table.version


def _at(ordered: list[float] | list[int], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else float("nan")


if __name__ == "__main__":
    main()
