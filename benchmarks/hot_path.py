"""What tracing costs a rollout process: `python -m benchmarks.hot_path [--quick] [--json FILE]`.

Figures are what tracing adds: the same calls without a tracer are measured in the same rounds and
subtracted. A missed target is shown and does not fail the run.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import floor, lag, memory
from benchmarks.peers.opentelemetry_sdk import OpenTelemetry
from benchmarks.replay import replays
from benchmarks.rounds import Round, medians
from benchmarks.table import Row, at_least, at_most, render, write_json
from benchmarks.tracers import Plain, Rolltrace, Tracer
from benchmarks.workload import Trajectory, generate

SMALL_INPUT = "x" * 100
WARM_CALLS = 20
LAG_TRACERS: dict[str, Tracer] = {
    "off": Rolltrace(on=False),
    "on": Rolltrace(),
    "OpenTelemetry": OpenTelemetry(),
}


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure."""

    rounds: int
    off_calls: int
    small_calls: int
    entries: int
    """Trajectories entered and left in a round."""
    replayed: int
    """Trajectories of full length replayed in a round of the realistic workload."""
    at_once: int
    pace: float
    """How slow models and tools are, 1 being the workload's own waits."""
    lag_rounds: int
    memory_bytes: int


FULL = Effort(
    rounds=9,
    off_calls=200_000,
    small_calls=10_000,
    entries=300,
    replayed=8,
    at_once=64,
    pace=1.0,
    lag_rounds=3,
    memory_bytes=10**9,
)
QUICK = Effort(
    rounds=2,
    off_calls=5_000,
    small_calls=500,
    entries=20,
    replayed=2,
    at_once=4,
    pace=0.05,
    lag_rounds=1,
    memory_bytes=10**7,
)


def off(effort: Effort) -> Iterator[Row]:
    """The decorator when no backend is set."""
    tracers: dict[str, Tracer] = {"plain": Plain(), "off": Rolltrace(on=False)}
    contenders: dict[str, Round] = {}
    for name, tracer in tracers.items():
        contenders[f"sync {name}"] = _sync_calls(tracer, effort.off_calls)
        contenders[f"async {name}"] = _async_calls(tracer, effort.off_calls)
    cost = medians(contenders, rounds=effort.rounds)
    for flavour in ("sync", "async"):
        added = cost[f"{flavour} off"] - cost[f"{flavour} plain"]
        yield Row("off", f"{flavour} call, added", added, "us", at_most(0.2))


def small(effort: Effort) -> Iterator[Row]:
    """A call with a 100-byte string, inside a trajectory."""
    section = "small op: 100 bytes in, as many out"
    flavours: dict[str, Callable[[Tracer, int], Round]] = {"sync": _sync_calls, "async": _async_calls}
    tracers: dict[str, Tracer] = {
        "plain": Plain(),
        "rolltrace": Rolltrace(),
        "OpenTelemetry": OpenTelemetry(),
        "postponed": OpenTelemetry(postponed=True),
    }
    cost = medians(
        {
            f"{flavour} {name}": calls(tracer, effort.small_calls)
            for flavour, calls in flavours.items()
            for name, tracer in tracers.items()
        },
        rounds=effort.rounds,
    )
    for flavour in flavours:
        ours = cost[f"{flavour} rolltrace"] - cost[f"{flavour} plain"]
        peer = cost[f"{flavour} OpenTelemetry"] - cost[f"{flavour} plain"]
        yield Row(section, f"{flavour}, rolltrace", ours, "us", at_most(6))
        yield Row(section, f"{flavour}, OpenTelemetry", peer, "us")
        yield Row(section, f"{flavour}, OpenTelemetry / rolltrace", peer / ours, "x", at_least(10))
        postponed = cost[f"{flavour} postponed"] - cost[f"{flavour} plain"]
        yield Row(section, f"{flavour}, OpenTelemetry, export postponed", postponed, "us")


def realistic(effort: Effort, *, length: float) -> Iterator[Row]:
    """Whole trajectories in the middle of a long run, against the peer and against the least any journal must do."""
    replayed = generate(round(effort.replayed / length), length=length)
    ops = sum(len(trajectory.ops) for trajectory in replayed)
    size_bytes = sum(trajectory.size_bytes() for trajectory in replayed)
    payloads = [payload for trajectory in replayed for payload in trajectory.payloads()]
    cost = medians(
        {
            "plain": replays(Plain(), replayed),
            "rolltrace": replays(Rolltrace(), replayed),
            "OpenTelemetry": replays(OpenTelemetry(), replayed),
            "file": floor.fresh_file(payloads, ops=ops),
            "memory": floor.warm_memory(payloads, ops=ops, size_bytes=size_bytes),
            "encoding": floor.encoding_alone(payloads, ops=ops),
        },
        rounds=effort.rounds,
    )
    section = f"realistic workload: 20 ops a trajectory, {size_bytes / ops / 1e3:.0f} kB an op"
    ours, peer = cost["rolltrace"] - cost["plain"], cost["OpenTelemetry"] - cost["plain"]
    yield Row(section, "rolltrace", ours, "us")
    yield Row(section, "OpenTelemetry", peer, "us")
    yield Row(section, "OpenTelemetry / rolltrace", peer / ours, "x", at_least(10))
    yield Row(section, "encoding alone", cost["encoding"], "us")
    yield Row(section, "rolltrace / encoding alone", ours / cost["encoding"], "x", at_most(1.5))
    yield Row(section, "file floor: encode, write to a fresh file", cost["file"], "us")
    yield Row(section, "rolltrace / file floor", ours / cost["file"], "x", at_most(1.5))
    yield Row(section, "memory floor: encode, copy to warm buffer", cost["memory"], "us")
    yield Row(section, "rolltrace / memory floor", ours / cost["memory"], "x")


