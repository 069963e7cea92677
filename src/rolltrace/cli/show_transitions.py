"""The environment steps of a trajectory, one line each, for `rolltrace show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rolltrace.cli.output import cut, paint, plain, screen_width

if TYPE_CHECKING:
    from rolltrace.query import Trajectory


def print_transitions(trajectory: Trajectory, full: bool) -> None:
    """Reward with its terms, how it ended, and what the policy answered. Numbers are as they were recorded."""
    for at, row in enumerate(trajectory.transitions):
        reward = "" if row["reward"] is None else f" reward {paint(plain(row['reward']), 'bold')}"
        rest = _rest(row)
        if not full:
            rest = cut(rest, max(40, screen_width() - len(f"  {at}{reward}")))
        print(f"  {paint(str(at), 'dim')}{reward}{rest}")


def _rest(row: dict[str, Any]) -> str:
    from rolltrace.query.pruned import PRUNED_KEY

    trace = row["trace"] if isinstance(row["trace"], dict) else {}
    fields = row["fields"] or {}
    said = []
    terms = _numbers(trace.get("reward_data"))
    if terms:
        said.append(f"({terms})")
    said += ["done"] * bool(row["episode_done"]) + ["said later"] * bool(row["backfill"] or row["amends"])
    if row["stop_reason"] is not None:
        said.append(f"stopped by {plain(row['stop_reason'])}")
    error = fields.get("error")
    if isinstance(error, dict) and error.get("message"):
        said.append(f"✗ {plain(error['message'])}")
    metrics = _numbers(fields.get("metrics"))
    if metrics:
        said.append(f"[{metrics}]")
    said += [_before(each) for each in row["earlier"]]
    if PRUNED_KEY in trace:
        said.append(plain(trace[PRUNED_KEY]))
    response = trace.get("policy_response")
    if response is not None:
        said.append(f"→ {plain(response)}")
    return "".join(f" {each}" for each in said)


def _before(earlier: dict[str, Any]) -> str:
    """What a later word replaced: `(before: reward 0.5, done false)`."""
    return f"(before: {_numbers({name: value for name, value in earlier.items() if name != 'time_ns'})})"


def _numbers(value: Any) -> str:
    """Terms or metrics: `format 1.0, answer 0.5`."""
    if not isinstance(value, dict):
        return "" if value is None else plain(value)
    return ", ".join(f"{plain(key)} {plain(item)}" for key, item in value.items())
