"""Whatever stands in a filter, it is a predicate that runs or a `FilterError`, and never part of the SQL."""

from __future__ import annotations

import random
import re

import duckdb
import pytest

from rolltrace.query.filters import FIELDS, FilterError, compile_where
from tests.nightly import nightly

from .filtered import found

INJECTIONS = [
    "'; drop table trajectories; --",
    "' or '1'='1",
    '" or ""="',
    "\\'; drop table spans; --",
    "/* */ union select 1",
    "-- comment",
    "’ or ’1’=’1",
    "ʼ; drop table spans",
    "a\x00b'; drop table spans",
    "$1 ? :name {0} %s",
    "$.*",
    "/../~1~0",
    "\u202e\u200b\ufeff",
    "lambda x: x",
]


@pytest.mark.parametrize("attempt", INJECTIONS)
def test_text_from_a_user_is_never_part_of_the_sql(database: duckdb.DuckDBPyConnection, attempt: str) -> None:
    escaped = "'" + attempt.replace("\\", "\\\\").replace("'", "''") + "'"
    conditions = ["name = {}", "name ~ {}", "flag = {}", "flag ~ {}", "tool in ({})", "text ~ {}", "tag.x = {}"]
    for where in [*(each.format(escaped) for each in conditions), f"tag.{escaped} = 1", f"score.{escaped} = 1"]:
        sql, parameters, *_ = compile_where(where)
        harmless = compile_where(re.sub(re.escape(escaped), lambda _: "'abc'", where))
        if not where.startswith("tag."):  # a tag's name becomes a JSON pointer
            assert attempt in parameters
        assert sql == harmless.sql or where.startswith("text")  # a text that JSON escapes is searched in both forms
        assert found(database, where) == ""
    for where in [attempt, f"name = {attempt}", f"name = '{attempt}", f"name = 'a' {attempt}", f"{attempt} = 1"]:
        try:
            found(database, where)
        except FilterError:
            pass
    assert database.execute("SELECT count(*) FROM trajectories, spans").fetchone() == (20,)


def test_a_nul_in_text_is_searched_as_it_is(database: duckdb.DuckDBPyConnection) -> None:
    assert found(database, "name = 'agent\x00'") == ""
    assert found(database, "name != 'agent\x00' and name ~ 'agent'") == "123"


WORDS = [
    *FIELDS,
    *("tag.level", 'tag."odd \' name"', "score.acc", "and", "or", "not", "in", "is", "null", "true", "false"),
    *("(", ")", ",", "=", "!=", "<", "<=", ">", ">=", "~", "!~", "=="),
    *("&&", ";", "--", "/*", "?", "$1", "'", '"', "\\"),
    *("1", "-1", "0.5", "1e3", "inf", "-inf", "nan", "9" * 38, "9" * 39),
    *("''", "'a'", '"b"', "'3'", "ok", "AND", "\x00"),
]
OPERATORS = ["= ", "!= ", "< ", "<= ", "> ", ">= ", "~ ", "!~ ", "in ", "not in ", "is null", "is not null"]
FILTERS = nightly(10_000, 3_000)
VALUES = ["1", "-2.5", "nan", "'a'", '"é"', "true", "'3'", "9" * 38]


def _valid(random_: random.Random, depth: int = 3) -> str:
    """A filter of the right form; its types may be wrong."""
    if depth and random_.random() < 0.6:
        parts = [_valid(random_, depth - 1) for _ in range(random_.randint(1, 3))]
        inside = random_.choice([" and ", " or ", " AND NOT "]).join(parts)
        return random_.choice(["({})", "not ({})", "{}"]).format(inside)
    name, operator = random_.choice([*FIELDS, "tag.n"]), random_.choice(OPERATORS)
    if "null" in operator:
        return f"{name} {operator}"
    values = random_.choices(VALUES, k=random_.randint(1, 3))
    return f"{name} {operator}({', '.join(values)})" if "in " in operator else f"{name} {operator}{values[0]}"


def _mutated(random_: random.Random, text: str) -> str:
    for _ in range(random_.randint(1, 3)):
        at = random_.randrange(len(text) + 1)
        text = text[:at] + random_.choice([*WORDS, ""]) + text[at + random_.randint(0, 2) :]
    return text


def _unicode(random_: random.Random) -> str:
    letters = [chr(random_.choice([random_.randrange(128), random_.randrange(0x3000), random_.randrange(0x110000)]))
               for _ in range(random_.randint(0, 30))]  # fmt: skip
    return random_.choice(["{}", "name = '{}'", 'tag."{}" = 1', "tag.{} = 1", "{} = 1"]).replace("{}", "".join(letters))


def test_random_filters_give_a_predicate_that_runs_or_a_filter_error(
    database: duckdb.DuckDBPyConnection,
) -> None:
    random_ = random.Random(7)
    makers = [
        lambda: random_.choice(["", " "]).join(random_.choices(WORDS, k=random_.randint(1, 12))),
        lambda: _valid(random_),
        lambda: _valid(random_, depth=0),
        lambda: _mutated(random_, _valid(random_, depth=1)),
        lambda: _unicode(random_),
    ]
    ran = 0
    positions = []
    for turn in range(FILTERS):
        where = makers[turn % len(makers)]()
        try:
            sql, parameters, *_ = compile_where(where)
        except FilterError as error:
            str(error).encode()  # can be printed: no lone surrogates
            positions.append((error.position, len(where)))
            continue
        database.execute(f"SELECT t.trajectory_id FROM trajectories t WHERE {sql}", parameters).fetchall()
        ran += 1
    assert ran > 0.15 * FILTERS
    assert all(0 <= position <= length for position, length in positions)
