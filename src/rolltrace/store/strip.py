"""What pruning takes out of the rows of a trajectory, and what it leaves.

Payloads go: inputs, outputs, tokens, texts, tracebacks, notes. Small columns stay, and with `whole` only the rows of
model and tool calls, because turns, tool calls and tokens are part of the summary. The tables that are not named here
(trajectories, scores, flags, losses) are the summary, and are never touched.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from rolltrace.record.tables import NOTES, SPANS, TEXTS, TRANSITIONS, Table
from rolltrace.store.later import pc
from rolltrace.store.parts import BULKY

DETAIL = {table.name: table for table in (SPANS, TRANSITIONS, NOTES, TEXTS)}
"""The tables that have payloads."""
PRUNED = "pruned"
"""The `event` of the note that says when and why the payloads of a trajectory went. It stays."""
_LONG_TEXTS = ("text", "traceback")
"""Columns that hold payloads although they are plain text."""


class Stripped(NamedTuple):
    """Rows without what was to go."""

    rows: pa.Table
    ids: set[str]
    """The trajectories that lost something."""
    changed: int
    """How many rows lost something, or are gone."""


def strip(rows: pa.Table, table: Table, ids: pa.Array, *, whole: bool) -> Stripped:
    """Take the payloads of these trajectories out of rows of a table, or with `whole` the rows themselves."""
    hit = pc.is_in(rows["trajectory_id"], value_set=ids)
    if table is NOTES:
        hit = pc.and_(hit, pc.fill_null(pc.not_equal(rows["event"], PRUNED), True))
    payloads = [
        column.name
        for column in table.columns
        if column.name in rows.column_names and (column.type in BULKY or column.name in _LONG_TEXTS)
    ]
    gone = _nowhere(rows)
    if table is TEXTS:  # nothing but payload
        gone = hit
    elif whole:
        gone = pc.and_(hit, pc.invert(_summed(rows)))
    less = gone
    for name in payloads:
        less = pc.or_(less, pc.and_(hit, pc.is_valid(rows[name])))
    lost = rows["trajectory_id"].filter(less)
    kept = rows
    for name in payloads:
        at = kept.column_names.index(name)
        empty = pa.nulls(len(kept), kept.schema.field(name).type)
        kept = kept.set_column(at, kept.schema.field(name), pc.if_else(hit, empty, kept[name].combine_chunks()))
    return Stripped(kept.filter(pc.invert(gone)), set(lost.to_pylist()), len(lost))


def _summed(rows: pa.Table) -> pa.ChunkedArray:
    """Which rows a listing counts: model and tool calls."""
    if "kind" not in rows.column_names:
        return _nowhere(rows)
    return pc.fill_null(pc.is_in(rows["kind"], value_set=pa.array(["llm", "tool"])), False)


def _nowhere(rows: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array([False] * len(rows), type=pa.bool_())])
