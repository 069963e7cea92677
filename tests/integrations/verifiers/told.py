"""What a recorded rollout must say, from verifiers' own trace of it."""

from __future__ import annotations

from typing import Any

import pytest

from rolltrace.query import Trajectory


def check_rollout(trajectory: Trajectory, trace: Any, *, decimals: int | None) -> None:
    """Calls, tokens, tools, rewards, times and errors are those of the trace; logprobs may be rounded."""
    calls = [op for op in trajectory.walk() if op.kind == "llm"]
    assert len(calls) == len(trace.calls)
    of_node = {call.node: call for call in trace.calls if call.node is not None}
    turns = [op for op in calls if op.status == "ok"]
    tokens = list(trajectory.tokens)
    for op, kept, (at, call) in zip(turns, tokens, of_node.items()):
        path = path_to(trace, at)
        ids = [each for node in path for each in trace.nodes[node].token_ids]
        sampled = sum(trace.nodes[at].mask)
        assert [*kept.prompt_ids, *kept.response_ids] == ids
        assert len(kept.response_ids) == sampled
        logprobs = trace.nodes[at].logprobs
        assert kept.logprobs == pytest.approx(logprobs if decimals is None else rounded(logprobs, decimals), rel=1e-6)
        assert op.outputs["message"].get("content", "") == (trace.nodes[at].message.content or "")
        assert [message["role"] for message in op.inputs["messages"]] == [
            trace.nodes[node].message.role for node in path[:-1]
        ]
        assert op.start_ns == pytest.approx(call.time.start * 1e9, abs=1e5)
        assert op.end_ns == pytest.approx(call.time.end * 1e9, abs=1e5)
        assert op.finish_reason == call.finish_reason
    failed = [call for call in trace.calls if call.error is not None]
    assert [op.error for op in calls if op.status == "error"] == [
        f"{call.error.type}: {call.error.message}" for call in failed
    ]
    results = [node.message for node in trace.nodes if node.message.role == "tool"]
    assert [op.outputs for op in trajectory.walk() if op.kind == "tool"] == [each.content for each in results]
    check_scores(trajectory, trace)
    phases = {op.name for op in trajectory.ops if op.kind == "other"}
    assert phases == {
        name for name in ("boot", "setup", "agent", "finalize", "scoring") if getattr(trace.timing, name).start
    }
    assert (trajectory.status == "ok") == trace.ok
    if trace.errors:
        assert trajectory.error == f"{trace.errors[-1].type}: {trace.errors[-1].message}"


def check_scores(trajectory: Trajectory, trace: Any) -> None:
    newest = trajectory.newest_scores
    if trace.rewards:
        assert newest["reward"].value == pytest.approx(trace.reward)
        assert newest["reward"].terms == {name: each and each.score for name, each in trace.rewards.items()}
        assert newest["reward_weights"].terms == {
            name: each.weight for name, each in trace.rewards.items() if each is not None
        }
    for name, value in trace.metrics.items():
        assert newest[name].value == value


def rounded(values: list[float], decimals: int) -> list[float]:
    return [round(value, decimals) for value in values]


def path_to(trace: Any, at: int | None) -> list[int]:
    path: list[int] = []
    while at is not None:
        path.append(at)
        at = trace.nodes[at].parent
    return path[::-1]
