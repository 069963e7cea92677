"""The `where` language: text -> an SQL predicate with parameters.

What a user writes is never part of the SQL: identifiers come from `FIELDS`, values are parameters. The grammar, in the
order of binding, `not` first:

    any       = all ("or" all)*
    all       = each ("and" each)*
    each      = "not"* ( "(" any ")" | condition )
    condition = field ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~" ) value
              | field ["not"] "in" "(" value ("," value)* ")"
              | field "is" ["not"] "null"

A missing value meets no comparison, and `not` is a true opposite: what `reward = 1` leaves out, `reward != 1` and
`not reward = 1` find. SQL's NULL would leave such rows out of both. So a negation is carried down to the conditions,
and only negated ones pay for it: DuckDB can still use the plain ones to skip files.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn, cast

from rolltrace.errors import FilterError
from rolltrace.query.columns import FILTER_HEADERS
from rolltrace.query.filter_fields import FIELDS, Field, Operator, condition, need, operator_problem, value_problem
from rolltrace.query.filter_lexer import Token, Value, fail, quote, short, tokens

__all__ = ["FIELDS", "Field", "FilterError", "Predicate", "compile_where"]

MAX_LEVELS = 100
"""How deep parentheses may be nested."""

MAX_ITEMS = 1_000
"""How many values `in (...)` may list."""

MAX_LOOKUPS = 100
"""How many conditions may look into ops, scores and groups: DuckDB plans 100 in half a second, 200 in three."""

_NEGATIVE: dict[str, Operator] = {"!=": "=", "!~": "~"}
_POSITIVE = frozenset({"=", "<", "<=", ">", ">=", "~"})
_OTHER_WORDS = {"like": "~", "ilike": "~", "contains": "~", "matches": "~", "eq": "=", "ne": "!=", "lt": "<", "gt": ">"}


class Predicate(NamedTuple):
    """A filter in the form that DuckDB takes: `... FROM trajectories t WHERE <sql>`."""

    sql: str
    """True for the trajectories that are asked for; false or NULL for the others."""
    parameters: list[Any]
    """One for each `?` of the SQL, in its order."""
    needs: frozenset[str]
    """What it reads besides the plain columns: some of flag, tag, tool, op, kind, text, score, label, group."""
    fields: tuple[str, ...] = ()
    """The fields it asks about, such as `reward` or `tag.difficulty`, each once."""
    values: tuple[tuple[str, Value], ...] = ()
    """What a field must be, or may be, and the field before it: of `=` and `in` that are not negated."""


def compile_where(text: str | None, headers: Mapping[str, str] = FILTER_HEADERS) -> Predicate:
    """The predicate that a filter stands for.

    Args:
        text: The filter; None is met by all. An empty text is not: it comes from a variable that was not set.
        headers: Other names of fields, for filters on another listing than that of trajectories.

    Example:
        >>> compile_where("reward < 0.5 and status = 'ok'")
        Predicate(sql='(t.reward < ? AND t.status = ?)', parameters=[0.5, 'ok'], ...)

    Raises:
        FilterError: The filter cannot be understood; the message shows where and why.
    """
    if text is None:
        return Predicate("true", [], frozenset())
    if not isinstance(text, str):
        fail("", 0, f"a filter is text such as \"reward < 0.5 and tool = 'search'\", not {type(text).__name__}")
    return _Parser(text, headers).predicate()


_IS_THERE: tuple[Operator, bool] = ("is not null", False)
"""What a field that stands alone asks."""


class _Parser:
    def __init__(self, text: str, headers: Mapping[str, str]) -> None:
        self._text = text
        self._headers = headers
        self._tokens = tokens(text)
        self._at = 0
        self._parameters: list[Any] = []
        self._needs: set[str] = set()
        self._fields: dict[str, None] = {}
        self._wanted: list[tuple[str, Value]] = []
        self._lookups = 0

    def predicate(self) -> Predicate:
        if self._peek().kind == "end":
            self._fail(self._peek(), "the filter is empty; leave it out to mean all trajectories")
        sql = self._any(negated=False, level=0)
        rest = self._peek()
        if rest.text == ")":
            self._fail(rest, "this ')' closes nothing")
        if rest.kind != "end":
            self._fail(rest, f"expected 'and', 'or' or the end, not {_quoted(rest)}")
        return Predicate(sql, self._parameters, frozenset(self._needs), tuple(self._fields), tuple(self._wanted))

    def _any(self, *, negated: bool, level: int) -> str:
        alternatives = []
        while True:
            parts = [self._each(negated=negated, level=level)]
            while self._accept("and"):
                parts.append(self._each(negated=negated, level=level))
            alternatives.append(_join("OR" if negated else "AND", parts))
            if not self._accept("or"):
                return _join("AND" if negated else "OR", alternatives)

    def _each(self, *, negated: bool, level: int) -> str:
        while self._accept("not"):
            negated = not negated
        opening = self._peek()
        if not self._accept("("):
            return self._condition(negated=negated)
        if level == MAX_LEVELS:
            self._fail(opening, f"parentheses can be nested {MAX_LEVELS} deep, not more")
        sql = self._any(negated=negated, level=level + 1)
        if not self._accept(")"):
            rest = self._peek()
            if rest.kind == "end":
                self._fail(opening, "this '(' is not closed")
            self._fail(rest, f"expected 'and', 'or' or ')', not {_quoted(rest)}")
        return sql

    def _condition(self, *, negated: bool) -> str:
        token = self._take()
        field = self._field(token)
        place = self._peek()
        stands_alone = field.name == "label.NAME" and (place.kind == "end" or place.text in (")", "and", "or"))
        operator, opposite = self._operator(token) if not stands_alone else _IS_THERE
        if problem := operator_problem(field, short(token.text), operator):
            self._fail(place, problem)
        values = self._values(token, field, operator, opposite)
        sql, parameters = condition(field, token.key or "", operator, values)
        self._parameters += parameters
        name = field.name.replace("NAME", token.key or "")
        self._fields[name] = None
        if operator in ("=", "in") and negated == opposite:
            self._wanted += [(name, value) for value in values]
        if needed := need(field):
            self._needs.add(needed)
        never_null = sql.startswith("EXISTS")
        self._lookups += never_null
        if self._lookups > MAX_LOOKUPS:
            message = f"a filter can look into ops, scores and groups {MAX_LOOKUPS} times, not more"
            self._fail(token, f"{message}; one 'in (...)' asks for many names at once")
        if negated == opposite:
            return sql
        return f"NOT {sql}" if never_null else f"NOT coalesce({sql}, false)"

    def _field(self, token: Token) -> Field:
        if token.kind != "name":
            if token.kind == "value" and token.value in FIELDS:
                self._fail(token, f"a field stands without quotes: {token.value}")
            self._fail(token, f"expected a condition such as reward < 0.5, not {_quoted(token)}")
        keyed = f"{token.text.partition('.')[0]}.NAME"
        if token.key is not None and keyed in FIELDS:
            return FIELDS[keyed]
        name = token.text if token.key is None else f"{token.text.partition('.')[0]}.{token.key}"
        name = self._headers.get(name, name)
        if name in FIELDS and FIELDS[name].name != keyed:
            return FIELDS[name]
        inside = [each for each in FIELDS if each.startswith(name + ".")]
        close = get_close_matches(name[:60].lower(), FIELDS, n=1)
        hint = (
            f"write {', '.join(inside)}" if inside else f"did you mean {close[0]}?" if close else "see the list below"
        )
        self._fail(token, f"unknown field {quote(name)}; {hint}", "fields: " + ", ".join(FIELDS))

    def _operator(self, field: Token) -> tuple[Operator, bool]:
        """The operator, and whether its opposite is meant."""
        token = self._take()
        if token.kind == "symbol" and token.text in _POSITIVE:
            return cast(Operator, token.text), False
        if token.kind == "symbol" and token.text in _NEGATIVE:
            return _NEGATIVE[token.text], True
        if token.kind == "keyword" and token.text == "is":
            opposite = not self._accept("not")
            null = self._take()
            if null.text != "null" or null.kind != "keyword":
                self._fail(null, f"after 'is' comes 'null' or 'not null', not {_quoted(null)}; else write =")
            return "is not null", opposite
        opposite = token.text == "not" and token.kind == "keyword"
        if opposite:
            token = self._take()
        if token.kind == "keyword" and token.text == "in":
            return "in", opposite
        name, word = short(field.text), token.text.lower()
        if word == "between":
            hint = f"write {name} >= ... and {name} <= ..."
        elif word in _OTHER_WORDS:
            hint = f"write {_OTHER_WORDS[word]}"
        elif name in FIELDS and FIELDS[name].type == "bool":
            hint = f"write {name} = true"
        else:
            hint = "operators are = != < <= > >= ~ !~ in is"
        self._fail(token, f"expected an operator after {name}, not {_quoted(token)}; {hint}")

    def _values(self, name: Token, field: Field, operator: Operator, opposite: bool) -> list[Value]:
        if operator == "is not null":
            return []
        if operator != "in":
            return [self._value(name, field, operator, opposite)]
        opening = self._take()
        if opening.text != "(":
            self._fail(opening, f"after 'in' comes a list in parentheses, not {_quoted(opening)}")
        values: list[Value] = []
        while True:
            if len(values) == MAX_ITEMS:
                self._fail(self._peek(), f"'in' can list {MAX_ITEMS:,} values, not more")
            values.append(self._value(name, field, operator, opposite))
            if self._accept(")"):
                return values
            if not self._accept(","):
                self._fail(self._peek(), f"expected ',' or ')', not {_quoted(self._peek())}")

    def _value(self, name: Token, field: Field, operator: Operator, opposite: bool) -> Value:
        token = self._take()
        if token.kind == "value":
            if problem := value_problem(field, short(name.text), operator, token.value):
                self._fail(token, problem)
            return token.value
        if token.text == "null" and token.kind == "keyword":
            self._fail(token, f"nothing is equal to null; write {short(name.text)} is {'not ' if opposite else ''}null")
        if token.kind == "name" and (token.text in FIELDS or token.key is not None):
            self._fail(token, f"a field is compared with a value, not with another field; text: {quote(token.text)}")
        if token.kind == "name":
            self._fail(token, f"put quotes around text: {quote(token.text)}")
        self._fail(token, f"expected a value, not {_quoted(token)}")

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def _accept(self, text: str) -> bool:
        token = self._tokens[self._at]
        matches = token.text == text and token.kind in ("keyword", "symbol")
        self._at += matches
        return matches

    def _fail(self, token: Token, message: str, more: str = "") -> NoReturn:
        fail(self._text, token.position, message, more, length=len(token.text))


def _join(word: str, parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({f' {word} '.join(parts)})"


def _quoted(token: Token) -> str:
    """A token as an error names it."""
    if token.kind == "end":
        return "the end"
    if token.kind == "value":
        return quote(token.value)
    return quote(token.text)
