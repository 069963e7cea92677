"""What could stand at the cursor of a filter: fields, operators, words, and values that exist."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rolltrace.errors import FilterError
from rolltrace.query.columns import FILTER_HEADERS
from rolltrace.query.facets import facets_of
from rolltrace.query.filter_fields import FIELDS, Field, operator_problem
from rolltrace.query.filter_lexer import Token, full_quote, tokens
from rolltrace.query.scope import Scope

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "~", "!~", "in (", "is null", "is not null")
_MAX_VALUE_LENGTH = 80
_MAX_OPTIONS = 100
_VALUES = """
SELECT value, count(*) AS n FROM ({source}) WHERE value IS NOT NULL AND length(value) <= ? GROUP BY value
ORDER BY n DESC, value LIMIT ?
"""
_OF_OPS = "SELECT DISTINCT s.trajectory_id, s.{column} AS value FROM ops s SEMI JOIN selected USING (trajectory_id)"
_SOURCES = {
    "flag": "SELECT unnest(flags) AS value FROM selected",
    "label": "SELECT unnest(labels) AS value FROM selected",
    "author": "SELECT DISTINCT trajectory_id, author AS value FROM latest_scores SEMI JOIN selected "
    "USING (trajectory_id) WHERE label IS NOT NULL",
    "tool": _OF_OPS.format(column="name") + " WHERE s.kind = 'tool'",
    "op": _OF_OPS.format(column="name"),
    "kind": _OF_OPS.format(column="kind"),
}
_KEYED = {
    "tag": "SELECT unnest(json_keys(tags)) AS value FROM selected WHERE tags IS NOT NULL",
    "score": "SELECT name AS value FROM latest_scores SEMI JOIN selected USING (trajectory_id) WHERE value IS NOT NULL",
    "term": "SELECT unnest(map_keys(terms)) AS value FROM selected WHERE terms IS NOT NULL",
    "label": "SELECT DISTINCT trajectory_id, name AS value FROM latest_scores SEMI JOIN selected USING (trajectory_id) "
    "WHERE label IS NOT NULL",
    "author": "SELECT DISTINCT trajectory_id, name AS value FROM latest_scores SEMI JOIN selected "
    "USING (trajectory_id) WHERE author IS NOT NULL AND label IS NOT NULL",
}
"""Where the names are found that come after `tag.`, `score.`, `term.`, `label.` and `author.`."""


@dataclass(frozen=True)
class Option:
    """One thing that could stand at the cursor."""

    text: str
    kind: Literal["field", "operator", "value", "keyword"]
    detail: str = ""
    count: int | None = None


@dataclass(frozen=True)
class Completion:
    """What could take the place of text[start:end]."""

    start: int
    end: int
    options: list[Option]


def complete_filter(store: Store, text: str, cursor: int | None = None, scope: Scope | None = None) -> Completion:
    """What could stand at the cursor of a filter, with values that trajectories of the scope have."""
    end = len(text) if cursor is None else max(0, min(cursor, len(text)))
    split = _split(text[:end])
    if split is None:
        return Completion(end, end, [])
    before, start = split
    begun = text[start:end]
    scope = scope or Scope()
    options = _options(store, before, scope, begun)
    wanted = begun.strip("'\"").casefold()
    matching = [option for option in options if wanted in option.text.strip("'").casefold()]
    first = [option for option in matching if option.text.strip("'").casefold().startswith(wanted)]
    ordered = [*first, *(option for option in matching if option not in first)]
    return Completion(start, end, ordered[:_MAX_OPTIONS])


def _split(text: str) -> tuple[list[Token], int] | None:
    """The tokens before the word at the end of a text, and where that word begins; None if it cannot be read."""
    try:
        words = [token for token in tokens(text) if token.kind != "end"]
    except FilterError as error:  # a text whose quotes are not closed yet, or a name that ends in a dot
        start = error.position
        dotted = re.search(r"\w+\.$", text)
        if text[start : start + 1] not in ("'", '"') and dotted is None:
            return None
        start = dotted.start() if dotted else start
        before = _split(text[:start])
        return None if before is None else (before[0], start)
    if words and words[-1].kind != "symbol" and words[-1].position + len(words[-1].text) == len(text):
        return words[:-1], words[-1].position
    return words, len(text)


def _options(store: Store, before: list[Token], scope: Scope, begun: str) -> list[Option]:
    expects, field, key = _expected(before)
    if expects == "field":
        keyed = re.match(r"(tag|score|term|label|author)\.", begun)
        if keyed:
            return _keys(store, scope, keyed[1])
        plain = [Option(each.name.replace("NAME", ""), "field", each.meaning) for each in FIELDS.values()]
        return [*plain, Option("not", "keyword")]
    if field is None:
        return [Option("and", "keyword"), Option("or", "keyword")]
    if expects == "operator":
        usable = [each for each in _OPERATORS if operator_problem(field, field.name, _operator(each)) is None]
        after = [Option("and", "keyword"), Option("or", "keyword")] if field.name == "label.NAME" else []
        return [*(Option(each, "operator") for each in usable), *after]
    return _values(store, scope, field, key)


def _expected(before: list[Token]) -> tuple[Literal["field", "operator", "value", "word"], Field | None, str]:
    """What comes after these tokens; and of which field."""
    expects: Literal["field", "operator", "value", "word"] = "field"
    field: Field | None = None
    key = ""
    for token in before:
        if token.kind == "name" and expects == "field":
            field, key = _field(token), token.key or ""
            expects = "operator" if field else "word"
        elif expects == "operator" and token.kind in ("symbol", "keyword"):
            expects = "operator" if token.text == "not" else "word" if token.text == "is" else "value"
        elif expects == "value" and token.text == "(":
            continue
        elif expects == "word" and token.text == ",":
            expects = "value"
        elif token.kind == "keyword" and token.text in ("and", "or"):
            expects, field = "field", None
        elif token.kind == "value" or token.text in (")", "null"):
            expects = "word"
    return expects, field if expects in ("operator", "value") else None, key


def _field(token: Token) -> Field | None:
    if token.key is None:
        return FIELDS.get(FILTER_HEADERS.get(token.text, token.text))
    first = token.text.partition(".")[0]
    return FIELDS.get(f"{first}.NAME") or FIELDS.get(token.text)


def _operator(text: str) -> Any:
    return {"!=": "=", "!~": "~", "in (": "in", "is null": "is not null"}.get(text, text)


def _keys(store: Store, scope: Scope, kind: str) -> list[Option]:
    rows = scope.selected().ask(store, _VALUES.format(source=_KEYED[kind]), _MAX_VALUE_LENGTH, _MAX_OPTIONS)
    names = [(row["value"], row["n"]) for row in rows]
    plain = re.compile(r"[\w/@-]+(?:\.[\w/@-]+)*")
    return [
        Option(f"{kind}.{name if plain.fullmatch(name) else full_quote(name)}", "field", count=count)
        for name, count in names
    ]


def _values(store: Store, scope: Scope, field: Field, key: str) -> list[Option]:
    if field.type == "bool":
        return [Option("true", "value"), Option("false", "value")]
    if field.type == "tags":
        facets = facets_of(store, scope).facets
        own = next((each for each in facets if each.field in (f"tag.{key}", f"tag.{full_quote(key)}")), None)
        conditions = own.values if own else []
        return [Option(each.where.partition(" = ")[2], "value", count=each.count) for each in conditions]
    if field.name in ("label.NAME", "author.NAME"):
        column = field.name.partition(".")[0]
        source = f"SELECT {column} AS value FROM latest_scores SEMI JOIN selected USING (trajectory_id) WHERE name = ?"
        more = [key]
    elif field.name in _SOURCES:
        source, more = _SOURCES[field.name], []
    elif field.type in ("text", "sample") and field.name not in ("text", "trajectory_id"):
        source, more = f"SELECT {field.sql.replace('t.', '')} AS value FROM selected", []
    else:
        return []
    rows = scope.selected().ask(store, _VALUES.format(source=source), *more, _MAX_VALUE_LENGTH, _MAX_OPTIONS)
    return [Option(full_quote(row["value"]), "value", count=row["n"]) for row in rows]
