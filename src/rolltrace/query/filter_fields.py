"""Fields of the filter language: what can be asked about a trajectory, and the SQL that answers.

This table is the only source of identifiers in the SQL; everything a user writes becomes a parameter.
The SQL stands in `SELECT ... FROM trajectories t WHERE ...` and reads `ops`, `spans`, `_transitions`, `latest_scores`,
`passes` and `groups`.
"""

from __future__ import annotations

import json
import math
from typing import Any, Literal, NamedTuple

from rolltrace.query.columns import COLUMNS, ColumnKind
from rolltrace.query.filter_lexer import Value, quote
from rolltrace.query.views import SAME_GROUP
from rolltrace.record import OP_KINDS

FieldType = Literal["number", "text", "bool", "sample", "tags"]
Operator = Literal["=", "<", "<=", ">", ">=", "~", "in", "is not null"]
"""The others are these, negated."""


class Field(NamedTuple):
    """Something that a filter can ask about."""

    name: str
    type: FieldType
    sql: str
    """SQL of the value, or of one of many."""
    meaning: str


class Condition(NamedTuple):
    """SQL that is true where a condition holds, and false or NULL elsewhere."""

    sql: str
    parameters: list[Any]


TERM = "t.terms[?]"
"""A term of the newest reward of a trajectory `t`."""

_TYPES: dict[ColumnKind, FieldType] = {
    "integer": "number", "number": "number", "text": "text", "bool": "bool", "sample": "sample"
}  # fmt: skip
"""Columns of other kinds have fields of their own: `flag`, `tag.NAME`."""
_PLAIN = [column for column in COLUMNS if column.kind in _TYPES]

_KINDS = f"{', '.join(f'`{kind!r}`' for kind in OP_KINDS[:-1])} or `{OP_KINDS[-1]!r}`"

FIELDS = {
    field.name: field
    for field in (
        *(Field(column.name, _TYPES[column.kind], f"t.{column.name}", column.meaning) for column in _PLAIN),
        Field("passed", "bool", "p.passed", "it passed, as its experiment has it (docs/howto/pass.md)"),
        Field("flag", "text", "one_flag", "some flag that rolltrace set"),
        Field("tool", "text", "s.name", "name of some tool op"),
        Field("op", "text", "s.name", "name of some op"),
        Field("kind", "text", "s.kind", f"kind of some op: {_KINDS}"),
        Field(
            "text",
            "text",
            "s.payload",
            "inputs, outputs or decoded tokens of some op, or the trace of some transition; only `~` and `!~`",
        ),
        Field("tag.NAME", "tags", "json_extract_string(t.tags, ?)", "the tag NAME; the literal says how to compare"),
        Field("score.NAME", "number", "x.value", "newest score called NAME"),
        Field("term.NAME", "number", TERM, "the part NAME of the newest reward"),
        Field(
            "label.NAME",
            "text",
            "x.label",
            "newest text of the score NAME: a label, a human's note; alone, `label.NAME` means that there is one",
        ),
        Field("label", "text", "one_label", "name of some label that people gave it or a turn of it"),
        Field("author.NAME", "text", "x.author", "who gave it the label NAME"),
        Field("author", "text", "x.author", "who gave it some label"),
        Field("group.size", "number", "g.size", "how many rollouts its group has"),
        Field("group.scored", "number", "g.scored", "how many of them have a reward"),
        Field("group.mean", "number", "g.mean", "mean reward of its group"),
        Field("group.std", "number", "g.std", "standard deviation of the rewards of its group"),
        Field("group.min", "number", "g.min", "smallest reward of its group"),
        Field("group.max", "number", "g.max", "largest reward of its group"),
        Field("group.spread", "number", "g.spread", "largest minus smallest reward of its group"),
        Field("group.zero_variance", "bool", "g.zero_variance", "its group has two rewards or more, all the same"),
        Field("group.passed", "number", "g.passed", "how many rollouts of its group passed"),
        Field("group.pass_rate", "number", "g.pass_rate", "their share of those of its group that have a reward"),
        Field("group.response_tokens_mean", "number", "g.response_tokens_mean", "mean response length of its group"),
        Field("group.response_tokens_min", "number", "g.response_tokens_min", "shortest response of its group"),
        Field("group.response_tokens_max", "number", "g.response_tokens_max", "longest response of its group"),
        Field("group.turns_mean", "number", "g.turns_mean", "mean number of llm ops in its group"),
        Field("group.duration_s_max", "number", "g.duration_s_max", "seconds that the slowest of its group took"),
        Field("group.errors", "number", "g.errors", "how many of its group ended in an error"),
    )
}
"""Every field by its name."""

