"""What was recorded against what tinker-cookbook returned."""

from __future__ import annotations

from typing import Any

from rolltrace.query import Trajectory
from rolltrace.record import Snapshotter, decode_value


def plain(value: Any) -> Any:
    """A value of tinker-cookbook's as it reads back from a store, by way of the very bytes."""
    return decode_value(
        Snapshotter(max_bytes=1 << 30, max_items=1 << 20, max_depth=100, max_array_bytes=1 << 20).take(value)
    )


def differences(recorded: Trajectory, native: Any) -> list[str]:
    """Where a recorded trajectory is not the `Trajectory` that was returned."""
    found = []
    if len(recorded.transitions) != len(native.transitions):
        return [f"{len(recorded.transitions)} transitions, not {len(native.transitions)}"]
    last = len(native.transitions) - 1
    policy = [op for op in recorded.walk() if op.kind == "llm"]
    turns = iter(policy)
    for at, (ours, theirs) in enumerate(zip(recorded.transitions, native.transitions)):
        fields = ours["fields"] or {}
        expected = {
            "reward": theirs.reward,
            "episode_done": theirs.episode_done,
            "metrics": dict(theirs.metrics),
            "logs": dict(theirs.logs),
            "stop_reason": native.stop_reason if at == last else None,
        }
        seen = {
            "reward": ours["reward"],
            "episode_done": ours["episode_done"],
            "metrics": fields.get("metrics") or {},
            "logs": fields.get("logs") or {},
            "stop_reason": ours["stop_reason"],
        }
        found += [
            f"{at}: {name} {seen[name]!r}, not {expected[name]!r}" for name in seen if seen[name] != expected[name]
        ]
        if theirs.ac.tokens:
            found += [f"{at}: {each}" for each in _token_differences(next(turns), theirs)]
    return found


def _token_differences(op: Any, theirs: Any) -> list[str]:
    tokens = op.tokens
    expected = (theirs.ob.to_ints(), theirs.ac.tokens, theirs.ac.maybe_logprobs)
    seen = (tokens.prompt_ids, tokens.response_ids, [round(each, 6) for each in tokens.logprobs])
    expected = (*expected[:2], [round(each, 6) for each in expected[2]])
    names = ("prompt_ids", "response_ids", "logprobs")
    return [f"{name} {one!r}, not {other!r}" for name, one, other in zip(names, seen, expected) if one != other]
