"""The rows of a small answer as DuckDB gives them to Python, with as much of an Arrow table as `Result` needs.

A listing of a hundred rows is printed sooner than pyarrow is loaded. Who asks for Arrow gets the same table as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rolltrace._arrow import pa

_ARROW = {
    "VARCHAR": "string",
    "BIGINT": "int64",
    "INTEGER": "int32",
    "SMALLINT": "int16",
    "TINYINT": "int8",
    "DOUBLE": "float64",
    "FLOAT": "float32",
    "BOOLEAN": "bool",
}
"""The types whose values are the same objects in Python, whether they come through Arrow or not."""


class PlainTable:
    """Names and types of columns, and rows."""

    def __init__(self, columns: Sequence[tuple[str, str]], rows: list[tuple[Any, ...]]) -> None:
        self._columns = columns
        self._rows = rows

    @staticmethod
    def can_hold(kinds: Iterable[str]) -> bool:
        """Whether columns of these types read the same as from an Arrow table."""
        return all(kind.removesuffix("[]") in _ARROW for kind in kinds)

    @property
    def column_names(self) -> list[str]:
        return [name for name, _ in self._columns]

    @property
    def num_rows(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """About how large it is."""
        return sum(len(value) if isinstance(value, str) else 8 for row in self._rows for value in row)

    def column(self, name: str) -> list[Any]:
        """The values of a column."""
        at = self.column_names.index(name)
        return [row[at] for row in self._rows]

    def to_pylist(self, first: int, count: int) -> list[dict[str, Any]]:
        """Some rows as dicts that share nothing."""
        names = self.column_names
        rows = [dict(zip(names, row)) for row in self._rows[first : first + count]]
        for name in (name for name, kind in self._columns if kind.endswith("[]")):
            for row in rows:
                row[name] = None if row[name] is None else list(row[name])
        return rows

    def arrow(self) -> pa.Table:
        """As an Arrow table."""
        fields = [pa.field(name, _arrow_type(kind)) for name, kind in self._columns]
        columns = zip(*self._rows) if self._rows else ((),) * len(fields)
        arrays = [pa.array(values, each.type) for values, each in zip(columns, fields)]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _arrow_type(kind: str) -> pa.DataType:
    item = pa.type_for_alias(_ARROW[kind.removesuffix("[]")])
    return pa.list_(pa.field("l", item)) if kind.endswith("[]") else item
