"""What is wrong with a filter is said where it stands, with what to type instead."""

from __future__ import annotations

import pickle

import duckdb
import pytest

from rolltrace.errors import RolltraceError
from rolltrace.query.filters import FIELDS, FilterError, compile_where

from .filtered import found


def mistake(where: str) -> FilterError:
    with pytest.raises(FilterError) as caught:
        compile_where(where)
    return caught.value


@pytest.mark.parametrize(
    ("where", "position", "message"),
    [
        ("", 0, "the filter is empty; leave it out to mean all trajectories"),
        ("  \n", 3, "the filter is empty; leave it out to mean all trajectories"),
        ("reward < ", 9, "expected a value, not the end"),
        ("reward", 6, "expected an operator after reward, not the end; operators are = != < <= > >= ~ !~ in is"),
        ("validate and step = 1", 9, "expected an operator after validate, not 'and'; write validate = true"),
        ("reward = 'abc'", 9, "reward is a number, not 'abc'"),
        ("reward = '0.5'", 9, "reward is a number, not '0.5'; did you mean 0.5?"),
        ("reward = true", 9, "reward is a number, not true"),
        ("step in (1, '2')", 12, "step is a number, not '2'; did you mean 2?"),
        ("score.acc = 'x'", 12, "score.acc is a number, not 'x'"),
        ("label.note = 1", 13, "label.note is text, not 1; did you mean '1'?"),
        (
            "group.zero_variance < true",
            20,
            "group.zero_variance is true or false, which have no order; write group.zero_variance = true",
        ),
        ("status = ok", 9, "put quotes around text: 'ok'"),
        ("status = 3", 9, "status is text, not 3; did you mean '3'?"),
        ("validate = 1", 11, "validate is true or false, not 1; did you mean true?"),
        ("validate = 'false'", 11, "validate is true or false, not 'false'; did you mean false?"),
        ("validate < true", 9, "validate is true or false, which have no order; write validate = true"),
        ("reward ~ '1'", 7, "reward is a number; '~' searches in text"),
        ("tag.n ~ 3", 8, "'~' searches for text, not for 3; did you mean '3'?"),
        ("tag.n < true", 8, "true and false have no order"),
        ("tool < 'a'", 5, "tool has many values and no order; use =, !=, ~, !~, in or not in"),
        ("text = 'a'", 5, "text is searched: text ~ 'word' or text !~ 'word'"),
        ("sample_index < 'x'", 15, "sample_index is ordered by number, not by 'x'"),
        ("sample_index = 1.5", 15, "sample_index is an integer or text, not 1.5"),
        ("reward < nan", 9, "nothing is smaller or larger than nan; '= nan' finds it"),
        ("reward = null", 9, "nothing is equal to null; write reward is null"),
        ("reward != NULL", 10, "nothing is equal to null; write reward is not null"),
        ("reward is 3", 10, "after 'is' comes 'null' or 'not null', not 3; else write ="),
        ("reward < group.mean", 9, "a field is compared with a value, not with another field; text: 'group.mean'"),
        ("reward == 1", 7, "write '=' instead of '=='"),
        ("step = 1 && step = 2", 9, "write 'and' instead of '&&'"),
        ("status = “ok”", 9, "write straight quotes: 'text'"),
        ("name like 'a'", 5, "expected an operator after name, not 'like'; write ~"),
        (
            "step between 1 and 2",
            5,
            "expected an operator after step, not 'between'; write step >= ... and step <= ...",
        ),
        ("0.5 > reward", 0, "expected a condition such as reward < 0.5, not 0.5"),
        ("'reward' > 1", 0, "a field stands without quotes: reward"),
        ("step = 1 and", 12, "expected a condition such as reward < 0.5, not the end"),
        ("step = 1 or or step = 2", 12, "expected a condition such as reward < 0.5, not 'or'"),
        ("step = 1 step = 2", 9, "expected 'and', 'or' or the end, not 'step'"),
        ("(step = 1", 0, "this '(' is not closed"),
        ("(step = 1 step", 10, "expected 'and', 'or' or ')', not 'step'"),
        ("step = 1)", 8, "this ')' closes nothing"),
        ("step in 1", 8, "after 'in' comes a list in parentheses, not 1"),
        ("step in ()", 9, "expected a value, not ')'"),
        ("step in (1 2)", 11, "expected ',' or ')', not 2"),
        ("step = 3abc", 7, "3abc is not a number; put quotes around text: '3abc'"),
        ("step = 1e999", 7, "this number is too large; the largest is 1.7e+308, then comes inf"),
        ("name = 'it's'", 12, "this text has no closing '"),
        ("name = 'a", 7, "this text has no closing '"),
        ("tag. = 1", 4, "a name is missing after 'tag.'; an odd name stands in quotes: tag.\"a name\""),
        ("step = 1; step = 2", 8, "';' has no meaning here; text stands in quotes: 'text'"),
        ("step = \x00", 7, "'\\x00' has no meaning here; text stands in quotes: 'text'"),
        ("name = '\ud800'", 7, "this text holds half a character (a lone surrogate), which no stored text does"),
    ],
)
def test_a_mistake_is_explained_where_it_stands(where: str, position: int, message: str) -> None:
    error = mistake(where)
    assert error.position == position
    printable = "".join(each if each.isprintable() else " " for each in where)
    assert str(error) == f"{message}\n    {printable}\n    {' ' * position}^"


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("rewrd < 1", "unknown field 'rewrd'; did you mean reward?"),
        ("Reward < 1", "unknown field 'Reward'; did you mean reward?"),
        ("group.median < 1", "unknown field 'group.median'; did you mean group.mean?"),
        ("xyz < 1", "unknown field 'xyz'; see the list below"),
        ("tag = 1", "unknown field 'tag'; write tag.NAME"),
        (
            "group < 1",
            "unknown field 'group'; write " + ", ".join(name for name in FIELDS if name.startswith("group.")),
        ),
    ],
)
def test_an_unknown_field_gives_a_guess_and_the_list(where: str, message: str) -> None:
    assert str(mistake(where)) == f"{message}\n    {where}\n    ^\nfields: {', '.join(FIELDS)}"