_OPS = "EXISTS (SELECT 1 FROM ops s WHERE s.trajectory_id = t.trajectory_id AND "
_TEXTS = _OPS.replace("ops s", "spans s")
_STEPS = "EXISTS (SELECT 1 FROM _transitions e WHERE e.trajectory_id = t.trajectory_id AND "
_SCORES = "EXISTS (SELECT 1 FROM latest_scores x WHERE x.trajectory_id = t.trajectory_id AND x.name = ? AND "
_LOOKUPS = {
    "passed": "EXISTS (SELECT 1 FROM passes p WHERE p.trajectory_id = t.trajectory_id AND {})",
    "flag": "len([one_flag FOR one_flag IN t.flags IF {}]) > 0",
    "tool": _OPS + "s.kind = 'tool' AND {})",
    "op": _OPS + "{})",
    "kind": _OPS + "{})",
    "text": f"({_TEXTS}({{}})) OR {_STEPS}({{}})))",
    "score": _SCORES + "{})",
    "label.NAME": _SCORES + "{})",
    "label": "len([one_label FOR one_label IN t.labels IF {}]) > 0",
    "author.NAME": _SCORES + "x.label IS NOT NULL AND {})",
    "author": _SCORES.replace("x.name = ?", "x.label IS NOT NULL") + "{})",
    "group": f"EXISTS (SELECT 1 FROM groups g WHERE {SAME_GROUP} AND {{}})",
}
"""Where values are found that do not stand in a column of their own. The test holds if one of them meets it.

Not as scalar subqueries: 50 of those on `groups` took DuckDB 2.0 13 s to plan.
"""

_INTEGERS = frozenset(column.name for column in COLUMNS if column.kind == "integer") | frozenset(
    f"group.{name}" for name in ("size", "scored", "passed", "response_tokens_min", "response_tokens_max", "errors")
)
"""Numbers that are never NaN, and whose plain comparisons DuckDB can use to skip files."""

_TYPE_WORDS = {"number": "a number", "text": "text", "bool": "true or false"}


def need(field: Field) -> str | None:
    """What a field reads besides the plain columns: flag, tag, tool, op, kind, text, score, term, label, ..."""
    first = field.name.partition(".")[0]
    return first if first in _LOOKUPS or field.type == "tags" or field.sql == TERM else None


def operator_problem(field: Field, name: str, operator: Operator) -> str | None:
    """Why a field, written as `name`, cannot be used with an operator; None if it can."""
    if field.name == "text" and operator != "~":
        return "text is searched: text ~ 'word' or text !~ 'word'"
    if operator == "~" and field.type in ("number", "bool"):
        return f"{name} is {_TYPE_WORDS[field.type]}; '~' searches in text"
    if operator in ("<", "<=", ">", ">="):
        if field.name in _LOOKUPS and "." not in field.name:
            return f"{name} has many values and no order; use =, !=, ~, !~, in or not in"
        if field.type == "bool":
            return f"{name} is true or false, which have no order; write {name} = true"
    return None


def value_problem(field: Field, name: str, operator: Operator, value: Value) -> str | None:
    """Why a field, written as `name`, cannot be compared with a value; None if it can."""
    order = operator in ("<", "<=", ">", ">=")
    if order and isinstance(value, float) and math.isnan(value):
        return "nothing is smaller or larger than nan; '= nan' finds it"
    if field.type == "tags" and operator != "~":
        return "true and false have no order" if order and isinstance(value, bool) else None
    if field.type == "sample" and not isinstance(value, bool):
        if order:
            return (
                None
                if isinstance(value, int | float) or _is_integer(value)
                else f"{name} is ordered by number, not by {quote(value)}"
            )
        return f"{name} is an integer or text, not {quote(value)}" if isinstance(value, float) else None
    wanted = "text" if field.type in ("tags", "sample") else field.type
    if wanted == _type(value):
        return None
    if operator == "~":
        return f"'~' searches for text, not for {quote(value)}" + _meant(wanted, value)
    return f"{name} is {_TYPE_WORDS[wanted]}, not {quote(value)}" + _meant(wanted, value)


