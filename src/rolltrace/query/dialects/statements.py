"""The statements that create the views of a store in another engine, over its Parquet files or a lake's Delta tables.

The views are those of `query.views.whole_views`. For DuckDB they are printed as they are; for the others the files
beside this one hold them in their dialect, written by `make gen`. Only the tables below the views depend on the store:
where its files are, and which tables have any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple

from rolltrace.errors import QueryError
from rolltrace.pass_rule import Experiment, PassRule
from rolltrace.query.views import SQL_TYPES, table_in_files, whole_views
from rolltrace.record import TABLES, ColumnType, Table

_LIMITS = (
    "These views read the finished parts only: what is still in journals is not in them (rolltrace drain).",
    "For half a minute after a compaction the parts that it replaced are still there and their rows count twice.",
)
_LIMITS_OF_LAKE = ("These views read what was shipped: what is still on its node is not in them (rolltrace ship).",)
_LIMIT_OF_PASS = "What was chosen for pass is not in these views: passed means reward > 0 here, as pass_rule says."
_INTERNAL = "Names that begin with _ are steps on the way, and may change."
_PARTS = "data/*/*/*"
"""Where the parts are, below the store: project, experiment, step."""
_NO_PARTS = "no parts yet: print the views again once there are"


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
    lake_table: Callable[[str, Table, bool], str]
    """The same of a lake, from its Delta table."""
    notes: tuple[str, ...] = ()


def view_statements(
    dialect: str,
    path: str,
    stored: Collection[str],
    *,
    is_lake: bool = False,
    pass_rules: Mapping[Experiment, PassRule] = MappingProxyType({}),
) -> str:
    """The SQL that creates the documented views.

    Args:
        dialect: One of `DIALECTS`.
        path: Where the engine finds the store or the lake: a folder or a URL.
        stored: The names of the tables that have parts there.
        is_lake: It is a lake.
        pass_rules: What pass means in the experiments for which somebody has chosen.

    Raises:
        QueryError: there is no such dialect, or rolltrace cannot say how it reads a lake there.
    """
    if dialect not in DIALECTS:
        raise QueryError(f"unknown dialect {dialect!r}; there are {', '.join(DIALECTS)}")
    chosen = DIALECTS[dialect]
    what, limits = ("lake", _LIMITS_OF_LAKE) if is_lake else ("store", _LIMITS)
    about = [f"The views of the rolltrace {what} {path}, for {chosen.title}.", *limits, _INTERNAL, *chosen.notes]
    if pass_rules and dialect in GENERATED:
        about.append(_LIMIT_OF_PASS)
    statement = chosen.lake_table if is_lake else chosen.table
    tables = [statement(path.rstrip("/"), table, table.name in stored) for table in TABLES]
    lines = "\n".join("-- " + line.replace("\n", " ") for line in about)
    return "\n".join([lines, "", *tables, _views(dialect, pass_rules)])


def _views(dialect: str, pass_rules: Mapping[Experiment, PassRule]) -> str:
    if dialect in GENERATED:
        return (files(__package__) / f"{dialect}.sql").read_text()
    create = DIALECTS[dialect].create
    return "\n".join(f"{create.format(name=name)}\n{sql.strip()};\n" for name, sql in whole_views(pass_rules).items())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escaped(text: str) -> str:
    """The same for those to whom a backslash is not a character like any other."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _columns(table: Table, types: dict[ColumnType, str]) -> str:
    return ", ".join(f"{column.name} {types[column.type]}" for column in table.columns)


def _duckdb_table(path: str, table: Table, has_parts: bool) -> str:
    parts = _quoted(f"{path}/{_PARTS}/{table.name}--*.parquet")
    return _duckdb_union(
        table, f"read_parquet({parts}, union_by_name = true, hive_partitioning = false)" if has_parts else None
    )


def _duckdb_lake_table(path: str, table: Table, has_parts: bool) -> str:
    return _duckdb_union(table, f"delta_scan({_quoted(f'{path}/{table.name}')})" if has_parts else None)