def loop_lag(effort: Effort, trajectories: list[Trajectory]) -> Iterator[Row]:
    """Many trajectories at once on one event loop, and the same with far too fast models and tools."""
    at_once = trajectories[: effort.at_once]
    report = lag.measure(LAG_TRACERS, at_once, rounds=effort.lag_rounds, pace=effort.pace)
    section = f"event-loop lag: {len(at_once)} trajectories at once, {report.ops_per_sec:,.0f} ops/s"
    for name, lags in report.lags.items():
        yield Row(section, f"{name}, p50", lags.p50_ms, "ms")
        yield Row(section, f"{name}, p99", lags.p99_ms, "ms")
        yield Row(section, f"{name}, max", lags.max_ms, "ms")
    added = report.lags["on"].p99_ms - report.lags["off"].p99_ms
    yield Row(section, "added by rolltrace, p99", added, "ms", at_most(2))

    # No target: here encoding alone keeps the loop busy nearly half of the time.
    report = lag.measure(LAG_TRACERS, at_once, rounds=effort.lag_rounds, pace=effort.pace / 10)
    section = f"event-loop lag under stress: ten times the pace, {report.ops_per_sec:,.0f} ops/s"
    for name, lags in report.lags.items():
        yield Row(section, f"{name}, p99", lags.p99_ms, "ms")


def trajectories_only(effort: Effort) -> Iterator[Row]:
    """Entering and leaving a trajectory, with and without waiting for the disk at its end."""
    tracers: dict[str, Tracer] = {"plain": Plain(), "rolltrace": Rolltrace(), "durable": Rolltrace(durable=True)}
    cost = medians({name: _entries(tracer, effort.entries) for name, tracer in tracers.items()}, rounds=effort.rounds)
    section = "a trajectory without ops"
    yield Row(section, "rolltrace", cost["rolltrace"] - cost["plain"], "us")
    yield Row(section, "rolltrace, durable=True", cost["durable"] - cost["plain"], "us")


def growth(effort: Effort) -> Iterator[Row]:
    """The memory that tracing takes and does not give back."""
    section = f"memory: {effort.memory_bytes / 1e9:g} GB of payload traced"
    yield Row(section, "growth of the process", memory.growth_mib(effort.memory_bytes), "MiB", at_most(100))


def _entries(tracer: Tracer, entries: int) -> Round:
    def enter(count: int) -> float:
        begin = time.perf_counter_ns()
        for number in range(count):
            with tracer.trajectory(sample_index=number, rollout_n=0):
                pass
        return (time.perf_counter_ns() - begin) / 1e3 / count

    def run() -> float:
        with tracer.running():
            enter(WARM_CALLS)
            return enter(entries)

    return run


def _sync_calls(tracer: Tracer, calls: int) -> Round:
    @tracer.op(name="small", kind="tool")
    def small_op(text: str) -> str:
        return text

    def call(count: int) -> float:
        begin = time.perf_counter_ns()
        for _ in range(count):
            small_op(SMALL_INPUT)
        return (time.perf_counter_ns() - begin) / 1e3 / count

    def run() -> float:
        with tracer.running(), tracer.trajectory(sample_index=0, rollout_n=0):
            call(WARM_CALLS)
            return call(calls)

    return run


def _async_calls(tracer: Tracer, calls: int) -> Round:
    @tracer.op(name="small", kind="tool")
    async def small_op(text: str) -> str:
        return text

    async def call(count: int) -> float:
        begin = time.perf_counter_ns()
        for _ in range(count):
            await small_op(SMALL_INPUT)
        return (time.perf_counter_ns() - begin) / 1e3 / count

    async def trajectory() -> float:
        with tracer.trajectory(sample_index=0, rollout_n=0):
            await call(WARM_CALLS)
            return await call(calls)

    def run() -> float:
        with tracer.running():
            return asyncio.run(trajectory())

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a few seconds, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    arguments: Any = parser.parse_args()
    effort = QUICK if arguments.quick else FULL
    trajectories = generate(effort.at_once)
    rows = [
        *off(effort),
        *small(effort),
        *realistic(effort, length=1.0),
        *realistic(effort, length=0.25),
        *trajectories_only(effort),
        *loop_lag(effort, trajectories),
        *growth(effort),
    ]
    sys.stdout.write("\n".join(render(rows)) + "\n")
    if arguments.json:
        write_json(rows, arguments.json)


if __name__ == "__main__":
    main()
