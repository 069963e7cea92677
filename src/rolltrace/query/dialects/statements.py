"""The statements that create the views of a store in another engine, over its Parquet files alone.

The views are those of `query.views.whole_views`. For DuckDB they are printed as they are; for the others the files
beside this one hold them in their dialect, written by `make gen`. Only the tables below the views depend on the store:
where its files are, and which tables have any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.resources import files
from typing import NamedTuple

from rolltrace.errors import QueryError
from rolltrace.query.views import SQL_TYPES, table_in_files, whole_views
from rolltrace.record import TABLES, ColumnType, Table

_LIMITS = (
    "These views read the finished parts only: what is still in journals is not in them (rolltrace drain).",
    "For half a minute after a compaction the parts that it replaced are still there and their rows count twice.",
    "Names that begin with _ are steps on the way, and may change.",
)
_PARTS = "data/*/*/*"
"""Where the parts are, below the store: project, experiment, step."""


class Dialect(NamedTuple):
    """How an engine spells what the views need."""

    title: str
    create: str
    """Begins a statement that creates the view {name}."""
    settings: str
    """Ends it."""
    types: dict[ColumnType, str]
    table: Callable[[str, Table, bool], str]
    """The statement that makes a table of its parts: from the path of the store, and whether there are any."""
    notes: tuple[str, ...] = ()


def view_statements(dialect: str, path: str, stored: Collection[str]) -> str:
    """The SQL that creates the documented views.

    Args:
        dialect: One of `DIALECTS`.
        path: Where the engine finds the store: a folder or a URL.
        stored: The names of the tables that have parts there.

    Raises:
        QueryError: there is no such dialect.
    """
    if dialect not in DIALECTS:
        raise QueryError(f"unknown dialect {dialect!r}; there are {', '.join(DIALECTS)}")
    chosen = DIALECTS[dialect]
    about = [f"The views of the rolltrace store {path}, for {chosen.title}.", *_LIMITS, *chosen.notes]
    tables = [chosen.table(path.rstrip("/"), table, table.name in stored) for table in TABLES]
    lines = "\n".join("-- " + line.replace("\n", " ") for line in about)
    return "\n".join([lines, "", *tables, _views(dialect)])


def _views(dialect: str) -> str:
    if dialect in GENERATED:
        return (files(__package__) / f"{dialect}.sql").read_text()
    create = DIALECTS[dialect].create
    return "\n".join(f"{create.format(name=name)}\n{sql.strip()};\n" for name, sql in whole_views().items())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _columns(table: Table, types: dict[ColumnType, str]) -> str:
    return ", ".join(f"{column.name} {types[column.type]}" for column in table.columns)


def _duckdb_table(path: str, table: Table, has_parts: bool) -> str:
    # An empty table first, so that a column which no part has yet is there too, as null.
    empty = ", ".join(f"NULL::{DUCKDB.types[column.type]} AS {column.name}" for column in table.columns)
    parts = (
        f" UNION ALL BY NAME\nSELECT * FROM read_parquet({_quoted(f'{path}/{_PARTS}/{table.name}--*.parquet')}, "
        "union_by_name = true, hive_partitioning = false)"
        if has_parts
        else " -- no parts yet: print the views again once there are"
    )
    return f"{DUCKDB.create.format(name=table_in_files(table))}\nSELECT {empty} WHERE false{parts}\n;\n"


def _spark_table(path: str, table: Table, has_parts: bool) -> str:
    place = path.replace("s3://", "s3a://", 1) if path.startswith("s3://") else path
    return (
        f"CREATE OR REPLACE TEMPORARY VIEW {table_in_files(table)} ({_columns(table, SPARK.types)})\n"
        f"USING parquet OPTIONS (path {_quoted(f'{place}/data')}, pathGlobFilter '{table.name}--*.parquet', "
        "recursiveFileLookup 'true');\n"
    )


_CLICKHOUSE_FUNCTIONS = {"s3://": "s3", "https://": "s3", "http://": "s3", "gs://": "gcs"}


def _clickhouse_table(path: str, table: Table, has_parts: bool) -> str:
    function = next((name for begin, name in _CLICKHOUSE_FUNCTIONS.items() if path.startswith(begin)), "file")
    place = _quoted(f"{path}/{_PARTS}/{table.name}--*.parquet")
    source = f"{function}({place}, 'Parquet', {_quoted(_columns(table, CLICKHOUSE.types))})"
    return f"{CLICKHOUSE.create.format(name=table_in_files(table))}\nSELECT * FROM {source}{CLICKHOUSE.settings};\n"


DUCKDB = Dialect(
    title="DuckDB",
    create="CREATE OR REPLACE VIEW {name} AS",
    settings="",
    types=SQL_TYPES,
    table=_duckdb_table,
)
SPARK = Dialect(
    title="Spark SQL (3.4 or newer)",
    create="CREATE OR REPLACE TEMPORARY VIEW {name} AS",
    settings="",
    types={
        "text": "STRING", "long text": "STRING", "json": "STRING", "int64": "BIGINT", "int32": "INT",
        "float64": "DOUBLE", "bool": "BOOLEAN", "int32[]": "ARRAY<INT>", "float32[]": "ARRAY<FLOAT>",
        "int8[]": "ARRAY<TINYINT>",
    },
    table=_spark_table,
    notes=("`inputs` and `outputs` of `spans` that are a plain string come without its quotes.",),
)  # fmt: skip
CLICKHOUSE = Dialect(
    title="ClickHouse (24.8 or newer)",
    create="CREATE OR REPLACE VIEW {name} AS",
    settings="\nSETTINGS join_use_nulls = 1, use_hive_partitioning = 0",
    types={
        "text": "Nullable(String)", "long text": "Nullable(String)", "json": "Nullable(String)",
        "int64": "Nullable(Int64)", "int32": "Nullable(Int32)", "float64": "Nullable(Float64)",
        "bool": "Nullable(Bool)", "int32[]": "Array(Int32)", "float32[]": "Array(Float32)", "int8[]": "Array(Int8)",
    },
    table=_clickhouse_table,
    notes=(
        "A list that is missing is an empty one: ClickHouse has no null lists.",
        "A server reads files only below its user_files_path; clickhouse-local and chdb read any.",
    ),
)  # fmt: skip
DIALECTS = {"duckdb": DUCKDB, "spark": SPARK, "clickhouse": CLICKHOUSE}
GENERATED = ("spark", "clickhouse")
"""Those whose views are in a file beside this one."""
