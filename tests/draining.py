"""Drain a store in the test's own process, and read what then is in its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rolltrace.drain import Drainer
from rolltrace.store import compact, list_parts


def drain(store: Path, *, compacted: bool = False) -> Drainer:
    """Bring what is in the journals into the store. The drainer tells what it did."""
    drainer = Drainer(store)
    with drainer.working() as alone:
        assert alone, "somebody else drains this store"
        drainer.drain()
        if compacted:
            compact(store)
    return drainer


def rows(store: Path, table: str = "spans") -> list[dict[str, Any]]:
    """All rows of a table, as its parts have them."""
    return [row for part in list_parts(store, table) for row in pq.read_table(part, partitioning=None).to_pylist()]
