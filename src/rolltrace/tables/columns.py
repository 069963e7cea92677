"""The tables of the store: every column once, with its type, its meaning and how several rows of one thing reduce.

Arrow schemas, DuckDB views, the SQL of compaction, docs and the viewer's types are derived from here. A row of a table
with a key is *partial*: each batch that a drainer commits adds what it saw, and the rows of one key become one, by the
reducer of each column, when a reader asks or when the step is compacted. Columns are only ever added; a file written
before a column existed reads as null there.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, NamedTuple

from rolltrace._arrow import pa
from rolltrace.record import OP_KINDS

TableColumnType = Literal[
    "text", "long text", "json", "int64", "int32", "int8", "float64", "bool", "bytes",
    "text[]", "int32[]", "float32[]", "int8[]", "map<text, float64>", "map<text, float32[]>",
]  # fmt: skip

STORE_FORMAT = 2
"""Version of the store's format."""

Reducer = Literal["key", "first", "min", "max", "sum", "union", "newest", "merge", "settled"]
"""How the values of several partial rows become one.

first    any value that is not null: all are the same
newest   that of the row with the greatest `order`, null or not; columns with one `order` come from one row
union    the distinct items of all lists, sorted
merge    the entries of all maps
settled  no partial row has it: it is computed from the others, from the step's scores, or from the other rows of the
         step, by `tables.reduce`
"""


class TableColumn(NamedTuple):
    """One column of a table."""

    name: str
    type: TableColumnType
    meaning: str
    reducer: Reducer = "first"
    order: str = ""
    """Of a `newest` column: the column, or SQL expression, whose greatest value tells which row is the newest. Rows in
    which it is null say nothing about this column."""


