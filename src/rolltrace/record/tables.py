"""The kinds of rows that the drainer shapes records into, with the type of every column.

What the tables of a store have, and what it means, is declared in `rolltrace.tables`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rolltrace.record.schema import SampleIndex

ColumnType = Literal["text", "long text", "json", "int64", "int32", "float64", "bool", "int32[]", "float32[]", "int8[]"]


class Column(NamedTuple):
    """One column of a kind of row."""

    name: str
    type: ColumnType


def _columns(**types: ColumnType) -> tuple[Column, ...]:
    return tuple(Column(name, type) for name, type in types.items())


class Table(NamedTuple):
    """One kind of row."""

    name: str
    columns: tuple[Column, ...]


WHERE = _columns(
    trajectory_id="text",
    project="text",
    experiment="text",
    step="int64",
    sample_index="text",
    sample_is_int="bool",
    rollout_n="int64",
    validate="bool",
    worker="text",
    run="text",
    run_ns="int64",
)
"""Every row says which trajectory it belongs to and where that stands in the training run."""


def sample_columns(sample_index: SampleIndex | None) -> dict[str, str | bool | None]:
    """The two columns of a sample index: a column has one type, so ints become text that is known to be an int."""
    return {
        "sample_index": None if sample_index is None else str(sample_index),
        "sample_is_int": isinstance(sample_index, int),
    }


TIMES = _columns(start_ns="int64", end_ns="int64", status="text", error="text", traceback="text")
TRAJECTORIES = Table(
    "trajectories",
    (
        *WHERE,
        *_columns(name="text"),
        *TIMES,
        *_columns(parent_trajectory_id="text", parent_op_id="int64", tags="json", is_group="bool"),
    ),
)
SPANS = Table(
    "spans",
    (
        *WHERE,
        *_columns(op_id="int64", parent_id="int64", name="text", kind="text"),
        *TIMES,
        *_columns(
            thread="text",
            policy_version="int64",
            finish_reason="text",
            prompt_tokens="int32",
            response_tokens="int32",
            tokens="int32[]",
            logprobs="float32[]",
            response_mask="int8[]",
            payload="json",
            tokenizer="text",
            text="long text",
            prompt_chars="int32",
            piece_chars="int32[]",
            cached_tokens="int32",
            reasoning_tokens="int32",
        ),
    ),
)
TEXTS = Table(
    "texts",
    (*WHERE, *_columns(op_id="int64", time_ns="int64", text="long text", prompt_chars="int32", piece_chars="int32[]")),
)
POINTER, LITERAL = "$op", "literal"
"""In the trace of a transition: an object that points to what an op has, and one that stands for such an object."""

TRANSITIONS = Table(
    "transitions",
    (
        *WHERE,
        *_columns(
            op_id="int64",
            time_ns="int64",
            trace="json",
            reward="float64",
            fields="json",
            episode_done="bool",
            stop_reason="text",
            backfill="bool",
            amends="bool",
            turn="int64",
        ),
    ),
)
SCORES = Table(
    "scores",
    (
        *WHERE,
        *_columns(
            name="text",
            value="float64",
            terms="json",
            time_ns="int64",
            label="text",
            reason="text",
            trained_step="int64",
            author="text",
            op_id="int64",
        ),
    ),
)
FLAGS = Table("flags", (*WHERE, *_columns(flag="text", op_id="int64", time_ns="int64", detail="json")))
NOTES = Table("notes", (*WHERE, *_columns(event="text", op_id="int64", time_ns="int64", body="json")))
LOSSES = Table(
    "losses",
    _columns(
        project="text",
        experiment="text",
        step="int64",
        worker="text",
        reason="text",
        count="int64",
        sample_index="text",
        validate="bool",
        trajectory_id="text",
        run="text",
    ),
)
TABLES = (TRAJECTORIES, SPANS, TRANSITIONS, SCORES, NOTES, LOSSES, FLAGS, TEXTS)

INSTEAD: dict[str, str | int | bool] = {
    "start_ns": 0,
    "time_ns": 0,
    "validate": False,
    "sample_is_int": False,
    "name": "unreadable",
    "kind": "other",
    "status": "unreadable",
    "count": 1,
}

"""What a column that everybody reads holds in the place of a value that is missing or does not fit."""
