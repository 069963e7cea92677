"""The environment steps of a trajectory, one line each, for `rolltrace show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rolltrace.cli.output import cut, paint, plain, screen_width

if TYPE_CHECKING:
    from rolltrace.query import Trajectory, Transition


def print_transitions(trajectory: Trajectory, full: bool) -> None:
    """Reward with its terms, how it ended, and what the policy answered. Numbers are as they were recorded."""
    for at, step in enumerate(trajectory.transitions):
        reward = "" if step.reward is None else f" reward {paint(plain(step.reward), 'bold')}"
        rest = _rest(step)
        if not full:
            rest = cut(rest, max(40, screen_width() - len(f"  {at}{reward}")))
        print(f"  {paint(str(at), 'dim')}{reward}{rest}")


def _rest(step: Transition) -> str:
    from rolltrace.query import PRUNED_KEY

    trace = step.trace if isinstance(step.trace, dict) else {}
    fields = step.fields or {}
    words = []
    terms = _numbers(trace.get("reward_data"))
    if terms:
        words.append(f"({terms})")
    words += ["done"] * bool(step.episode_done) + ["back-filled"] * bool(step.backfill) + ["amendment"] * step.amends
    if step.stop_reason is not None:
        words.append(f"stopped by {plain(step.stop_reason)}")
    error = fields.get("error")
    if isinstance(error, dict) and error.get("message"):
        words.append(f"✗ {plain(error['message'])}")
    metrics = _numbers(fields.get("metrics"))
    if metrics:
        words.append(f"[{metrics}]")
    words += [_before(each) for each in step.earlier]
    if PRUNED_KEY in trace:
        words.append(plain(trace[PRUNED_KEY]))
    response = trace.get("policy_response")
    if response is not None:
        words.append(f"→ {plain(response)}")
    return "".join(f" {each}" for each in words)


def _before(earlier: dict[str, Any]) -> str:
    """What a later word replaced: `(before: reward 0.5, done false)`."""
    return f"(before: {_numbers({name: value for name, value in earlier.items() if name != 'time_ns'})})"


def _numbers(value: Any) -> str:
    """Terms or metrics: `format 1.0, answer 0.5`."""
    if not isinstance(value, dict):
        return "" if value is None else plain(value)
    return ", ".join(f"{plain(key)} {plain(item)}" for key, item in value.items())
