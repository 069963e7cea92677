"""The tables as Arrow: their schemas and columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rolltrace._arrow import pa
from rolltrace.record import FORMAT, TABLES, ColumnType, Table

_ARROW: dict[ColumnType, str] = {
    "text": "string",
    "long text": "string",
    "json": "string",
    "int64": "int64",
    "int32": "int32",
    "float64": "float64",
    "bool": "bool",
    "int32[]": "int32",
    "float32[]": "float32",
    "int8[]": "int8",
}
"""The Arrow type of a column, or of the items of a column of lists."""
BULKY = frozenset({"long text", "json", "int32[]", "float32[]", "int8[]"})
"""The types of columns that hold payloads."""
_REPEATED = frozenset({str, int, bool, type(None)})


class _Schemas(Mapping[str, "pa.Schema"]):
    """Each is made when it is asked for: whoever asks for none does without Arrow."""

    def __init__(self) -> None:
        self._tables = {table.name: table for table in TABLES}
        self._schemas: dict[str, pa.Schema] = {}

    def __getitem__(self, name: str) -> pa.Schema:
        if name not in self._schemas:
            self._schemas[name] = pa.schema(
                [pa.field(column.name, _type_of(column.type)) for column in self._tables[name].columns],
                metadata={"rolltrace_format": str(FORMAT), "rolltrace_table": name},
            )
        return self._schemas[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def _type_of(kind: ColumnType) -> pa.DataType:
    item = pa.type_for_alias(_ARROW[kind])
    return pa.list_(item) if kind.endswith("[]") else item


SCHEMAS: Mapping[str, pa.Schema] = _Schemas()
"""The Arrow schema of each table, derived from `record.tables`."""


def arrow_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The values of one column. Most columns of a part hold the same everywhere, which is soon told."""
    if values and type(values[0]) in _REPEATED and values.count(values[0]) == len(values):
        if values[0] is None:
            return pa.nulls(len(values), kind)
        return pa.repeat(pa.scalar(values[0], type=kind), len(values))
    if not pa.types.is_list(kind):
        return pa.array(values, type=kind)
    # Lists come as Arrow arrays already: they are put behind each other without a look at their items.
    offsets, total = [], 0
    for value in values:
        offsets.append(None if value is None else total)
        total += 0 if value is None else len(value)
    arrays = [
        value if isinstance(value, pa.Array) else pa.array(value, type=kind.value_type)
        for value in values
        if value is not None
    ]
    flat = pa.concat_arrays(arrays) if arrays else pa.array([], type=kind.value_type)
    return pa.ListArray.from_arrays(pa.array([*offsets, total], type=pa.int32()), flat, type=kind)


def as_today(rows: pa.Table, table: Table) -> pa.Table:
    """Rows with the columns that the table has today, whatever they were written with."""
    schema = SCHEMAS[table.name]
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
