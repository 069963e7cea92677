"""Give space back: payloads, or all rows but the summary, of trajectories that somebody chose.

The summary rows (trajectories, scores, losses) always stay, and each step gets a row in `losses` that says how many
were pruned. Parts are replaced one by one, as in compaction: a kill in between leaves some pruned and the rest whole.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from rolltrace.record.tables import LOSSES, TABLES
from rolltrace.store.layout import COMPACTED, Partition, source_of, table_of
from rolltrace.store.parts import (
    BULKY,
    as_today,
    list_parts,
    may_be_rewritten,
    replaced_by,
    write_part,
    write_table,
)

DETAIL = ("spans", "texts", "transitions", "notes")
"""The tables that have payloads; the others are the summary."""


class Pruned(NamedTuple):
    """What was removed."""

    trajectories: int
    rows: int
    """Rows that lost their payload, or were removed."""
    bytes: int
    """How much smaller the store became."""


def prune(
    store: Path,
    chosen: set[str],
    *,
    whole: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Pruned:
    """Remove the payloads of these trajectories, or with `whole` their transitions, notes and ops altogether.

    Model and tool calls keep their small columns even then: turns, tool calls and tokens are part of the summary.

    The caller holds the drainer's lock. Parts that are still being drained are left for the next time.
    """
    ids = pa.array(sorted(chosen), type=pa.string())
    parts = [part for part in list_parts(store) if table_of(part) in DETAIL and not may_be_rewritten(store, part)]
    seen: dict[tuple[str, str, int | None], set[str]] = {}
    rows = size = 0
    for done, part in enumerate(parts):
        progress(done, len(parts))
        table = pq.read_table(part, partitioning=None)
        hit = pc.is_in(table["trajectory_id"], value_set=ids)
        count = pc.sum(hit).as_py() or 0
        gone = pc.and_(hit, pc.invert(_summed(table))) if whole else pa.scalar(False)
        if not count or not (_has_payload(table.filter(hit)) or (whole and pc.any(gone).as_py())):
            continue
        for row in table.filter(hit).select(["project", "experiment", "step", "trajectory_id"]).to_pylist():
            place = (row["project"], row["experiment"], row["step"])
            seen.setdefault(place, set()).add(row["trajectory_id"])
        rows += count
        size += part.stat().st_size - _replace(store, part, _without(table, hit, gone if whole else None), table)
    for place, found in seen.items():
        _count(store, Partition(*place), found, "pruned_whole" if whole else "pruned_payload")
    progress(len(parts), len(parts))
    return Pruned(len(set().union(*seen.values())), rows, size)


def _summed(rows: pa.Table) -> pa.ChunkedArray:
    """Which rows a listing counts: model and tool calls, whose small columns are part of the summary."""
    if "kind" not in rows.column_names:
        return pa.chunked_array([pa.array([False] * len(rows), type=pa.bool_())])
    return pc.fill_null(pc.is_in(rows["kind"], value_set=pa.array(["llm", "tool"])), False)


def _has_payload(rows: pa.Table) -> bool:
    return any(rows[name].null_count < len(rows) for name in _payload_columns(rows))


def _payload_columns(rows: pa.Table) -> list[str]:
    bulky = {column.name for table in TABLES for column in table.columns if column.type in BULKY}
    return [name for name in rows.column_names if name in bulky or name == "traceback"]


def _without(table: pa.Table, hit: pa.ChunkedArray, gone: pa.ChunkedArray | None) -> pa.Table:
    """The table with the payloads of the rows that were hit taken out, and without the rows that are gone."""
    kept = table
    for name in _payload_columns(table):
        at = kept.column_names.index(name)
        empty = pa.nulls(len(kept), kept.schema.field(name).type)
        kept = kept.set_column(at, kept.schema.field(name), pc.if_else(hit, empty, kept[name].combine_chunks()))
    return kept if gone is None else kept.filter(pc.invert(gone))


def _replace(store: Path, part: Path, kept: pa.Table, table: pa.Table) -> int:
    """Write the part anew without what was chosen; the size of the new one."""
    kind = next(each for each in TABLES if each.name == table_of(part))
    replaces = [source_of(part), *replaced_by(part)]
    source = f"{COMPACTED}{xxhash.xxh3_64_hexdigest(' '.join(['pruned', *sorted(replaces)]).encode())}"
    first = table.slice(0, 1).to_pylist()[0]
    partition = Partition(first["project"], first["experiment"], first["step"])
    fresh = write_table(store, partition, kind, source, as_today(kept, kind), replaces=replaces)
    part.unlink(missing_ok=True)
    return fresh.stat().st_size


def _count(store: Path, partition: Partition, found: set[str], reason: str) -> None:
    name = xxhash.xxh3_64_hexdigest(" ".join(sorted(found)).encode())
    row = {**partition._asdict(), "worker": "prune", "reason": reason, "count": len(found)}
    write_part(store, partition, LOSSES, f"prune-{reason}-{name}", [row])
