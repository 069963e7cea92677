"""`Live`: rollouts of verifiers are recorded turn by turn, by the hooks that `run_slot` has for whoever watches."""

from __future__ import annotations

import time
from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.capture import ToldTrajectory, scope
from rolltrace.exchange import PastTrace, TraceGraph, place_of_episode, read_trace
from rolltrace.integrations.verifiers.tell import tell_ops, tell_scores, trajectory_id_of
from rolltrace.record import Coordinates, Error, SampleIndex

_RAW = {"routed_experts", "sampling_mask"}
"""Arrays that verifiers keeps out of its own records too."""
_EXACT = {"float_decimals": None}
"""verifiers rounds logprobs in its records, unless asked not to."""


class Live:
    """Records what `run_slot` runs.

        live = Live(step=3)
        episode = await env.run_slot(slot, ctx, on_trace=live.on_trace, on_complete=live.on_complete)

    One serves any number of slots, also at the same time. Without `on_complete` a rollout ends when it was scored; what
    is said of it afterwards, as by `Env.finalize`, is not known then.

    Args:
        step: Training step.
        env: What the environment is called; samples are then `ENV/INDEX`.
        sample_index: Which sample; that of the task if not given.
        rollout_n: Which of its rollouts; the next one if not given.
        validate: Validation rollouts.
        **tags: Anything else worth filtering by.
    """

    def __init__(
        self,
        step: int | None = None,
        *,
        env: str | None = None,
        sample_index: SampleIndex | None = None,
        rollout_n: int | None = None,
        validate: bool = False,
        **tags: Any,
    ) -> None:
        self._step, self._env, self._validate, self._tags = step, env, validate, tags
        self._sample_index, self._rollout_n = sample_index, rollout_n
        self._open: dict[str, _Following] = {}

    def on_trace(self, trace: Any) -> None:
        """A rollout begins: for the argument `on_trace` of `run_slot`."""
        if scope.recorder is None:
            return
        try:
            following = self._open[trace.id] = _Following(trace, self._begin(trace), self._env)
            before = getattr(trace, "_on_change", None)

            def changed(trace: Any) -> None:
                if before is not None:
                    before(trace)
                following.changed(trace)
                if following.is_over:
                    self._open.pop(trace.id, None)

            trace.watch(changed)
        except Exception:
            caught("verifiers trace")

    async def on_complete(self, episode: Any) -> None:
        """An episode is over: for the argument `on_complete` of `run_slot`."""
        if scope.recorder is None:
            return
        try:
            of_episode = {trace.id: trace for trace in episode.traces}
            for trace_id, trace in of_episode.items():
                following = self._open.pop(trace_id, None)
                if following is not None:
                    following.finish(trace, episode)
        except Exception:
            caught("verifiers episode")

    def _begin(self, trace: Any) -> ToldTrajectory:
        task = trace.task.model_dump(mode="json")
        place = place_of_episode({"task": task, "env": {"id": self._env}})
        sample = place.sample_index if self._sample_index is None else self._sample_index
        number = self._rollout_n
        if number is None:
            number = rolltrace.capture.next_rollout_n(sample, self._step, validate=self._validate)
        where = Coordinates(self._step, sample, number, self._validate)
        tags = {"task": task.get("key"), "task_data": task.get("data"), **self._tags}
        return ToldTrajectory(
            bytes.fromhex(trajectory_id_of(trace.id)), where, trace.agent.name, int(trace.timing.start * 1e9), tags
        )


class _Following:
    """A rollout that is going on."""

    def __init__(self, trace: Any, trajectory: ToldTrajectory, env: str | None) -> None:
        self._trajectory = trajectory
        self._env = env
        self._agent_id = trajectory.reserve()
        self._nodes: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._told_nodes = self._told_calls = self._branches = 0
        self.is_over = False

    def changed(self, trace: Any) -> None:
        """A turn was committed, or a phase is over."""
        try:
            if self.is_over or scope.recorder is None:
                return
            if len(trace.calls) > len(self._calls):
                self._tell(trace)
            if trace.timing.scoring.end or trace.errors:
                self.finish(trace, None)
        except Exception:
            caught("verifiers turn")

    def finish(self, trace: Any, episode: Any) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._tell(trace)
        past = self._read(trace, episode)
        phases = [op for op in past.ops if not op.is_inside]
        tell_ops(self._trajectory, phases, self._agent_id)
        tell_scores(self._trajectory.handle, past)
        branches = {"branches": self._branches} if self._branches > 1 else {}
        self._trajectory.handle.tag(**past.tags, **branches)
        error = None
        if past.error is not None:
            kind, _, message = past.error.partition(": ")
            error = Error(kind, message, past.traceback or "")
        self._trajectory.end(time.time_ns(), "error" if error is not None else "ok", error)

    def _tell(self, trace: Any) -> None:
        """Record what is new."""
        for node in trace.nodes[len(self._nodes) :]:
            self._nodes.append(node.model_dump(mode="json", exclude=_RAW, context=_EXACT))
        for call in trace.calls[len(self._calls) :]:
            self._calls.append(call.model_dump(mode="json"))
        tools = [tool.model_dump(mode="json", exclude_none=True) for tool in trace.tools]
        graph = TraceGraph(self._nodes, self._calls, int(trace.timing.start * 1e9), tools=tools)
        tell_ops(self._trajectory, graph.ops(self._told_nodes, self._told_calls, live=True), self._agent_id)
        self._told_nodes, self._told_calls = len(self._nodes), len(self._calls)
        self._branches = len(graph.leaves)

    def _read(self, trace: Any, episode: Any) -> PastTrace:
        record = trace.model_dump(mode="json", exclude={"nodes", "calls", "tools"})
        record["ok"] = not trace.errors  # not yet said while the last phase ends
        about = {"task": record["task"], "env": {"id": self._env}}
        if episode is not None:
            about = {**about, **episode.model_dump(mode="json", exclude={"traces"})}
        return read_trace(record, about, time.time_ns())
