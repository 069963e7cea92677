"""Drain a store in the test's own process, and read what then is in its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from rolltrace.drain import Follower
from rolltrace.tables import (
    DataFile,
    Place,
    TableStore,
    address_in,
    arrow_schema,
    compact_place,
    moving_places,
    read_rows,
    write_file,
)


def drain(store: Path, *, compacted: bool = False) -> Follower:
    """Bring what is in the journals into the tables. The follower tells what it did."""
    follower = Follower(store)
    with follower.working() as alone:
        assert alone, "another drainer works on this store"
        follower.drain()
        if compacted:
            compact(store)
    return follower


def compact(store: Path) -> None:
    """Settle every step."""
    tables = TableStore(address_in(store))
    for place in moving_places(tables):
        compact_place(tables, place)


def add_rows(store: Path, place: Place, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, DataFile]:
    """Add rows to the tables of these names, as another program might; the files that hold them."""
    tables = TableStore(address_in(store))
    tables.prepare()
    files = {
        table: write_file(tables.address, table, place, pa.Table.from_pylist([*of_table], arrow_schema(table)))
        for table, of_table in rows.items()
        if of_table
    }
    tables.commit_batch({table: [file] for table, file in files.items()}, {})
    return files


def rows(store: Path, table: str = "ops", order: str = "") -> list[dict[str, Any]]:
    """All rows of a table, one per key; of `spans`, ops with the columns of their tokens."""
    tables = TableStore(address_in(store))
    with duckdb.connect() as connection:

        def relation(name: str) -> str:
            return read_rows(connection, tables.address, name, tables.files(name), tables.files("scores"))

        columns = "ids AS tokens, logprobs, mask AS response_mask, text, prompt_chars, piece_chars, tokenizer"
        source = relation("ops" if table == "spans" else table)
        if table == "spans":
            tokens = f"(SELECT trajectory_id, op_id, {columns} FROM {relation('tokens')})"
            source = f"(SELECT * FROM {source} LEFT JOIN {tokens} USING (trajectory_id, op_id))"
        answer = connection.execute(f"SELECT * FROM {source}" + (f" ORDER BY {order}" if order else ""))
        names = [column[0] for column in answer.description or ()]
        return [dict(zip(names, row)) for row in answer.fetchall()]
