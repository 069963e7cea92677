"""Trajectories that were begun and then not kept (`capture.sampling`), as the `losses` of a store name them.

Whoever reads leaves their rows out; compaction removes them for good.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from rolltrace.store.later import pc, pq

_NAME = "trajectory_id"


def dropped_in(part: Path) -> tuple[str, ...]:
    """The ids that a part of `losses` names; none if it cannot be read."""
    try:
        return _read_dropped(part)
    except (OSError, ValueError, pa.ArrowException):
        return ()


@lru_cache(maxsize=65_536)  # a part never changes
def _read_dropped(part: Path) -> tuple[str, ...]:
    with pq.ParquetFile(part) as file:
        if _NAME not in file.schema_arrow.names:
            return ()
        return tuple(pc.drop_null(file.read([_NAME])[_NAME]).to_pylist())


def without_dropped(rows: pa.Table, dropped: frozenset[str]) -> pa.Table:
    """The rows of trajectories that are kept, and those of none."""
    return rows.filter(pc.invert(_is_dropped(rows[_NAME], dropped))) if dropped else rows


@lru_cache(maxsize=65_536)
def holds_dropped(part: Path, dropped: frozenset[str]) -> bool:
    """Whether a part has rows of these trajectories."""
    with pq.ParquetFile(part) as file:
        return pc.any(_is_dropped(file.read([_NAME])[_NAME], dropped)).as_py() or False


def _is_dropped(ids: pa.ChunkedArray, dropped: frozenset[str]) -> pa.ChunkedArray:
    return pc.is_in(ids, value_set=pa.array(sorted(dropped), type=pa.string()))
