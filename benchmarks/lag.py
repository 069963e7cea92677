"""How late an event loop gets while many trajectories are traced on it."""

import asyncio
import gc
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from benchmarks.replay import async_replay
from benchmarks.tracers import Tracer
from benchmarks.workload import Trajectory

TICK_SEC = 0.001


class Lag(NamedTuple):
    """How many milliseconds late a timer of 1 ms fired, over all ticks of all rounds."""

    p50_ms: float
    p99_ms: float
    max_ms: float


class LagReport(NamedTuple):
    """The lag under each tracer, and the load that the first of them was under."""

    lags: dict[str, Lag]
    ops_per_sec: float


def measure(
    tracers: Mapping[str, Tracer], trajectories: Sequence[Trajectory], *, rounds: int, pace: float
) -> LagReport:
    """Runs all trajectories at once on one loop, tracers interleaved, after one warm-up round each.

    `pace` stretches the waits of the workload: 0.1 makes models and tools ten times as fast.

    The ticks of the rounds are pooled rather than summed up by a median, so that one bad stall shows.
    """
    ticks: dict[str, list[float]] = {name: [] for name in tracers}
    elapsed_sec = dict.fromkeys(tracers, 0.0)
    for number in range(rounds + 1):
        for name, tracer in tracers.items():
            gc.collect()
            with tracer.running():
                begin = time.perf_counter()
                late = asyncio.run(lateness(tracer, trajectories, pace))
                end = time.perf_counter()
            if number:
                ticks[name] += late
                elapsed_sec[name] += end - begin
    ops = sum(len(trajectory.ops) for trajectory in trajectories) * rounds
    lags = {name: summary(late) for name, late in ticks.items()}
    return LagReport(lags, ops / next(iter(elapsed_sec.values())))


async def lateness(tracer: Tracer, trajectories: Sequence[Trajectory], pace: float) -> list[float]:
    """Plays all of them at once; returns by how many seconds each tick was late."""
    replay = async_replay(tracer, pace=pace)
    late: list[float] = []
    ticker = asyncio.create_task(_tick(late))
    await asyncio.gather(*map(replay, trajectories))
    ticker.cancel()
    with suppress(asyncio.CancelledError):
        await ticker
    return late


async def _tick(late: list[float]) -> None:
    while True:
        begin = time.perf_counter()
        await asyncio.sleep(TICK_SEC)
        late.append(time.perf_counter() - begin - TICK_SEC)


def summary(late: Sequence[float]) -> Lag:
    ordered = sorted(late)
    last = len(ordered) - 1
    return Lag(*(ordered[round(last * share)] * 1e3 for share in (0.5, 0.99, 1.0)))
