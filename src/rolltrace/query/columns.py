"""The columns of `trajectories`, each once. Views, filters, comparisons, pages and docs are derived from this table.

The headers of `rolltrace ls` and `rolltrace groups` may be typed too: each is another name for a field of a filter, or
for a column to sort by or to choose.

The SQL stands in the listing (query/views.py), over `every` (the trajectories), `calls` (sums over their ops), `found`
(their flags), `marked` (their labels) and the newest of their scores. `Trajectory` has an attribute of each name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

ColumnKind = Literal["integer", "number", "text", "bool", "sample", "texts", "tags"]


class TrajectoryColumn(NamedTuple):
    """One column of `trajectories`."""

    name: str
    kind: ColumnKind
    """`integer` is a number that is never NaN; `sample` an int or text; `texts` a list; `tags` an object."""
    sql: str
    meaning: str
    comparable: bool = True
    """A comparison looks at it. Not at what always differs, nor at scores, which it compares for themselves."""
    on_page: bool = True
    """An HTML page shows it, if there is anything."""


def _plain(
    name: str, kind: ColumnKind, meaning: str, *, comparable: bool = True, on_page: bool = True
) -> TrajectoryColumn:
    return TrajectoryColumn(name, kind, f"every.{name}", meaning, comparable, on_page)


_Column = TrajectoryColumn
COLUMNS = (
    _plain("trajectory_id", "text", "32 hexadecimal digits", comparable=False),
    _plain("project", "text", "project name"),
    _plain("experiment", "text", "experiment name"),
    _plain("step", "integer", "training step"),
    _plain("sample_index", "sample", "which dataset sample; `3` and `'3'` are the same"),
    _plain("rollout_n", "integer", "which of the n rollouts of that sample"),
    _plain("validate", "bool", "a validation rollout"),
    _plain("name", "text", "what the trajectory is called", on_page=False),
    _plain("status", "text", "`'ok'`, `'error'`, `'cancelled'`, `'running'` or `'interrupted'`"),
    _plain("error", "text", "type and message of the exception that ended it"),
    _plain("start_ns", "integer", "start, nanoseconds since 1970", comparable=False, on_page=False),
    _plain(
        "end_ns", "integer", "end, nanoseconds since 1970; missing while it runs", comparable=False, on_page=False
    ),
    _Column("duration_s", "number", "(end_ns - start_ns) / 1e9", "seconds from start to end"),
    _Column("turns", "integer", "coalesce(calls.turns, 0)", "how many llm ops"),
    _Column("tool_calls", "integer", "coalesce(calls.tool_calls, 0)", "how many tool ops"),
    _Column("tool_errors", "integer", "coalesce(calls.tool_errors, 0)", "how many tool ops ended in an error"),
    _Column("prompt_tokens", "integer", "calls.prompt_tokens", "prompt tokens"),
    _Column("response_tokens", "integer", "calls.response_tokens::BIGINT", "response tokens"),
    _Column("reward", "number", "reward", "newest reward", comparable=False),
    _Column(
        "policy_version_min", "integer", "calls.policy_version_min", "oldest weights that produced its tokens"
    ),
    _Column(
        "policy_version_max", "integer", "calls.policy_version_max", "newest weights that produced its tokens"
    ),
    _Column("flags", "texts", "coalesce(found.flags, []::VARCHAR[])", "the flags that rolltrace set"),
    _Column(
        "labels", "texts", "coalesce(marked.labels, []::VARCHAR[])", "the labels that people gave it or a turn of it",
        comparable=False,
    ),
    _plain("tags", "tags", "its tags; JSON text in SQL, a dict in Python"),
    _plain("worker", "text", "host and process that wrote it"),
    _Column("advantage", "number", "advantage", "newest advantage", comparable=False, on_page=False),
    _Column(
        "fate", "text", "fate", "what training did with it, such as `'trained'` or `'filtered'`",
        comparable=False, on_page=False,
    ),
    _Column("fate_reason", "text", "fate_reason", "why", comparable=False, on_page=False),
    _Column(
        "staleness", "integer",
        "CASE WHEN coalesce(trained_step, every.step) >= calls.policy_version_min "
        "THEN coalesce(trained_step, every.step) - calls.policy_version_min END",
        "`trained_step`, or `step` if that is not known, minus the oldest weights that produced its tokens",
        comparable=False, on_page=False,
    ),
    _plain("run", "text", "the training job that wrote it; asking for it shows older runs too"),
    _Column(
        "superseded", "bool",
        "coalesce(run, '') <> newest_run AND (every.step IS NOT NULL OR sample_index IS NOT NULL)",
        "a newer run of the experiment reached the same step", comparable=False,
    ),
    _Column(
        "trained_step", "integer", "trained_step", "the step that trained on it, as its newest fate says",
        comparable=False, on_page=False,
    ),
)  # fmt: skip
"""In the order of the view. `prompt_tokens` is that of the last model call, `response_tokens` the sum over all."""

TRAJECTORY_COLUMNS = tuple(column.name for column in COLUMNS)
"""The names."""

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

FILTER_HEADERS: Mapping[str, str] = {**TRAJECTORY_HEADERS, "flags": "flag", "labels": "label"}
"""Header -> field of a filter on trajectories."""

GROUP_FILTER_HEADERS: Mapping[str, str] = {
    **FILTER_HEADERS,
    **{name: f"group.{GROUP_HEADERS.get(name, name)}" for name in ("n", "pass", "tokens", "slowest")},
    **{name: f"group.{name}" for name in ("mean", "std", "min", "max", "errors")},
}
"""Header -> field of a filter on groups. `turns` stays the turns of a trajectory, which is a field of its own."""