class TableSchema(NamedTuple):
    """One kind of row, kept in a Delta table of its own."""

    name: str
    meaning: str
    columns: tuple[TableColumn, ...]
    sorted_by: tuple[str, ...] = ("trajectory_id",)
    """How the rows of a file are ordered, so that those read together stand together."""

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell which rows are about the same thing; none if every row stands for itself."""
        return tuple(column.name for column in self.columns if column.reducer == "key")


_Column = TableColumn

PLACE = (
    _Column("project", "text", "project name"),
    _Column("experiment", "text", "experiment name"),
    _Column("step", "int64", "training step; null if none was given"),
)
"""The columns that the tables are partitioned by. They stand in the files too, so a file explains itself."""
PARTITION_COLUMNS = tuple(column.name for column in PLACE)

COORDINATES = (
    *PLACE,
    _Column("sample_index", "text", "which dataset sample, as text"),
    _Column("sample_number", "int64", "the same as a number, if it was given as one: sort by it"),
    _Column("rollout_n", "int64", "which of the n rollouts of that sample"),
    _Column("validate", "bool", "a validation rollout"),
    _Column("run", "text", "the training job that wrote it; an experiment that is restarted has several"),
    _Column("run_ns", "int64", "when its process joined that run, nanoseconds since 1970", "min"),
    _Column("worker", "text", "host and process that wrote it: the journal's writer id"),
)
"""Where a row stands in the training run."""

_TRAJECTORY_ID = _Column("trajectory_id", "text", "32 hexadecimal digits")
_TRAJECTORY_KEY = _TRAJECTORY_ID._replace(reducer="key")
_STATUS_ORDER = "(status_rank, coalesce(end_ns, -start_ns))"


def _newest(name: str, kind: TableColumnType, meaning: str, order: str) -> TableColumn:
    return _Column(name, kind, meaning, "newest", order)


def _settled(name: str, kind: TableColumnType, meaning: str) -> TableColumn:
    return _Column(name, kind, meaning, "settled")


_OF_TRAJECTORY = (
    _TRAJECTORY_KEY,
    *PLACE,
    *(column._replace(reducer="newest", order=_STATUS_ORDER) for column in COORDINATES[len(PLACE) :]),
    _newest("name", "text", "what the trajectory is called", _STATUS_ORDER),
    _newest("status", "text", "ok, error, cancelled; running, or interrupted when its process died", _STATUS_ORDER),
    _newest("error", "text", "type and message of the exception that ended it", _STATUS_ORDER),
    _newest("traceback", "long text", "traceback of that exception", _STATUS_ORDER),
    _Column("start_ns", "int64", "nanoseconds since 1970", "min"),
    _newest("end_ns", "int64", "nanoseconds since 1970; null while it runs, or if its process died", _STATUS_ORDER),
    _settled("duration_s", "float64", "seconds from start to end"),
    _Column("parent_trajectory_id", "text", "the trajectory it was begun in"),
    _Column("parent_op_id", "int64", "the op it was begun in"),
    _newest("tags", "json", "its tags, an object", "tags_ns"),
    _Column("tags_ns", "int64", "when the tags were last set", "max"),
    _Column(
        "status_rank", "int8",
        "how sure the status is: 0 and 1 from an op outside of any trajectory, running and ended; 2 running, "
        "3 interrupted, 4 ended", "max",
    ),
)  # fmt: skip

TRAJECTORIES = TableSchema(
    "trajectories",
    "One row per trajectory. While a step is moving: partial rows, one per trajectory and batch.",
    (
        *_OF_TRAJECTORY,
        _Column("turns", "int64", "how many llm ops", "sum"),
        _Column("tool_calls", "int64", "how many tool ops", "sum"),
        _Column("tool_errors", "int64", "how many tool ops ended in an error", "sum"),
        _newest("prompt_tokens", "int64", "how many tokens the last model call saw", "last_call_ns"),
        _Column("response_tokens", "int64", "how many tokens the model produced, all calls together", "sum"),
        _Column("last_call_ns", "int64", "when the last model call began", "max"),
        _Column("last_ns", "int64", "the newest time in any record of it", "max"),
        _Column("records", "int64", "how many ops, environment steps and notes it has", "sum"),
        _Column("open_ops", "int64", "how many of its ops have begun and not ended", "sum"),
        _Column("policy_version_min", "int64", "oldest weights that produced its tokens", "min"),
        _Column("policy_version_max", "int64", "newest weights that produced its tokens", "max"),
        _settled("staleness", "int64", "step (or trained_step) minus the oldest weights that produced its tokens"),
        _settled("reward", "float64", "newest reward"),
        _settled("terms", "map<text, float64>", "the parts of that reward that are numbers"),
        _settled("advantage", "float64", "newest advantage"),
        _settled("fate", "text", "what training did with it: trained, filtered, stale, ..."),
        _settled("fate_reason", "text", "why"),
        _settled("trained_step", "int64", "the step that trained on it, as its newest fate says"),
        _Column("flags", "text[]", "the problems that rolltrace found", "union"),
        _settled("labels", "text[]", "the labels that people gave it or a turn of it"),
        _newest("task", "text", "the first words of the task", "-task_ns"),
        _Column("task_ns", "int64", "when the task was given", "min"),
        _newest("answer", "text", "the first words of the model's last reply", "last_call_ns"),
        _settled("scored_ns", "int64", "when its newest score was given"),
        _settled("superseded", "bool", "a newer run of the experiment reached the same step"),
        _settled("branch", "bool", "begun inside another trajectory with the same coordinates: a part of that rollout"),
        _Column("dropped", "bool", "begun and then not kept: readers leave it out, compaction removes it", "max"),
    ),
)

GROUP_RECORDS = TableSchema(
    "group_records",
    "One row per `rollout_trace_group`: what belongs to all rollouts of a sample, and is no rollout itself.",
    _OF_TRAJECTORY,
)

MESSAGES = TableSchema(
    "messages",
    "One row per message, once, in the order in which they were produced. A message that a later prompt only repeats "
    "has no second row; one that it changes has a row of kind `variant`, and the change a row of kind `rewrite`.",
    (
        _TRAJECTORY_KEY,
        _Column("message_id", "text", "hash of what it says and of how often it was said before here", "key"),
        *COORDINATES,
        _Column("seq", "int32", "its place in the transcript, from 0", "min"),
        _Column("kind", "text", "message; variant: as a later call saw it; rewrite: what a prompt changed"),
        _Column("time_ns", "int64", "when it was produced, as far as that is known", "min"),
        _Column("turn", "int32", "the model call that produced it or was the first to see it, from 0", "min"),
        _Column("op_id", "int64", "the op that produced it: a model call or a tool call; null if none was traced"),
        _Column("role", "text", "system, user, assistant, tool, ..."),
        _Column("author", "text", "policy, tool, user, environment"),
        _Column("text", "long text", "what it says"),
        _Column("reasoning", "long text", "what the model thought before"),
        _Column("calls", "json", "the tool calls it makes: a list of objects with id, name, arguments"),
        _Column("tool_name", "text", "of a tool result: which tool"),
        _Column("call_id", "text", "of a tool result: which call it answers"),
        _Column("images", "text[]", "hashes of its images, in `blobs`"),
        _Column("parts", "json", "its content as a list of parts, if it is more than text"),
        _Column("is_error", "bool", "of a tool result: the tool said that it failed"),
        _Column("tokens", "int32", "how many tokens it has, if that is known"),
        _Column(
            "detail", "json",
            "of a rewrite: what was dropped, changed, added; of a variant: what it stands for; of a tool result that "
            "no reply asked for: its arguments",
        ),
    ),
    ("trajectory_id", "seq"),
)  # fmt: skip

OPS = TableSchema(
    "ops",
    "One row per traced call that ended, or was open when its process died.",
    (
        _TRAJECTORY_ID,
        *COORDINATES,
        _Column("op_id", "int64", "unique"),
        _Column("parent_id", "int64", "the op that made this call; null for a top op"),
        _Column("name", "text", "what the op is called"),
        _Column("kind", "text", ", ".join(OP_KINDS)),
        _Column("start_ns", "int64", "nanoseconds since 1970"),
        _Column("end_ns", "int64", "nanoseconds since 1970; null if its process died"),
        _Column("duration_s", "float64", "seconds from start to end"),
        _Column("status", "text", "ok, error, cancelled, interrupted"),
        _Column("error", "text", "type and message of the exception that ended it"),
        _Column("traceback", "long text", "traceback of that exception"),
        _Column("thread", "text", "thread it ran in, when not the main one"),
        _Column("turn", "int32", "of a model call of the policy: which turn, from 0"),
        _Column("policy_version", "int64", "which weights produced its tokens"),
        _Column("finish_reason", "text", "why the model stopped"),
        _Column("prompt_tokens", "int32", "how many tokens the model saw: their ids, or what its server says"),
        _Column("response_tokens", "int32", "how many tokens it produced: their ids, or what its server says"),
        _Column("cached_tokens", "int32", "how many prompt tokens came from a cache, as the server says"),
        _Column("reasoning_tokens", "int32", "how many response tokens were reasoning, as the server says"),
        _Column("saw", "text", "the messages that a model call was given, as ranges of `messages.seq`: 0-6,9"),
        _Column("payload_bytes", "int64", "how long the payload is; null if it was pruned"),
        _Column("payload", "json", "an object with `inputs` and `outputs`, without what the table `tokens` holds"),
    ),
    ("trajectory_id", "start_ns"),
)

TOKENS = TableSchema(
    "tokens",
    "One row per model call with tokens. What a trainer or a slow tokenizer adds later comes as a partial row.",
    (
        _TRAJECTORY_KEY,
        _Column("op_id", "int64", "the model call", "key"),
        *COORDINATES,
        _Column("start_ns", "int64", "when the call began", "min"),
        _Column("prompt_tokens", "int32", "how many of `ids` are the prompt's"),
        _Column("ids", "int32[]", "the token ids it saw, then those it produced"),
        _Column("logprobs", "float32[]", "logprob of each response token"),
        _Column("mask", "int8[]", "1 where a response token is trained on"),
        _Column("tokenizer", "text", "fingerprint of the tokenizer"),
        _Column("text", "long text", "the text of `ids`; null without token2text"),
        _Column("prompt_chars", "int32", "how many characters of `text` are the prompt's"),
        _Column("piece_chars", "int32[]", "how many characters of `text` each token ends; 0 inside a character"),
        _Column("streams", "map<text, float32[]>", "further values per response token, by name: entropy, ...", "merge"),
    ),
    ("trajectory_id", "start_ns"),
)

TRANSITIONS = TableSchema(
    "transitions",
    "One row per environment step.",
    (
        _TRAJECTORY_ID,
        *COORDINATES,
        _Column("op_id", "int64", "the op in which it was recorded"),
        _Column("time_ns", "int64", "nanoseconds since 1970"),
        _Column("trace", "json", "prompt, policy_response, reward_data, env_state, extra; `$op` where an op has it"),
        _Column("reward", "float64", "reward of this step"),
        _Column("fields", "json", "everything else that was given: metrics, logs, ..."),
        _Column("episode_done", "bool", "the episode is over; null if not said"),
        _Column("stop_reason", "text", "why it is over"),
        _Column("backfill", "bool", "given later: fills what the step before it left empty"),
        _Column("amends", "bool", "given later: replaces those values of a step that stand in its `fields`"),
        _Column("turn", "int64", "the step it amends: from 0, from the end if negative; null: the one before it"),
    ),
    ("trajectory_id", "time_ns"),
)

SCORES = TableSchema(
    "scores",
    "One row each time a score was given; the newest of a name counts. One that was given by coordinates has the id of "
    "its trajectory once that is known: the newest there that began before the score was given.",
    (
        _TRAJECTORY_ID,
        *COORDINATES,
        _Column("name", "text", "reward, advantage, fate, ..."),
        _Column("value", "float64", "the number"),
        _Column("terms", "json", "the parts it is made of"),
        _Column("time_ns", "int64", "when it was given"),
        _Column("label", "text", "what was given instead of a number: a fate, a label, a note"),
        _Column("reason", "text", "why"),
        _Column("trained_step", "int64", "of a fate: the step that trained on the trajectory"),
        _Column("author", "text", "of a label or note: who gave it; the newest of each author counts"),
        _Column("op_id", "int64", "of a label or note on a turn: its op; null for the whole trajectory"),
    ),
    ("trajectory_id", "time_ns"),
)

FLAGS = TableSchema(
    "flags",
    "One row per problem that a check found (docs/reference/flags.md).",
    (
        _TRAJECTORY_ID,
        *COORDINATES,
        _Column("flag", "text", "which problem"),
        _Column("op_id", "int64", "the op that has it; null if it is the trajectory's"),
        _Column("time_ns", "int64", "when that op or the trajectory began"),
        _Column("detail", "json", "what was seen"),
    ),
    ("trajectory_id", "time_ns"),
)

NOTES = TableSchema(
    "notes",
    "One row per note and change of tags.",
    (
        _TRAJECTORY_ID,
        *COORDINATES,
        _Column("event", "text", "note, tag, or pruned: when and why its payloads were removed"),
        _Column("op_id", "int64", "the op in which it was made"),
        _Column("time_ns", "int64", "when"),
        _Column("body", "json", "what it says"),
    ),
    ("trajectory_id", "time_ns"),
)

BLOBS = TableSchema(
    "blobs",
    "One row per image or other large content, in the step that first had it.",
    (
        _Column("hash", "text", "of the content: what other tables point to", "key"),
        *PLACE,
        _Column("media", "text", "media type; image/raw for pixels"),
        _Column("info", "json", "of pixels: width, height, mode"),
        _Column("data", "bytes", "the content"),
    ),
    ("hash",),
)

RUNS = TableSchema(
    "runs",
    "One row per process that joined a run.",
    (
        *PLACE,
        _Column("run", "text", "the training job"),
        _Column("run_ns", "int64", "when this process joined it, nanoseconds since 1970"),
        _Column("worker", "text", "host and process"),
        _Column("settings", "json", "what the process was set up with"),
    ),
    ("run", "run_ns"),
)

LOSSES = TableSchema(
    "losses",
    "How many records were not kept, by reason and step.",
    (
        *PLACE,
        _Column("worker", "text", "which process"),
        _Column("run", "text", "the training job"),
        _Column("reason", "text", "sample_limit, journal_full, disk_full, damaged, unreadable, ..."),
        _Column("count", "int64", "how many records"),
        _Column("sample_index", "text", "its sample, when one trajectory is meant"),
        _Column("validate", "bool", "whether that was a validation rollout"),
        _Column("trajectory_id", "text", "a trajectory that was begun and then not kept: no other table shows it"),
    ),
    ("reason",),
)

TABLE_SCHEMAS = (
    BLOBS, RUNS, OPS, TOKENS, MESSAGES, TRANSITIONS, SCORES, FLAGS, NOTES, LOSSES, GROUP_RECORDS, TRAJECTORIES,
)  # fmt: skip
"""In the order in which a batch is committed: when a trajectory is listed, everything else about it is there."""

BULKY: frozenset[TableColumnType] = frozenset(
    {"long text", "json", "bytes", "int32[]", "float32[]", "int8[]", "map<text, float32[]>"}
)
"""Types of columns that hold payloads: no dictionary and no statistics, which would cost more than they save."""
SCHEMA_OF = {schema.name: schema for schema in TABLE_SCHEMAS}

SQL_TYPES: dict[TableColumnType, str] = {
    "text": "VARCHAR",
    "long text": "VARCHAR",
    "json": "VARCHAR",
    "int64": "BIGINT",
    "int32": "INTEGER",
    "int8": "TINYINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "bytes": "BLOB",
    "text[]": "VARCHAR[]",
    "int32[]": "INTEGER[]",
    "float32[]": "FLOAT[]",
    "int8[]": "TINYINT[]",
    "map<text, float64>": "MAP(VARCHAR, DOUBLE)",
    "map<text, float32[]>": "MAP(VARCHAR, FLOAT[])",
}
"""What DuckDB calls the types of columns."""


class Place(NamedTuple):
    """The rows of one step of one experiment: a partition of every table."""

    project: str
    experiment: str
    step: int | None


def arrow_type(kind: TableColumnType) -> pa.DataType:
    """The Arrow type of a column."""
    if kind.startswith("map<"):
        return pa.map_(pa.string(), arrow_type(kind[len("map<text, ") : -1]))  # type: ignore[arg-type]
    if kind.endswith("[]"):
        return pa.list_(arrow_type(kind[:-2]))  # type: ignore[arg-type]
    plain = {"text": "string", "long text": "string", "json": "string", "bytes": "binary", "float32": "float32"}
    return pa.type_for_alias(plain.get(kind, kind))


@cache
def arrow_schema(name: str) -> pa.Schema:
    """The Arrow schema of a table."""
    fields = [pa.field(column.name, arrow_type(column.type)) for column in SCHEMA_OF[name].columns]
    return pa.schema(fields, metadata={"rolltrace_format": str(STORE_FORMAT), "rolltrace_table": name})


def empty_select(schema: TableSchema) -> str:
    """SQL: no rows, but every column with its type."""
    columns = ", ".join(f'NULL::{SQL_TYPES[column.type]} AS "{column.name}"' for column in schema.columns)
    return f"SELECT {columns} WHERE false"
