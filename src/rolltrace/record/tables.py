"""The tables of the store: every column once, with its type and meaning.

Arrow schemas, DuckDB views, the docs and the viewer's types are derived from here. Columns are only ever added, at the
end; a part written before a column existed reads as null there.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rolltrace.record.schema import OP_KINDS, SampleIndex

ColumnType = Literal["text", "long text", "json", "int64", "int32", "float64", "bool", "int32[]", "float32[]", "int8[]"]

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
    Column("run", "text", "the training job that wrote it; an experiment that is started again has several"),
    Column("run_ns", "int64", "when the process that wrote it joined that run, nanoseconds since 1970"),
)
"""Every row says which trajectory it belongs to and where that stands in the training run."""


def sample_columns(sample_index: SampleIndex | None) -> dict[str, str | bool | None]:
    """The two columns of a sample index: a column has one type, so ints become text that is known to be an int."""
    return {
        "sample_index": None if sample_index is None else str(sample_index),
        "sample_is_int": isinstance(sample_index, int),
    }


TIMES = (
    Column("start_ns", "int64", "nanoseconds since 1970"),
    Column("end_ns", "int64", "nanoseconds since 1970; null while it runs and when its process died"),
    Column("status", "text", "ok, error, cancelled; running, or interrupted when its process died"),
    Column("error", "text", "type and message of the exception that ended it"),
    Column("traceback", "text", "traceback of that exception"),
)

TRAJECTORIES = Table(
    "trajectories",
    "One row per `rollout_trace_attr` or `rollout_trace_group` that was left, or was open when its process died.",
    (
        *WHERE,
        Column("name", "text", "what the trajectory is called"),
        *TIMES,
        Column("parent_trajectory_id", "text", "the trajectory it was begun in"),
        Column("parent_op_id", "int64", "the op it was begun in"),
        Column("tags", "json", "tags"),
        Column("is_group", "bool", "no rollout: what belongs to all rollouts of a sample (`rollout_trace_group`)"),
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
        Column("kind", "text", ", ".join(OP_KINDS)),
        *TIMES,
        Column("thread", "text", "thread it ran in, when not the main one"),
        Column("policy_version", "int64", "which weights produced its tokens"),
        Column("finish_reason", "text", "why the model stopped"),
        Column("prompt_tokens", "int32", "how many tokens the model saw: their ids, or what its server says"),
        Column("response_tokens", "int32", "how many tokens it produced: their ids, or what its server says"),
        Column("tokens", "int32[]", "the token ids it saw, then those it produced"),
        Column("logprobs", "float32[]", "logprob of each response token"),
        Column("response_mask", "int8[]", "1 where a response token is trained on"),
        Column("payload", "json", "an object with `inputs` and `outputs`, without what the token columns hold"),
        Column("tokenizer", "text", "fingerprint of the tokenizer of its tokens; `own-process`: see `texts`"),
        Column("text", "long text", "the text of `tokens`; null without token2text"),
        Column("prompt_chars", "int32", "how many characters of `text` are the prompt's"),
        Column("piece_chars", "int32[]", "how many characters of `text` each token ends; 0 inside a character"),
        Column("cached_tokens", "int32", "how many tokens of the prompt came from a cache, as the model's server says"),
        Column(
            "reasoning_tokens", "int32", "how many tokens of the response were reasoning, as the model's server says"
        ),
    ),
)

TEXTS = Table(
    "texts",
    "One row per op whose tokens were decoded by its own process, later: its tokenizer has no tokenizer.json.",
    (
        *WHERE,
        Column("op_id", "int64", "the op"),
        Column("time_ns", "int64", "when it was decoded"),
        Column("text", "long text", "as in `spans`"),
        Column("prompt_chars", "int32", "as in `spans`"),
        Column("piece_chars", "int32[]", "as in `spans`"),
    ),
)

POINTER, LITERAL = "$op", "literal"
"""In the trace of a transition: an object that points to what an op has, and one that stands for such an object."""

TRANSITIONS = Table(
    "transitions",
    "One row per environment step.",
    (
        *WHERE,
        Column("op_id", "int64", "the op in which it was recorded"),
        Column("time_ns", "int64", "nanoseconds since 1970"),
        Column("trace", "json", "prompt, policy_response, reward_data, env_state, extra; `$op` where an op has it"),
        Column("reward", "float64", "reward of this step"),
        Column("fields", "json", "everything else that was given: metrics, logs, ..."),
        Column("episode_done", "bool", "the episode is over; null if not said"),
        Column("stop_reason", "text", "why it is over"),
        Column("backfill", "bool", "said later: fills what the step before it left empty"),
        Column("amends", "bool", "said later: replaces those values of a step that stand in its `fields`"),
        Column("turn", "int64", "the step it amends: from 0, from the end if negative; null: the one before it"),
    ),
)

SCORES = Table(
    "scores",
    "One row each time a reward or another score was given; the newest of a name counts. A score that was given by "
    "coordinates has no `trajectory_id`, one that was given by id may have no coordinates.",
    (
        *WHERE,
        Column("name", "text", "reward, advantage, ..."),
        Column("value", "float64", "the number"),
        Column("terms", "json", "the parts it is made of"),
        Column("time_ns", "int64", "when it was given"),
        Column("label", "text", "what was said instead of a number: a fate, a label, a human's note"),
        Column("reason", "text", "why"),
        Column("trained_step", "int64", "of a fate: the step that trained on the trajectory"),
        Column("author", "text", "of a label or note: who gave it; the newest of each author counts"),
        Column("op_id", "int64", "of a label or note on a turn: its op; null if it is about the whole trajectory"),
    ),
)

FLAGS = Table(
    "flags",
    "One row per problem that a check found (docs/reference/flags.md).",
    (
        *WHERE,
        Column("flag", "text", "which problem"),
        Column("op_id", "int64", "the op that has it; null if it is the trajectory's"),
        Column("time_ns", "int64", "when that op or the trajectory began"),
        Column("detail", "json", "what was seen"),
    ),
)

NOTES = Table(
    "notes",
    "One row per note and change of tags.",
    (
        *WHERE,
        Column("event", "text", "note, tag, or pruned: when and why its payloads went"),
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
        Column("reason", "text", "sample_limit, journal_full, disk_full, damaged, unreadable, ..."),
        Column("count", "int64", "how many records"),
        Column("sample_index", "text", "its sample, when one trajectory is meant"),
        Column("validate", "bool", "whether that was a validation rollout"),
        Column("trajectory_id", "text", "a trajectory that was begun and then not kept: no other table shows it"),
        Column("run", "text", "the training job that wrote it"),
    ),
)

TABLES = (TRAJECTORIES, SPANS, TRANSITIONS, SCORES, NOTES, LOSSES, FLAGS, TEXTS)

INSTEAD: dict[str, str | int | bool] = {
    "start_ns": 0, "time_ns": 0, "validate": False, "sample_is_int": False, "name": "unreadable", "kind": "other",
    "status": "unreadable", "count": 1,
}  # fmt: skip
"""What a column that everybody reads holds in the place of a value that is missing or does not fit."""
