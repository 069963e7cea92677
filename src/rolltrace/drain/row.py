"""One row of a table, and the values of columns that many records have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from rolltrace.record import SPANS, TABLES, Error, Table, to_json
from rolltrace.tables import Place

_encode_json = msgspec.json.Encoder().encode
EMPTY: dict[str, dict[str, Any]] = {table.name: dict.fromkeys(each.name for each in table.columns) for table in TABLES}
SPAN_AT = {name: at for at, name in enumerate(EMPTY[SPANS.name])}
"""Which value of a span is which column."""
_values: dict[str, Callable[[Mapping[str, Any]], tuple[Any, ...]]] = {
    name: itemgetter(*columns) for name, columns in EMPTY.items()
}


class Row(NamedTuple):
    """One row, and the table and step it belongs to."""

    table: Table
    step: int | None
    values: tuple[Any, ...]
    """Of each column of the table. A segment may have a hundred thousand rows: as dicts they would take much memory."""

    @classmethod
    def of(cls, table: Table, fields: Mapping[str, Any]) -> Row:
        """The row of these columns; those that are not named are null."""
        return cls(table, fields.get("step"), _values[table.name]({**EMPTY[table.name], **fields}))

    @property
    def place(self) -> Place:
        """Where it belongs, as it says itself."""
        columns = list(EMPTY[self.table.name])
        project, experiment = (self.values[columns.index(name)] for name in ("project", "experiment"))
        return Place(project or "unknown", experiment or "unknown", self.step)

    @property
    def fields(self) -> dict[str, Any]:
        """The values by the names of their columns."""
        return dict(zip(EMPTY[self.table.name], self.values))


class Shaped(NamedTuple):
    """The rows of one record."""

    rows: list[Row]
    is_whole: bool
    """Not, if some of the record is in no row: its bytes are worth keeping."""
    opened: tuple[Any, Any] | None = None
    """Of an op without secrets: its inputs and outputs, decoded."""


def columns_of_step(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What was given of a step that has a column of its own."""
    done = fields.get("episode_done")
    return {
        "reward": number_or_none(fields.get("reward")),
        "episode_done": done if isinstance(done, bool) else None,
        "stop_reason": optional_text(fields.get("stop_reason")),
    }


def failure_columns(error: Error | None) -> dict[str, str | None]:
    """The columns of an error; of none, nulls."""
    if error is None:
        return {"error": None, "traceback": None}
    return {"error": f"{error.type}: {error.message}", "traceback": error.traceback}


def optional_text(value: Any) -> str | None:
    """A text column; None for nothing."""
    return None if value is None else as_text(value)


def as_text(value: Any) -> str:
    """A word, or what somebody gave in its place; huge integers have no decimals in Python."""
    plain = to_json(value)
    return plain if isinstance(plain, str) else str(value) if plain is value else _encode_json(plain).decode()


def number_or_none(value: Any) -> float | None:
    """A number column: huge integers are infinite, what is no number is None."""
    if isinstance(value, bool | int | float):
        huge = isinstance(value, int) and abs(value) >= 1 << 1000
        return math.copysign(math.inf, value > 0 or -1) if huge else float(value)
    return None
