"""Plays a trajectory through any tracer: each op is a traced method called with the op's own inputs."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import rolltrace
from benchmarks.rounds import Round
from benchmarks.tracers import Rolltrace, Tracer
from benchmarks.workload import Op, Trajectory


def sync_replay(tracer: Tracer) -> Callable[[Trajectory], None]:
    """Returns a function that plays a trajectory at once, without waits."""

    class Agent:
        def __init__(self, trajectory: Trajectory) -> None:
            self._starting = iter(trajectory.ops)

        @tracer.op(name="run", kind="other")
        def run(self, raw_prompt: Any, sampling_params: Any) -> Any:
            return self._inside()

        @tracer.op(name="generate", kind="llm")
        def generate(self, request_id: Any, prompt_ids: Any, messages: Any, sampling_params: Any) -> Any:
            return self._inside()

        @tracer.op(name="parse", kind="other")
        def parse(self, response_ids: Any) -> Any:
            return self._inside()

        @tracer.op(name="call_tool", kind="tool")
        def call_tool(self, tool_call: Any, tools_kwargs: Any) -> Any:
            return self._inside()

        def play(self, op: Op) -> Any:
            return getattr(self, op.name)(**op.inputs)

        def _inside(self) -> Any:
            op = next(self._starting)
            for child in op.children:
                self.play(child)
            return op.output

    def replay(trajectory: Trajectory) -> None:
        with tracer.trajectory(sample_index=trajectory.sample_index, rollout_n=trajectory.rollout_n):
            Agent(trajectory).play(trajectory.root)

    return replay


def async_replay(tracer: Tracer, *, pace: float = 1.0) -> Callable[[Trajectory], Awaitable[None]]:
    """Returns a coroutine function that plays a trajectory with its waits, times `pace`."""

    class Agent:
        def __init__(self, trajectory: Trajectory) -> None:
            self._starting = iter(trajectory.ops)

        @tracer.op(name="run", kind="other")
        async def run(self, raw_prompt: Any, sampling_params: Any) -> Any:
            return await self._inside()

        @tracer.op(name="generate", kind="llm")
        async def generate(self, request_id: Any, prompt_ids: Any, messages: Any, sampling_params: Any) -> Any:
            return await self._inside()

        @tracer.op(name="parse", kind="other")
        async def parse(self, response_ids: Any) -> Any:
            return await self._inside()

        @tracer.op(name="call_tool", kind="tool")
        async def call_tool(self, tool_call: Any, tools_kwargs: Any) -> Any:
            return await self._inside()

        async def play(self, op: Op) -> Any:
            return await getattr(self, op.name)(**op.inputs)

        async def _inside(self) -> Any:
            op = next(self._starting)
            for child in op.children:
                await self.play(child)
            await asyncio.sleep(op.wait_sec * pace)
            return op.output

    async def replay(trajectory: Trajectory) -> None:
        with tracer.trajectory(sample_index=trajectory.sample_index, rollout_n=trajectory.rollout_n):
            await Agent(trajectory).play(trajectory.root)

    return replay


def record(store: Path, trajectories: list[Trajectory], **settings: Any) -> None:
    """Writes these trajectories into the journal of a store."""
    rolltrace.init("bench", "replay", "rolltrace", store=store, drain="off", **settings)
    replay = sync_replay(Rolltrace())
    for trajectory in trajectories:
        replay(trajectory)
    rolltrace.shutdown()


def replays(
    tracer: Tracer, trajectories: list[Trajectory], *, clock_ns: Callable[[], int] = time.perf_counter_ns
) -> Round:
    """Returns a round that plays these trajectories one after the other."""
    replay = sync_replay(tracer)
    ops = sum(len(trajectory.ops) for trajectory in trajectories)

    def run() -> float:
        with tracer.running():
            # The first records open the journal (and start the peer's thread); a run does this once.
            replay(trajectories[0])
            begin = clock_ns()
            for trajectory in trajectories:
                replay(trajectory)
            return (clock_ns() - begin) / 1e3 / ops

    return run
