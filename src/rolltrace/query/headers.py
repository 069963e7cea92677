"""Names that stand above the columns of `rolltrace ls` and `rolltrace groups`: what is read there may be typed.

A header is another name for a field of a filter, or for a column to sort by or to choose.
"""

from __future__ import annotations

from collections.abc import Mapping

TRAJECTORY_HEADERS: Mapping[str, str] = {
    "id": "trajectory_id",
    "sample": "sample_index",
    "n": "rollout_n",
    "val": "validate",
    "tools": "tool_calls",
    "tokens": "response_tokens",
    "took": "duration_s",
    "started": "start_ns",
}
"""Header of `rolltrace ls` -> column of `trajectories`; all others are the columns' own names."""

GROUP_HEADERS: Mapping[str, str] = {
    "sample": "sample_index",
    "n": "size",
    "val": "validate",
    "pass": "pass_rate",
    "tokens": "response_tokens_mean",
    "turns": "turns_mean",
    "slowest": "duration_s_max",
}
"""Header of `rolltrace groups` -> column of `groups`."""

FILTER_HEADERS: Mapping[str, str] = {**TRAJECTORY_HEADERS, "flags": "flag"}
"""Header -> field of a filter on trajectories."""

GROUP_FILTER_HEADERS: Mapping[str, str] = {
    **FILTER_HEADERS,
    **{name: f"group.{GROUP_HEADERS.get(name, name)}" for name in ("n", "pass", "tokens", "slowest")},
    **{name: f"group.{name}" for name in ("mean", "std", "min", "max", "errors")},
}
"""Header -> field of a filter on groups. `turns` stays the turns of a trajectory, which is a field of its own."""