def _duckdb_union(table: Table, parts: str | None) -> str:
    # An empty table first, so that a column which no part has yet is there too, as null.
    empty = ", ".join(f"NULL::{DUCKDB.types[column.type]} AS {column.name}" for column in table.columns)
    rest = f" UNION ALL BY NAME\nSELECT * FROM {parts}" if parts else f" -- {_NO_PARTS}"
    return f"{DUCKDB.create.format(name=table_in_files(table))}\nSELECT {empty} WHERE false{rest}\n;\n"


def _spark_table(path: str, table: Table, has_parts: bool) -> str:
    place = path.replace("s3://", "s3a://", 1) if path.startswith("s3://") else path
    return (
        f"CREATE OR REPLACE TEMPORARY VIEW {table_in_files(table)} ({_columns(table, SPARK.types)})\n"
        f"USING parquet OPTIONS (path {_escaped(f'{place}/data')}, pathGlobFilter '{table.name}--*.parquet', "
        "recursiveFileLookup 'true');\n"
    )


def _spark_lake_table(path: str, table: Table, has_parts: bool) -> str:
    raise QueryError(
        f"there are no views of a lake in Spark's dialect; with the package delta-spark a table of {path!r} is "
        f"spark.read.format('delta').load({f'{path}/{table.name}'!r}). For the views name a store, or another dialect: "
        "duckdb, clickhouse"
    )


_CLICKHOUSE_FUNCTIONS = {"s3://": "s3", "https://": "s3", "http://": "s3", "gs://": "gcs"}


def _clickhouse_table(path: str, table: Table, has_parts: bool) -> str:
    function = next((name for begin, name in _CLICKHOUSE_FUNCTIONS.items() if path.startswith(begin)), "file")
    return _clickhouse_select(function, f"{path}/{_PARTS}/{table.name}--*.parquet", table)


def _clickhouse_lake_table(path: str, table: Table, has_parts: bool) -> str:
    scheme, _, _ = path.rpartition("://")
    if scheme not in ("", "s3", "https", "http"):
        raise QueryError(
            f"there are no views of a lake at {scheme}:// in ClickHouse's dialect; if its storage speaks S3, say where "
            "with --path https://HOST/BUCKET/PREFIX"
        )
    if not has_parts:
        return _clickhouse_view(table, f"null({_clickhouse_columns(table)}) -- {_NO_PARTS}")
    return _clickhouse_select("deltaLake" if scheme else "deltaLakeLocal", f"{path}/{table.name}", table)


def _clickhouse_select(function: str, place: str, table: Table) -> str:
    return _clickhouse_view(table, f"{function}({_escaped(place)}, 'Parquet', {_clickhouse_columns(table)})")


def _clickhouse_columns(table: Table) -> str:
    return _quoted(_columns(table, CLICKHOUSE.types))


def _clickhouse_view(table: Table, source: str) -> str:
    return f"{CLICKHOUSE.create.format(name=table_in_files(table))}\nSELECT * FROM {source}{CLICKHOUSE.settings};\n"


DUCKDB = Dialect(
    title="DuckDB (a lake: with its extension delta)",
    create="CREATE OR REPLACE VIEW {name} AS",
    settings="",
    types=SQL_TYPES,
    table=_duckdb_table,
    lake_table=_duckdb_lake_table,
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
    lake_table=_spark_lake_table,
    notes=(
        "`inputs` and `outputs` of `spans` that are a plain string come without its quotes.",
        "A view is planned and computed anew for every question: keep what you ask often (docs/howto/engines.md).",
    ),
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
    lake_table=_clickhouse_lake_table,
    notes=(
        "A list that is missing is an empty one: ClickHouse has no null lists.",
        "A server reads files below its user_files_path only; clickhouse-local and chdb read any, but the Delta tables "
        "of a lake only below the current folder.",
    ),
)  # fmt: skip
DIALECTS = {"duckdb": DUCKDB, "spark": SPARK, "clickhouse": CLICKHOUSE}
GENERATED = ("spark", "clickhouse")
"""Those whose views are in a file beside this one."""
