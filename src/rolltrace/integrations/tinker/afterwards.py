"""Rollouts of a recipe that has its own: what can be known of them from the `Trajectory` that it returns."""

from __future__ import annotations

from typing import Any

import rolltrace
from rolltrace._guard import caught
from rolltrace.integrations.tinker.coordinates import GroupPosition
from rolltrace.integrations.tinker.rollout import MARK, prompt_of

_RECORDED = "afterwards"


def record_afterwards(
    trajectory: Any, position: GroupPosition, tags: dict[str, Any], version: int | None
) -> rolltrace.TrajectoryHandle | None:
    """Record a whole trajectory at once. There are no times, and no messages: only tokens."""
    try:
        number = position.next()
        entry = rolltrace.rollout_trace_attr(
            position.sample_index, position.step, number, "rollout", position.validate, recorded=_RECORDED, **tags
        )
        with entry as handle:
            last = len(trajectory.transitions) - 1
            for turn, transition in enumerate(trajectory.transitions):
                _policy(transition, version)
                handle.transition(
                    reward=transition.reward,
                    episode_done=transition.episode_done,
                    metrics=dict(transition.metrics),
                    logs=dict(transition.logs),
                    stop_reason=trajectory.stop_reason if turn == last else None,
                )
        trajectory.__dict__[MARK] = {"id": handle.id, "rollout_n": number}
        return handle
    except Exception:
        caught("tinker trajectory")
        return None


@rolltrace.rollout_trace_op(name="policy", kind="llm", inputs=lambda arguments: prompt_of(arguments["transition"].ob))
def _policy(transition: Any, version: int | None) -> dict[str, Any]:
    tokens = transition.ac.tokens
    return {
        "response_ids": tokens,
        "logprobs": transition.ac.maybe_logprobs,
        "response_mask": [1] * len(tokens),
        "finish_reason": transition.ac.stop_reason,
        "policy_version": version,
    }