def condition(field: Field, key: str, operator: Operator, values: list[Value]) -> Condition:
    """SQL and parameters for a field (of the name `key`), an operator and checked values."""
    if field.name == "text":
        return _search(str(values[0]))
    if field.type == "tags":
        return _tag(key, operator, values)
    sql, parameters = field.sql, list[Any](values)
    if field.type == "sample":
        if operator in ("<", "<=", ">", ">="):
            sql, parameters = f"TRY_CAST({sql} AS BIGINT)", [int(v) if isinstance(v, str) else v for v in values]
        else:
            parameters = [str(value) for value in values]
    may_be_nan = field.type == "number" and field.name not in _INTEGERS
    test = _test(sql, operator, len(values), may_be_nan=may_be_nan)
    lookup = _LOOKUPS.get(field.name) or _LOOKUPS.get(need(field) or "", "{}")
    which = (key,) if "?" in lookup or field.sql == TERM else ()
    return Condition(lookup.format(test), [*which, *parameters])


def _test(sql: str, operator: Operator, count: int, *, may_be_nan: bool) -> str:
    if operator == "is not null":
        return f"{sql} IS NOT NULL"
    if operator == "~":
        return f"contains(lower({sql}), lower(?))"
    if operator == "in":
        return f"{sql} IN ({', '.join('?' * count)})"
    if may_be_nan and operator in (">", ">="):  # in DuckDB nan is larger than all numbers
        sql = f"nullif({sql}, 'nan'::DOUBLE)"
    return f"{sql} {operator} ?"


def _tag(key: str, operator: Operator, values: list[Value]) -> Condition:
    text = FIELDS["tag.NAME"].sql
    numbers = [value for value in values if _type(value) == "number"]
    texts = [quote(value) if isinstance(value, bool) else value for value in values if _type(value) != "number"]
    tests, parameters = [], list[Any]()
    if numbers:
        number = f"TRY_CAST(coalesce({text}, {text}) AS DOUBLE)"
        tests.append(_test(number, operator, len(numbers), may_be_nan=True))
        parameters += [*pointers(key), *numbers]
    if texts or not numbers:
        tests.append(_test(text, operator, len(texts), may_be_nan=False))
        parameters += [pointers(key)[1], *texts]
    return Condition(tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})", parameters)


def pointers(key: str) -> tuple[str, str]:
    """Where a number stands in a JSON object: if JSON cannot hold it (nan, inf; see record.to_json), and else."""
    pointer = "/" + key.replace("~", "~0").replace("/", "~1")
    return pointer + "/$float", pointer


def _search(text: str) -> Condition:
    # Inputs and outputs are JSON, in which quotes, backslashes and line ends are escaped.
    forms = sorted({text, json.dumps(text, ensure_ascii=False)[1:-1]})
    columns = [*(FIELDS["text"].sql for _ in forms), "s.text"]
    of_ops, of_steps = (
        " OR ".join(_test(column, "~", 1, may_be_nan=False) for column in of_one)
        for of_one in (columns, ["e.trace" for _ in forms])
    )
    return Condition(_LOOKUPS["text"].format(of_ops, of_steps), [*forms, text, *forms])


def _type(value: Value) -> Literal["number", "text", "bool"]:
    return "bool" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def _is_integer(text: str) -> bool:
    digits = text[1:] if text.startswith("-") else text
    return digits.isascii() and digits.isdigit() and len(digits) <= 18


def _meant(wanted: str, value: Value) -> str:
    if wanted == "text":
        return f"; did you mean {quote(str(value).lower() if isinstance(value, bool) else str(value))}?"
    if wanted == "bool" and str(value).lower() in ("true", "1", "false", "0"):
        return f"; did you mean {'true' if str(value).lower() in ('true', '1') else 'false'}?"
    if wanted == "number" and isinstance(value, str):
        try:
            return f"; did you mean {quote(float(value) if not _is_integer(value) else int(value))}?"
        except ValueError:
            return ""
    return ""
