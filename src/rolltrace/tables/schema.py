"""The tables as Arrow and as SQL: types and schemas, derived from `tables.columns`."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from rolltrace._arrow import pa
from rolltrace.tables.columns import STORE_FORMAT, TABLE_SCHEMAS, TableColumnType, TableSchema

BULKY: frozenset[TableColumnType] = frozenset(
    {"long text", "json", "bytes", "int32[]", "float32[]", "int8[]", "map<text, float32[]>"}
)
"""Types of columns that hold payloads: no dictionary and no statistics, which would cost more than they save."""
SCHEMA_OF = {schema.name: schema for schema in TABLE_SCHEMAS}

SQL_TYPES: dict[TableColumnType, str] = {
    "text": "VARCHAR",
    "long text": "VARCHAR",
    "json": "VARCHAR",
    "int64": "BIGINT",
    "int32": "INTEGER",
    "int8": "TINYINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "bytes": "BLOB",
    "text[]": "VARCHAR[]",
    "int32[]": "INTEGER[]",
    "float32[]": "FLOAT[]",
    "int8[]": "TINYINT[]",
    "map<text, float64>": "MAP(VARCHAR, DOUBLE)",
    "map<text, float32[]>": "MAP(VARCHAR, FLOAT[])",
}
"""What DuckDB calls the types of columns."""


class Place(NamedTuple):
    """The rows of one step of one experiment: a partition of every table."""

    project: str
    experiment: str
    step: int | None


def arrow_type(kind: TableColumnType) -> pa.DataType:
    """The Arrow type of a column."""
    if kind.startswith("map<"):
        return pa.map_(pa.string(), arrow_type(kind[len("map<text, ") : -1]))  # type: ignore[arg-type]
    if kind.endswith("[]"):
        return pa.list_(arrow_type(kind[:-2]))  # type: ignore[arg-type]
    plain = {"text": "string", "long text": "string", "json": "string", "bytes": "binary", "float32": "float32"}
    return pa.type_for_alias(plain.get(kind, kind))


@cache
def arrow_schema(name: str) -> pa.Schema:
    """The Arrow schema of a table."""
    fields = [pa.field(column.name, arrow_type(column.type)) for column in SCHEMA_OF[name].columns]
    return pa.schema(fields, metadata={"rolltrace_format": str(STORE_FORMAT), "rolltrace_table": name})


def empty_select(schema: TableSchema) -> str:
    """SQL: no rows, but every column with its type."""
    columns = ", ".join(f'NULL::{SQL_TYPES[column.type]} AS "{column.name}"' for column in schema.columns)
    return f"SELECT {columns} WHERE false"
