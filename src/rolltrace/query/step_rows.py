"""The view `_steps`: what all trajectories of one step and run have in common, as numbers that can be added up.

Means and quantiles among them cannot: they are of the row alone, for a chart whose points are rows.

Questions about experiments, runs and steps are answered from it. A row is of one step, of training or validation, of
one run, and of trajectories that a newer run has superseded or of others. Summaries hold these rows for settled steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from rolltrace.query.group_views import GROUP_KEY, ZERO_VARIANCE
from rolltrace.query.runs import STEP_KEY

_KEY = (*STEP_KEY, "run", "superseded")
TRUNCATED = "cut_by_length"
"""The flag that makes a trajectory a truncated one."""
_FINITE = "FILTER (isfinite(reward))"


class _Column(NamedTuple):
    name: str
    type: str
    sql: str


_COLUMNS = (
    _Column("project", "VARCHAR", "t.project"),
    _Column("experiment", "VARCHAR", "t.experiment"),
    _Column("step", "BIGINT", "t.step"),
    _Column("validate", "BOOLEAN", "t.validate"),
    _Column("run", "VARCHAR", "t.run"),
    _Column("superseded", "BOOLEAN", "t.superseded"),
    _Column("trajectories", "BIGINT", "count(*)"),
    _Column("samples", "BIGINT", "count(DISTINCT sample_index)"),
    _Column("errors", "BIGINT", "count(*) FILTER (status = 'error')"),
    _Column("running", "BIGINT", "count(*) FILTER (status = 'running')"),
    _Column("scored", "BIGINT", "count(reward)"),
    _Column("reward_sum", "DOUBLE", "sum(reward)"),
    _Column("reward_min", "DOUBLE", "min(reward)"),
    _Column("reward_max", "DOUBLE", "max(reward)"),
    _Column("passed", "BIGINT", "count(*) FILTER (reward > 0 AND NOT isnan(reward))"),
    _Column("rated_groups", "BIGINT", "any_value(g.rated)"),
    _Column("flat_groups", "BIGINT", "any_value(g.flat)"),
    _Column("turns", "BIGINT", "sum(turns)"),
    _Column("start_ns", "BIGINT", "min(start_ns)"),
    _Column("newest_ns", "BIGINT", "max(start_ns)"),
    _Column("end_ns", "BIGINT", "max(end_ns)"),
    _Column("last_ns", "BIGINT", "max(coalesce(end_ns, start_ns))"),
    _Column("interrupted", "BIGINT", "count(*) FILTER (status = 'interrupted')"),
    _Column("finite_mean", "DOUBLE", f"avg(reward) {_FINITE}"),
    _Column("finite_p10", "DOUBLE", f"quantile_cont(reward, 0.1) {_FINITE}"),
    _Column("finite_p90", "DOUBLE", f"quantile_cont(reward, 0.9) {_FINITE}"),
    _Column("finite_min", "DOUBLE", f"min(reward) {_FINITE}"),
    _Column("finite_max", "DOUBLE", f"max(reward) {_FINITE}"),
    _Column("not_finite", "BIGINT", "count(*) FILTER (NOT isfinite(reward))"),
    _Column("response_tokens_p50", "DOUBLE", "quantile_cont(response_tokens, 0.5)"),
    _Column("response_tokens_p95", "DOUBLE", "quantile_cont(response_tokens, 0.95)"),
    _Column("tool_calls", "BIGINT", "sum(tool_calls)"),
    _Column("tool_errors", "BIGINT", "sum(tool_errors)"),
    _Column("truncated", "BIGINT", f"count(*) FILTER (list_contains(flags, '{TRUNCATED}'))"),
    _Column("duration_s_p50", "DOUBLE", "quantile_cont(duration_s, 0.5)"),
    _Column("duration_s_p95", "DOUBLE", "quantile_cont(duration_s, 0.95)"),
    _Column("duration_s_max", "DOUBLE", "max(duration_s)"),
    _Column("staleness_mean", "DOUBLE", "avg(staleness)"),
    _Column("flags", "VARCHAR", "to_json(list_aggregate(flatten(list(flags)), 'histogram'))"),
)
_ARROW = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_(), "DOUBLE": pa.float64()}
_SAME = " AND ".join(f"g.{name} IS NOT DISTINCT FROM t.{name}" for name in _KEY)


def step_rows(listing: str) -> str:
    """SQL of the rows of `_steps` for the trajectories of a listing."""
    columns = ", ".join(f"({column.sql})::{column.type} AS {column.name}" for column in _COLUMNS)
    key = ", ".join(_KEY)
    return f"""
SELECT {columns}
FROM {listing} t LEFT JOIN (
    SELECT {key}, count(*) FILTER (scored > 1) AS rated, count(*) FILTER (scored > 1 AND zero_variance) AS flat
    FROM (
        SELECT {", ".join(GROUP_KEY)}, superseded, count(reward) AS scored, {ZERO_VARIANCE} AS zero_variance
        FROM {listing} WHERE sample_index IS NOT NULL GROUP BY {", ".join(GROUP_KEY)}, superseded
    ) GROUP BY {key}
) g ON {_SAME}
GROUP BY {", ".join(f"t.{name}" for name in _KEY)}
"""


SCHEMA = pa.schema([pa.field(column.name, _ARROW[column.type]) for column in _COLUMNS])


def pack(rows: pa.Table) -> bytes:
    """Rows as bytes, for a summary."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, SCHEMA) as stream:
        stream.write_table(rows.select(SCHEMA.names).cast(SCHEMA))
    return bytes(out.getvalue())


def is_sound(packed: bytes) -> bool:
    """Whether bytes of a file are such rows: Arrow reads offsets that lie as they are."""
    try:
        with pa.ipc.open_stream(packed) as stream:
            if stream.schema != SCHEMA:
                return False
            stream.read_all().validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        return False
    return True


def unpack(packed: Iterable[bytes]) -> pa.Table:
    """The rows of several summaries."""
    tables = [pa.ipc.open_stream(each).read_all() for each in packed]
    return pa.concat_tables([pa.Table.from_batches([], SCHEMA), *tables])
