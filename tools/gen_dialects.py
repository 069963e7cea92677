"""Write the views of a store in the SQL of other engines: src/rolltrace/query/dialects/*.sql.

The views have one definition, in DuckDB's SQL (`query.views.whole_views`). sqlglot parses it and writes the other
dialects; what it cannot know, because it is about meaning and not about spelling, is rewritten here first:

- `*`, EXCLUDE, REPLACE and BY NAME become lists of columns.
- DuckDB orders null last, in structs too. The others do not agree on that, so a key says first whether it is null.
- ClickHouse has no null lists, no null tuples and no named fields without a cast: lists are empty, fields have numbers.

`make gen` writes the files and `make check` compares them: `python tools/gen_dialects.py [--check]`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlglot import ErrorLevel, exp, parse_one
from sqlglot.optimizer.qualify import qualify

from rolltrace.query.dialects import DIALECTS, GENERATED
from rolltrace.query.views import VIEWS, table_in_files, whole_views
from rolltrace.record import TABLES

FOLDER = Path(__file__).parents[1] / "src" / "rolltrace" / "query" / "dialects"
NOT_EXPRESSED = {
    "transitions": "it lays amendments on steps with json_merge_patch. _transitions has the rows as they are stored: "
    "an amendment is a row of its own (amends)",
}
"""Views that only DuckDB can have -> why."""
_AGES = tuple(f"_{name}_at" for name in ("reward", "advantage", "fate"))
"""Columns of the listing that only our own engine needs."""

Node = Any  # what the types of sqlglot's nodes are called changes with its releases


def main() -> None:
    texts = {dialect: text_of(dialect) for dialect in GENERATED}
    if "--check" in sys.argv[1:]:
        for dialect, text in texts.items():
            if (FOLDER / f"{dialect}.sql").read_text() != text:
                sys.exit(f"{dialect}.sql is not what the views say; run: make gen")
        return
    for dialect, text in texts.items():
        (FOLDER / f"{dialect}.sql").write_text(text)


def text_of(dialect: str) -> str:
    """The statements that create the views."""
    create = DIALECTS[dialect].create
    schema: dict[str, object] = {
        table_in_files(table): {name: _type(kind) for name, kind, _ in table.columns} for table in TABLES
    }
    statements = []
    for name, sql in whole_views().items():
        if name in NOT_EXPRESSED:
            statements.append(f"-- {name}: not in this dialect, since {NOT_EXPRESSED[name]}.\n")
            continue
        query = with_named_columns(parse_one(sql, dialect="duckdb"), schema)
        schema[name] = dict.fromkeys(query.named_selects, "TEXT")
        query = _REWRITES[dialect](query)
        text = query.sql(dialect=dialect, pretty=True, unsupported_level=ErrorLevel.RAISE)
        what = "" if name in VIEWS else "-- (used by the views below)\n"
        statements.append(f"{what}{create.format(name=name)}\n{text}{DIALECTS[dialect].settings};\n")
    return "-- Written by `make gen` from src/rolltrace/query/views.py.\n\n" + "\n".join(statements)


def _type(kind: str) -> str:
    return {"int64": "BIGINT", "int32": "INT", "float64": "DOUBLE", "bool": "BOOLEAN"}.get(kind, "TEXT")


def with_named_columns(query: Node, schema: dict[str, object]) -> Node:
    """The query with every column by its name and in its place."""
    query = qualify(
        query, schema=schema, dialect="duckdb", quote_identifiers=False, validate_qualify_columns=False,
        identify=False, expand_alias_refs=False,
    )  # fmt: skip
    for union in list(query.find_all(exp.Union)):
        if union.args.get("by_name"):
            wanted = union.left.named_selects
            right = union.right
            by_name = {each.alias_or_name: each for each in right.selects}
            right.set("expressions", [by_name.get(name) or exp.alias_(exp.null(), name) for name in wanted])
            union.set("by_name", False)
    for select in query.find_all(exp.Select):
        select.set("expressions", [each for each in select.expressions if each.alias_or_name not in _AGES])
    return query


def _rewritten(query: Node, rewrite: Callable[[Node], Node]) -> Node:
    """The query with every part of it rewritten, the inner ones first."""
    for node in reversed(list(query.dfs())):
        other = rewrite(node)
        if other is not node:
            node.replace(other)
    return query


def _with_explicit_order(node: Node) -> Node:
    """arg_max, and first(... ORDER BY ...), by keys that say whether they are null before they say what they are."""
    if isinstance(node, exp.ArgMax):
        key = node.expression
        parts = [each.expression for each in key.expressions] if isinstance(key, exp.Struct) else [key]
        node.set(
            "expression", exp.Tuple(expressions=[each for part in parts for each in (_is_null(part), part.copy())])
        )
    elif isinstance(node, exp.First) and isinstance(node.this, exp.Order):
        keys: list[Node] = []
        for each in node.this.expressions:
            key = each.this.copy()
            keys += [_is_null(key), exp.Neg(this=key) if each.args.get("desc") else key]
        return exp.ArgMin(this=node.this.this, expression=exp.Tuple(expressions=keys))
    return node


def _is_null(key: Node) -> Node:
    return exp.Paren(this=exp.Is(this=exp.Paren(this=key.copy()), expression=exp.null()))


def _without_is_true(node: Node) -> Node:
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean):
        return exp.Coalesce(this=node.this, expressions=[exp.false()])
    return node


def for_spark(query: Node) -> Node:
    return _rewritten(_rewritten(_rewritten(query, _with_explicit_order), _without_is_true), _for_spark)


def _for_spark(node: Node) -> Node:
    if isinstance(node, exp.Bracket) and isinstance(node.expressions[0], exp.Slice):
        first, last = node.expressions[0].this, node.expressions[0].expression
        length = last or exp.func("GREATEST", exp.func("SIZE", node.this.copy()), exp.Literal.number(0))
        return exp.func("SLICE", node.this, first, length, dialect="spark")
    if isinstance(node, exp.Anonymous) and node.name.lower() == "isfinite":
        (value,) = node.expressions
        return exp.Paren(
            this=parse_one(f"NOT isnan({_(value)}) AND abs({_(value)}) < CAST('Infinity' AS DOUBLE)", dialect="spark")
        )
    return node


def _(node: Node) -> str:
    return str(node.sql(dialect="spark"))


def for_clickhouse(query: Node) -> Node:
    query = _rewritten(_rewritten(query, _with_explicit_order), _without_is_true)
    fields = {each.name: at for struct in query.find_all(exp.Struct) for at, each in enumerate(struct.expressions, 1)}
    return _rewritten(query, lambda node: _for_clickhouse(node, fields))


def _for_clickhouse(node: Node, fields: dict[str, int]) -> Node:
    match node:
        case exp.Struct():
            return _call("tuple", *(each.expression for each in node.expressions))
        case exp.Dot():
            return _call("tupleElement", node.this, exp.Literal.number(fields[node.name]))
        case exp.Case() if _is_list(node.args["ifs"][0].args["true"]):
            (only,) = node.args["ifs"]
            return _call("if", only.this, only.args["true"], exp.Array())
        case exp.Bracket() if isinstance(node.expressions[0], exp.Slice):
            bounds = node.expressions[0]
            return _call("arraySlice", node.this, bounds.this, *filter(None, [bounds.expression]))
        case exp.Coalesce() if _is_list(node.this):
            (other,) = node.expressions
            return (
                node.this
                if isinstance(other, exp.Cast)
                else _call("if", _call("notEmpty", node.this), node.this, other)
            )
        case exp.Is() if _is_list(node.this):
            return _call("empty", node.this)
        case exp.Substring():
            return _call("substringUTF8", node.this, node.args["start"], *filter(None, [node.args.get("length")]))
        case exp.Cast() if isinstance(node.this, exp.JSONExtract):
            key = node.this.expression.expressions[-1].this
            return _call(
                "nullIf", _call("JSONExtractRaw", node.this.this, exp.Literal.string(key)), exp.Literal.string("")
            )
        case exp.TryCast() if node.is_type("bigint"):
            return _call("toInt64OrNull", node.this)
        case exp.ArraySort():
            return _call("arraySort", node.this)
        case exp.ArrayAgg():
            is_distinct = isinstance(node.this, exp.Distinct)
            return _call("groupUniqArray", node.this.expressions[0]) if is_distinct else _call("groupArray", node.this)
        case exp.Max() if isinstance(node.this, exp.Column) and node.this.name in _MAY_BE_NAN:
            any_nan = exp.GT(this=_call("countIf", _call("isNaN", node.this)), expression=exp.Literal.number(0))
            return _call("if", any_nan, exp.var("nan"), _call("max", node.this))
        case exp.LogicalOr():
            return _call("max", node.this)
        case exp.LogicalAnd():
            return _call("min", node.this)
        case exp.Flatten():
            return _call("arrayFlatten", node.this)
        case exp.Anonymous() if node.name.lower() == "isfinite":
            return _call("isFinite", *node.expressions)
        case _:
            return node


def _is_list(node: Node) -> bool:
    is_slice = isinstance(node, exp.Anonymous) and node.name == "arraySlice"
    return is_slice or (isinstance(node, exp.Column) and node.name in _LISTS)


_LISTS = {name for table in TABLES for name, kind, _ in table.columns if kind.endswith("[]")}
_LISTS |= {"flags", "labels", "prompt_ids", "response_ids"}


_MAY_BE_NAN = {"reward"}
"""DuckDB and Spark take NaN for the largest number; ClickHouse leaves it out of max()."""


def _call(name: str, *arguments: Node) -> Node:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])


_REWRITES: dict[str, Callable[[Node], Node]] = {"spark": for_spark, "clickhouse": for_clickhouse}

if __name__ == "__main__":
    main()
