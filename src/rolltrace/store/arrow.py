"""The tables as Arrow: their schemas and columns. Modules of pyarrow that are slow to load come when they are used.

Most questions to a small store need neither `pc` (pyarrow.compute) nor `pq` (pyarrow.parquet).
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from rolltrace.record import FORMAT, TABLES, ColumnType, Table


class _Later:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


pc: Any = _Later("pyarrow.compute")
pq: Any = _Later("pyarrow.parquet")

_ARROW: dict[ColumnType, pa.DataType] = {
    "text": pa.string(),
    "long text": pa.string(),
    "json": pa.string(),
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "int32[]": pa.list_(pa.int32()),
    "float32[]": pa.list_(pa.float32()),
    "int8[]": pa.list_(pa.int8()),
}
BULKY = frozenset({"long text", "json", "int32[]", "float32[]", "int8[]"})
"""The types of columns that hold payloads."""
_REPEATED = frozenset({str, int, bool, type(None)})

SCHEMAS: dict[str, pa.Schema] = {
    table.name: pa.schema(
        [pa.field(column.name, _ARROW[column.type]) for column in table.columns],
        metadata={"rolltrace_format": str(FORMAT), "rolltrace_table": table.name},
    )
    for table in TABLES
}
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
