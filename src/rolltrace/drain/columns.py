"""Rows as Arrow columns, and what to do with a row that spoils them.

`fit` sees to it that every row can be written. Should one slip through, it is found here, and the others are not lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rolltrace._guard import logger
from rolltrace.drain.row import Row
from rolltrace.drain.rows import RowMaker
from rolltrace.store import SCHEMAS, arrow_column


def arrow_of(rows: list[Row]) -> pa.Table:
    """The rows of one table."""
    schema = SCHEMAS[rows[0].table.name]
    columns = zip(*[row.values for row in rows])
    arrays = [arrow_column(values, field.type) for values, field in zip(columns, schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


def grouped(rows: Iterable[Row]) -> list[list[Row]]:
    """The rows of each table and step together."""
    groups: dict[tuple[str, int | None], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.table.name, row.step].append(row)
    return list(groups.values())


class Parted(NamedTuple):
    """Rows of one table that can be written, and what stands for the others."""

    sound: list[Row]
    instead: list[Row]


def part_sound(rows: list[Row], maker: RowMaker) -> Parted:
    """Look at each row alone, after all together have failed.

    Raises:
        Exception: each can be written alone, so it is something else that failed.
    """
    unsound = [row for row in rows if not _can_be_written(row)]
    if not unsound:
        raise
    logger.error("%d rows of %s cannot be written and are left out", len(unsound), rows[0].table.name)
    sound = [row for row in rows if not any(row is each for each in unsound)]
    return Parted(sound, [each for row in unsound for each in maker.replaced(row)])


def _can_be_written(row: Row) -> bool:
    try:
        pq.write_table(arrow_of([row]), pa.BufferOutputStream())
    except Exception:
        return False
    return True
