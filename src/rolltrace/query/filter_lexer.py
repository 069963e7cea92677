"""Words of the filter language: text -> tokens, and the errors that point into the text.

A token knows where it stands, so every later error can put a caret under it. The lexer refuses what cannot be part of
any filter (an open quote, `==`, a curly quote) with the text to write instead.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Literal, NamedTuple, NoReturn

from rolltrace.errors import FilterError

MAX_CHARACTERS = 10_000
"""How long a filter may be."""

KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})

Value = bool | int | float | str


class Token(NamedTuple):
    """One word of a filter."""

    kind: Literal["keyword", "name", "value", "symbol", "end"]
    text: str
    """As it stands in the filter; a keyword in lower case."""
    position: int
    value: Value = ""
    """What a value stands for."""
    key: str | None = None
    """The part of a name after its dot."""


_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|(?:inf|nan)(?!\w))", re.IGNORECASE)
_STRING = re.compile(r"""'(?:[^'\\]|''|\\.)*'(?!')|"(?:[^"\\]|""|\\.)*"(?!")""", re.DOTALL)
_ESCAPE = {"'": re.compile(r"''|\\(['\"\\])"), '"': re.compile(r'""|\\([\'"\\])')}
_NAME = re.compile(r"[^\W\d]\w*")
_KEY = re.compile(r"[\w/@-]+(?:\.[\w/@-]+)*")
_SYMBOL = re.compile(r"<=|>=|!=|!~|[=<>~(),]")
_MISTAKE = re.compile(r"===?|=~|=<|=>|<>|&&?|\|\|?|!(?![=~])|[‘’“”«»`´]")
_INSTEAD = {"==": "=", "===": "=", "=~": "~", "=<": "<=", "=>": ">=", "<>": "!="}
_INSTEAD |= {"&": "and", "&&": "and", "|": "or", "||": "or", "!": "not"}


def fail(text: str, position: int, message: str, more: str = "", *, length: int = 1) -> NoReturn:
    """Raises `FilterError`: the message, the filter with a caret under the place, and more lines if there are any."""
    start, end = max(0, position - 60), position + 40
    before, after = (_printable(part) for part in (text[start:position], text[position:end]))
    before = ("..." if start else "") + before
    columns = sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in before)
    shown = f"    {before}{after}{'...' if end < len(text) else ''}\n    {' ' * columns}^"
    error = FilterError("\n".join(part for part in (message, shown, more) if part))
    error.position, error.length = position, max(1, length)
    raise error


def short(text: str) -> str:
    """Text for one line of an error: shortened, and safe to print."""
    return _printable(text if len(text) <= 40 else text[:37] + "...")


def quote(value: Value) -> str:
    """A value as one writes it in a filter, shortened."""
    if isinstance(value, str):
        return "'" + short(value).replace("\\", "\\\\").replace("'", "''") + "'"
    return str(value).lower()


def full_quote(value: Value) -> str:
    """A value as one writes it in a filter, all of it."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    return str(value).lower()


def tokens(text: str) -> list[Token]:
    """All tokens of a filter; the last one is of kind `end`."""
    if len(text) > MAX_CHARACTERS:
        fail(text, MAX_CHARACTERS, f"a filter has at most {MAX_CHARACTERS:,} characters, not {len(text):,}")
    lexed: list[Token] = []
    position = _skip(text, 0)
    while position < len(text):
        token, position = _next(text, position)
        lexed.append(token)
        position = _skip(text, position)
    return [*lexed, Token("end", "", len(text))]


def _skip(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return space.end() if space else position


def _next(text: str, position: int) -> tuple[Token, int]:
    if text[position] in "'\"":
        return _string(text, position)
    if number := _NUMBER.match(text, position):
        return Token("value", number[0], position, _number(text, number)), number.end()
    if name := _NAME.match(text, position):
        return _name(text, name)
    if mistake := _MISTAKE.match(text, position):
        instead = _INSTEAD.get(mistake[0])
        hint = f"write {instead!r} instead of {mistake[0]!r}" if instead else "write straight quotes: 'text'"
        fail(text, position, hint)
    if symbol := _SYMBOL.match(text, position):
        return Token("symbol", symbol[0], position), symbol.end()
    fail(text, position, f"{text[position]!a} has no meaning here; text stands in quotes: 'text'")


def _string(text: str, position: int) -> tuple[Token, int]:
    string = _STRING.match(text, position)
    if string is None:
        fail(text, position, f"this text has no closing {text[position]}")
    value = _ESCAPE[text[position]].sub(lambda escape: escape[1] or escape[0][0], string[0][1:-1])
    if any("\ud800" <= each <= "\udfff" for each in value):
        fail(text, position, "this text holds half a character (a lone surrogate), which no stored text does")
    return Token("value", string[0], position, value), string.end()


def _number(text: str, number: re.Match[str]) -> int | float:
    if _NAME.match(text, number.end()):
        word = number[0] + re.split(r"[^\w.-]", text[number.end() :], maxsplit=1)[0]
        fail(text, number.start(), f"{short(word)} is not a number; put quotes around text: {quote(word)}")
    # Integers stay exact as long as DuckDB has a type for them; 38 digits fit into 128 bits.
    if re.fullmatch(r"[+-]?[0-9]{1,38}", number[0]):
        return int(number[0])
    value = float(number[0])
    if math.isinf(value) and "inf" not in number[0].lower():
        fail(text, number.start(), f"this number is too large; the largest is {1.7e308}, then comes inf")
    return value


def _name(text: str, name: re.Match[str]) -> tuple[Token, int]:
    start, end = name.span()
    if not text.startswith(".", end):
        word = name[0].lower()
        if word in ("true", "false"):
            return Token("value", word, start, word == "true"), end
        return (Token("keyword", word, start) if word in KEYWORDS else Token("name", name[0], start)), end
    if text[end + 1 : end + 2] in ("'", '"'):
        string, after = _string(text, end + 1)
        return Token("name", text[start:after], start, key=str(string.value)), after
    key = _KEY.match(text, end + 1)
    if key is None:
        first = short(name[0])
        fail(text, end + 1, f"a name is missing after '{first}.'; an odd name stands in quotes: {first}.\"a name\"")
    return Token("name", text[start : key.end()], start, key=key[0]), key.end()


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)
