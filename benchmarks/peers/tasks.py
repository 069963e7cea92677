"""What a peer's own process does: `python -m benchmarks.peers.tasks WORKLOAD CLASS FOLDER URL TASK`.

The last line that it prints is its answer, as JSON.
"""

import argparse
import asyncio
import json
import pickle
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.lag import lateness, summary
from benchmarks.peers.peer import Peer
from benchmarks.replay import async_replay, sync_replay
from benchmarks.tracers import Plain, Tracer
from benchmarks.workload import Trajectory

ROUNDS = 5
SMALL_CALLS = 1_000
WARM_CALLS = 20
AT_ONCE = 16
PACE = 0.2
"""Models and tools are five times as fast as the workload's own, which are ten times as fast as real ones."""


@dataclass(frozen=True)
class Work:
    """What a task is given."""

    peer: Peer
    trajectories: list[Trajectory]


def cost(work: Work) -> Any:
    """What the caller waits for, in microseconds an op, the same calls without a tracer subtracted."""
    with work.peer.running():
        return {"small_us": _added(work.peer, _small), "real_us": _added(work.peer, _replay(work.trajectories))}


def _added(peer: Peer, timed: Callable[[Tracer], float]) -> float:
    timed(peer)
    costs = [(timed(peer), timed(Plain())) for _ in range(ROUNDS)]
    return statistics.median(traced for traced, _ in costs) - statistics.median(plain for _, plain in costs)


def _small(tracer: Tracer) -> float:
    @tracer.op(name="small", kind="tool")
    def small_op(text: str) -> str:
        return text

    text = "x" * 100
    with tracer.trajectory(sample_index=0, rollout_n=0):
        for _ in range(WARM_CALLS):
            small_op(text)
        begin = time.perf_counter()
        for _ in range(SMALL_CALLS):
            small_op(text)
        return (time.perf_counter() - begin) * 1e6 / SMALL_CALLS


def _replay(trajectories: list[Trajectory]) -> Callable[[Tracer], float]:
    few = trajectories[:2]
    ops = sum(len(trajectory.ops) for trajectory in few)

    def timed(tracer: Tracer) -> float:
        replay = sync_replay(tracer)
        begin = time.perf_counter()
        for trajectory in few:
            replay(trajectory)
        return (time.perf_counter() - begin) * 1e6 / ops

    return timed


def lag(work: Work) -> Any:
    """How late the loop gets with many trajectories at once; without a tracer too."""
    lags = {}
    for name, tracer in (("plain", Plain()), ("traced", work.peer)):
        with tracer.running():
            asyncio.run(lateness(tracer, work.trajectories[:2], PACE))
            lags[name] = summary(asyncio.run(lateness(tracer, work.trajectories[:AT_ONCE], PACE)))._asdict()
    return lags


def record(work: Work) -> Any:
    """Everything, one trajectory after the other, until it is stored."""
    begin = time.perf_counter()
    with work.peer.running():
        replay = sync_replay(work.peer)
        for trajectory in work.trajectories:
            replay(trajectory)
    wait = getattr(work.peer, "wait_until_stored", None)
    if wait is not None:
        wait()
    return {"seconds": time.perf_counter() - begin}


def record_at_once(work: Work) -> Any:
    """All at once; says which have ended, to be killed at some point."""

    async def play() -> None:
        replay = async_replay(work.peer, pace=PACE)

        async def told(trajectory: Trajectory) -> None:
            await replay(trajectory)
            sys.stdout.write(f"ended {trajectory.sample_index} {trajectory.rollout_n}\n")
            sys.stdout.flush()

        await asyncio.gather(*map(told, work.trajectories))

    with work.peer.running():
        asyncio.run(play())
    return {}


def read(work: Work) -> Any:
    """Which trajectories are complete, and how long the two commonest questions take, each asked twice before."""
    ops_of = work.peer.complete_ops()
    complete = [
        [each.sample_index, each.rollout_n]
        for each in work.trajectories
        if ops_of[each.sample_index, each.rollout_n] >= len(each.ops)
    ]
    return {"complete": complete, "list": _asked(work.peer.list_step), "open": _asked(work.peer.open_one)}


def _asked(question: Callable[[], int | None]) -> dict[str, float] | None:
    try:
        answer = question()
        if answer is None:
            return None
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            question()
            times.append(time.perf_counter() - begin)
    except Exception as fault:  # a peer that lost everything finds nothing
        return {"error": f"{type(fault).__name__}: {fault}"[:200]}  # type: ignore[dict-item]
    return {"found": answer, "seconds": statistics.median(times)}


TASKS = {task.__name__: task for task in (cost, lag, record, record_at_once, read)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("workload", type=Path, help="pickled trajectories, made by the report")
    parser.add_argument("kind", help="MODULE:CLASS of the peer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("url")
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("--part", default="0/1", help="K/N: the K-th of N equal parts of the workload")
    parser.add_argument("--package", default="rolltrace", help="whose version is told")
    arguments = parser.parse_args()
    module, _, name = arguments.kind.partition(":")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    peer = getattr(import_module(module), name)(arguments.folder, arguments.url)
    part, _, parts = arguments.part.partition("/")
    trajectories = pickle.loads(arguments.workload.read_bytes())[int(part) :: int(parts)]
    answer = TASKS[arguments.task](Work(peer, trajectories))
    sys.stdout.write(json.dumps({**answer, "version": version(arguments.package)}) + "\n")


if __name__ == "__main__":
    main()
