"""`RolltraceMonitor`: a monitor of prime-rl that records episodes as they arrive, and which of them are trained on.

prime-rl logs every episode once as part of `all` when it arrives, and those that it ships to the trainer once more as
part of `effective`, with their advantages.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from inspect import BoundArguments
from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.exchange import mean_advantage, place_of_episode, read_trace, traces_of
from rolltrace.integrations.after_import import after_import, waiting_for
from rolltrace.integrations.seams import Steps, hook
from rolltrace.integrations.verifiers import tell_trace, trajectory_id_of
from rolltrace.record import Coordinates


class RolltraceMonitor:
    """Has the methods that prime-rl calls of a monitor: `monitors.MONITORS.append(RolltraceMonitor())`."""

    def __init__(self, config: Any = None) -> None:
        self.config = config
        self._lock = asyncio.Lock()

    async def init(self, **kwargs: Any) -> None:
        """There is nothing to set up: tracing is turned on as everywhere."""

    async def log(self, data: Any, step: int, kind: str = "train", subset: str = "effective") -> None:
        """Metrics, which are not kept, or episodes."""
        if not isinstance(data, dict):
            episodes = data if isinstance(data, list) else [data]
            await self.log_episodes(episodes, step=step, kind=kind, subset=subset)

    async def log_metrics(self, metrics: dict[str, Any], step: int) -> None:
        """Metrics are for others."""

    async def log_episodes(self, episodes: Iterable[Any], step: int, kind: str, subset: str) -> None:
        """Record episodes. The work is done in a thread: to read them would hold up the event loop."""
        if scope.recorder is not None:
            async with self._lock:  # numbers of rollouts are handed out in the order of arrival
                await asyncio.to_thread(self._record, list(episodes), step, kind, subset)

    async def finalize(self) -> None:
        """The run is over."""
        await asyncio.to_thread(rolltrace.flush)

    def _record(self, episodes: list[Any], step: int, kind: str, subset: str) -> None:
        for episode in episodes:
            try:
                if subset == "all":
                    record_episode(episode.to_record(float_decimals=None), step, validate=kind == "eval")
                elif kind == "train":
                    record_shipped(episode, step)
            except Exception:
                caught("prime-rl episode")


def record_episode(episode: dict[str, Any], step: int | None, *, validate: bool) -> None:
    """Record all traces of an episode, which is a record as verifiers writes them."""
    place = place_of_episode(episode)
    at = place.step if place.step is not None else step
    traces = traces_of(episode)
    recorder = scope.recorder
    for trace in traces:
        past = read_trace(trace, episode, 0 if recorder is None else recorder.wall_ns())
        sample = place.sample_index
        if len(traces) > 1 and sample is not None:
            sample = f"{sample}/{past.name}"
        number = rolltrace.capture.next_rollout_n(sample, at, validate=validate or place.validate)
        tell_trace(past, Coordinates(at, sample, number, validate or place.validate))


def record_shipped(episode: Any, step: int) -> None:
    """An episode goes to the trainer: by now its tokens have advantages."""
    for trace in episode.traces:
        trajectory_id = trajectory_id_of(trace.id)
        nodes = [{"advantages": node.advantages} for node in trace.nodes if node.advantages is not None]
        advantage = mean_advantage(nodes)
        if advantage is not None:
            rolltrace.score(trajectory_id, "advantage", advantage)
        if trace.agent.trainable:
            rolltrace.score(trajectory_id, "fate", "trained", trained_step=step)


_is_installed = False


@waiting_for("prime_rl")
def install_when_imported() -> None:
    """Add the monitor when prime-rl sets up its own; done once per process."""
    global _is_installed
    if not _is_installed:
        _is_installed = True
        after_import("prime_rl.monitors", _change_monitors)


def _change_monitors(module: Any) -> None:
    """Change `prime_rl.monitors`."""

    def add_ours(call: BoundArguments) -> Steps:
        yield
        is_first_rank = int(os.environ.get("RANK", os.environ.get("DP_RANK", "0"))) == 0
        if is_first_rank and not any(isinstance(each, RolltraceMonitor) for each in module.MONITORS):
            module.MONITORS.append(RolltraceMonitor())

    hook(module, "setup", add_ours, always=True)
