"""The tables of the store: every column once, with its type and meaning.

Arrow schemas, DuckDB views, the docs and the viewer's types are derived from here. Columns are only ever added, at the
end; a part written before a column existed reads as null there.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

ColumnType = Literal["text", "json", "int64", "int32", "float64", "bool", "int32[]", "float32[]", "int8[]"]

FORMAT = 1
"""Version of the store's format."""


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: ColumnType
    meaning: str


class Table(NamedTuple):
    """One kind of row, kept in Parquet files of its own."""

    name: str
    meaning: str
    columns: tuple[Column, ...]


WHERE = (
    Column("trajectory_id", "text", "32 hexadecimal digits"),
    Column("project", "text", "project_name"),
    Column("experiment", "text", "experiment_name"),
    Column("step", "int64", "training step"),
    Column("sample_index", "text", "which dataset sample, as text"),
    Column("sample_is_int", "bool", "the sample index was given as an int"),
    Column("rollout_n", "int64", "which of the n rollouts of that sample"),
    Column("validate", "bool", "a validation rollout"),
    Column("worker", "text", "host and process that wrote it: the journal's writer id"),
)
"""Every row says which trajectory it belongs to and where that stands in the training run."""

TIMES = (
    Column("start_ns", "int64", "nanoseconds since 1970"),
    Column("end_ns", "int64", "nanoseconds since 1970; null while it runs and when its process died"),
    Column("status", "text", "ok, error, cancelled; running, or interrupted when its process died"),
    Column("error", "text", "type and message of the exception that ended it"),
    Column("traceback", "text", "traceback of that exception"),
)

TRAJECTORIES = Table(
    "trajectories",
    "One row per `rollout_trace_attr` that was left, or was open when its process died.",
    (
        *WHERE,
        Column("name", "text", "what the trajectory is called"),
        *TIMES,
        Column("parent_trajectory_id", "text", "the trajectory it was begun in"),
        Column("parent_op_id", "int64", "the op it was begun in"),
        Column("tags", "json", "tags"),
    ),
)

SPANS = Table(
    "spans",
    "One row per op.",
    (
        *WHERE,
        Column("op_id", "int64", "unique"),
        Column("parent_id", "int64", "the op that made this call; null for a top op"),
        Column("name", "text", "what the op is called"),
        Column("kind", "text", "llm, tool, env, reward, other"),
        *TIMES,
        Column("thread", "text", "thread it ran in, when not the main one"),
        Column("policy_version", "int64", "which weights produced its tokens"),
        Column("finish_reason", "text", "why the model stopped"),
        Column("prompt_tokens", "int32", "how many token ids the model saw; null if unknown"),
        Column("response_tokens", "int32", "how many token ids it produced; null if unknown"),
        Column("tokens", "int32[]", "the token ids it saw, then those it produced"),
        Column("logprobs", "float32[]", "logprob of each response token"),
        Column("response_mask", "int8[]", "1 where a response token is trained on"),
        Column("payload", "json", "an object with `inputs` and `outputs`, without what the token columns hold"),
    ),
)

TRANSITIONS = Table(
    "transitions",
    "One row per environment step.",
    (
        *WHERE,
        Column("op_id", "int64", "the op in which it was recorded"),
        Column("time_ns", "int64", "nanoseconds since 1970"),
        Column("trace", "json", "prompt, policy_response, reward_data, env_state, extra"),
        Column("reward", "float64", "reward of this step"),
        Column("fields", "json", "everything else that was given: episode_done, metrics, logs, stop_reason"),
    ),
)

SCORES = Table(
    "scores",
    "One row each time a reward or another score was given; the newest of a name counts.",
    (
        *WHERE,
        Column("name", "text", "reward, advantage, ..."),
        Column("value", "float64", "the number"),
        Column("terms", "json", "the parts it is made of"),
        Column("time_ns", "int64", "when it was given"),
    ),
)

NOTES = Table(
    "notes",
    "One row per note and change of tags.",
    (
        *WHERE,
        Column("event", "text", "note or tag"),
        Column("op_id", "int64", "the op in which it was made"),
        Column("time_ns", "int64", "when"),
        Column("body", "json", "what was said"),
    ),
)

LOSSES = Table(
    "losses",
    "How many records were not kept, by reason and step.",
    (
        Column("project", "text", "project_name"),
        Column("experiment", "text", "experiment_name"),
        Column("step", "int64", "training step; null if unknown"),
        Column("worker", "text", "which process"),
        Column("reason", "text", "sample_limit, journal_full, disk_full, damaged, ..."),
        Column("count", "int64", "how many records"),
    ),
)

TABLES = (TRAJECTORIES, SPANS, TRANSITIONS, SCORES, NOTES, LOSSES)
