"""The columns of `trajectories`, each once. Views, filters, comparisons, pages and docs are derived from this table.

The headers of `rolltrace ls` and `rolltrace groups` may be typed too: each is another name for a field of a filter, or
for a column to sort by or to choose.

Each is a column of the table `trajectories` too, and what is added there is here. `Trajectory` has an attribute of each
name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from rolltrace.tables import TRAJECTORIES

ColumnKind = Literal["integer", "number", "text", "bool", "sample", "texts", "tags"]


class TrajectoryColumn(NamedTuple):
    """One column of `trajectories`."""

    name: str
    kind: ColumnKind
    """`integer` is a number that is never NaN; `sample` an int or text; `texts` a list; `tags` an object."""
    meaning: str
    comparable: bool = True
    """A comparison looks at it. Not at what always differs, nor at scores, which it compares for themselves."""
    on_page: bool = True
    """An HTML page shows it, if there is anything."""


_column = TrajectoryColumn

_NAMED = (
    _column("trajectory_id", "text", "32 hexadecimal digits", comparable=False),
    _column("project", "text", "project name"),
    _column("experiment", "text", "experiment name"),
    _column("step", "integer", "training step"),
    _column("sample_index", "sample", "which dataset sample; `3` and `'3'` are the same"),
    _column("rollout_n", "integer", "which of the n rollouts of that sample"),
    _column("validate", "bool", "a validation rollout"),
    _column("name", "text", "what the trajectory is called", on_page=False),
    _column("status", "text", "`'ok'`, `'error'`, `'cancelled'`, `'running'` or `'interrupted'`"),
    _column("error", "text", "type and message of the exception that ended it"),
    _column("start_ns", "integer", "start, nanoseconds since 1970", comparable=False, on_page=False),
    _column(
        "end_ns", "integer", "end, nanoseconds since 1970; missing while it runs", comparable=False, on_page=False
    ),
    _column("duration_s", "number", "seconds from start to end"),
    _column("turns", "integer", "how many llm ops"),
    _column("tool_calls", "integer", "how many tool ops"),
    _column("tool_errors", "integer", "how many tool ops ended in an error"),
    _column("prompt_tokens", "integer", "prompt tokens"),
    _column("response_tokens", "integer", "response tokens"),
    _column("reward", "number", "newest reward", comparable=False),
    _column("policy_version_min", "integer", "oldest weights that produced its tokens"),
    _column("policy_version_max", "integer", "newest weights that produced its tokens"),
    _column("flags", "texts", "the flags that rolltrace set"),
    _column("labels", "texts", "the labels that people gave it or a turn of it", comparable=False),
    _column("tags", "tags", "its tags; JSON text in SQL, a dict in Python"),
    _column("worker", "text", "host and process that wrote it"),
    _column("advantage", "number", "newest advantage", comparable=False, on_page=False),
    _column(
        "fate", "text", "what training did with it, such as `'trained'` or `'filtered'`", comparable=False,
        on_page=False,
    ),
    _column("fate_reason", "text", "why", comparable=False, on_page=False),
    _column(
        "staleness", "integer",
        "`trained_step`, or `step` if that is not known, minus the oldest weights that produced its tokens",
        comparable=False, on_page=False,
    ),
    _column("run", "text", "the training job that wrote it; asking for it shows older runs too"),
    _column("superseded", "bool", "a newer run of the experiment reached the same step", comparable=False),
    _column(
        "trained_step", "integer", "the step that trained on it, as its newest fate says", comparable=False,
        on_page=False,
    ),
)  # fmt: skip
_INNER = {
    "sample_number", "run_ns", "traceback", "parent_trajectory_id", "parent_op_id", "tags_ns", "status_rank",
    "last_call_ns", "last_ns", "records", "open_ops", "terms", "task", "task_ns", "answer", "scored_ns", "branch",
    "dropped",
}  # fmt: skip
"""Columns of the table that the view has not."""
_KINDS: Mapping[str, ColumnKind] = {"int64": "integer", "float64": "number", "bool": "bool", "text[]": "texts"}
COLUMNS = (
    *_NAMED,
    *(
        _column(column.name, _KINDS.get(column.type, "text"), column.meaning)
        for column in TRAJECTORIES.columns
        if column.name not in _INNER | {named.name for named in _NAMED}
    ),
)
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