def test_the_caret_stands_under_the_place_in_a_long_filter() -> None:
    lines = str(mistake("step = 1 and " * 100 + "oops = 1 and " + "step = 1 and " * 100)).splitlines()
    assert lines[1].startswith("    ...")
    assert lines[1].endswith("...")
    assert lines[1][lines[2].index("^") :].startswith("oops = 1")


def test_the_caret_counts_wide_characters_as_two_columns() -> None:
    assert str(mistake("name = '中文' oops")).splitlines()[2] == " " * (4 + 14) + "^"


def test_an_error_survives_pickling_with_its_position() -> None:
    error = mistake("step = 1 oops")
    copy = pickle.loads(pickle.dumps(error))
    assert issubclass(FilterError, RolltraceError)
    assert issubclass(FilterError, ValueError)
    assert (str(copy), copy.position) == (str(error), 9)


def test_a_filter_that_is_no_text_is_refused() -> None:
    with pytest.raises(FilterError, match=r"a filter is text such as .*, not dict"):
        compile_where({"reward": 1})  # type: ignore[arg-type]


def test_limits_hold_and_are_explained(database: duckdb.DuckDBPyConnection) -> None:
    assert found(database, "step = 1" + " " * 9_992) == "12"
    assert "at most 10,000 characters, not 10,001" in str(mistake("step = 1" + " " * 9_993))
    assert found(database, "(" * 100 + "step = 1" + ")" * 100) == "12"
    assert found(database, "not (" * 100 + "step = 1" + ")" * 100) == "12"
    assert "nested 100 deep" in str(mistake("(" * 101 + "step = 1" + ")" * 101))
    assert mistake("(" * 9_999).position == 100
    assert found(database, "not " * 2_000 + "step = 1") == "12"
    assert found(database, "step in (" + ",".join(["1"] * 1_000) + ")") == "12"
    assert "'in' can list 1,000 values" in str(mistake("step in (" + ",".join(["1"] * 1_001) + ")"))
    assert found(database, " or ".join(["step = 1"] * 800)) == "12"
    assert found(database, " or ".join(["tool = 'search'"] * 100)) == "1"
    assert "ops, scores and groups 100 times" in str(mistake(" or ".join(["tool = 'search'"] * 101)))
    assert "too large" in str(mistake("step = " + "9" * 9_000))
    assert "no closing '" in str(mistake("name = '" + "''" * 4_900))
