"""The `where` language, run for real in DuckDB."""

from __future__ import annotations

import json
import pickle
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rolltrace.errors import RolltraceError
from rolltrace.query.filters import FIELDS, FilterError, compile_where
from rolltrace.record.tables import TRAJECTORIES

ROOT = Path(__file__).parent.parent.parent
NAN, INF = float("nan"), float("inf")
TABLES = """
    CREATE TABLE trajectories (
        trajectory_id VARCHAR, project VARCHAR, experiment VARCHAR, step BIGINT, sample_index VARCHAR, rollout_n BIGINT,
        validate BOOLEAN, name VARCHAR, status VARCHAR, error VARCHAR, start_ns BIGINT, end_ns BIGINT,
        duration_s DOUBLE, turns BIGINT, tool_calls BIGINT, tool_errors BIGINT, prompt_tokens BIGINT,
        response_tokens BIGINT, reward DOUBLE, policy_version_min BIGINT, policy_version_max BIGINT, worker VARCHAR,
        flags VARCHAR[], tags VARCHAR, advantage DOUBLE, fate VARCHAR, fate_reason VARCHAR, staleness BIGINT);
    CREATE TABLE spans (trajectory_id VARCHAR, name VARCHAR, kind VARCHAR, inputs VARCHAR, outputs VARCHAR,
        text VARCHAR, payload VARCHAR AS (coalesce(inputs, '') || coalesce(outputs, '')));
    CREATE TABLE latest_scores (trajectory_id VARCHAR, name VARCHAR, value DOUBLE, label VARCHAR);
    CREATE TABLE groups (
        project VARCHAR, experiment VARCHAR, step BIGINT, sample_index VARCHAR, validate BOOLEAN, size BIGINT,
        mean DOUBLE, std DOUBLE, min DOUBLE, max DOUBLE, spread DOUBLE, scored BIGINT, passed BIGINT,
        pass_rate DOUBLE, zero_variance BOOLEAN, response_tokens_mean DOUBLE, response_tokens_min BIGINT,
        response_tokens_max BIGINT, turns_mean DOUBLE, duration_s_max DOUBLE, errors BIGINT);
"""
# Four rollouts: 1 went well, 2 was cut, 3 raised, and 4 still runs, so that most of it is missing.
TRAJECTORY_ROWS: list[list[Any]] = [
    [
        *("1", "math", "run-1", 1, "3", 0, False, "agent", "ok", None, 1700000000000000001, 1700000009000000000),
        *(9.0, 2, 1, 0, 100, 50, 1.0, 7, 7, "host-1", ["repeats"]),
        json.dumps({"level": "hard", "n": 3, "ok": True, "odd name": "x", "a/b~c": 1.5, "none": None}),
        *(0.5, "trained", None, 0),
    ],
    [
        *("2", "math", "run-1", 1, "3", 1, False, "agent", "ok", None, 1700000000000000002, 1700000004000000000),
        *(4.0, 9, 8, 3, 900, 80, 0.25, 7, 8, "host-1", ["truncated", "tool_error"]),
        json.dumps({"level": "easy", "n": "12", "ok": False, "bad": {"$float": "nan"}}),
        *(-0.5, "filtered", "too LONG", 3),
    ],
    [
        *("3", "math", "run-2", 2, "10", 0, True, "Agent X", "error", "ValueError: it's \\ Bad", 5, 6),
        *(1e-9, 1, 0, 0, 10, 0, NAN, 9, 9, "host-2", []),
        json.dumps({"level": "hard", "n": 2.5, "list": ["p", "q"]}),
        *(NAN, None, None, None),
    ],
    ["4", None, None, None, "uuid-7", None, None, None, "running", *[None] * 19],
]
SPAN_ROWS: list[list[Any]] = [
    ["1", "generate", "llm", '{"prompt":"Find the CERTIFICATE"}', '"say \\"hi\\"\\nbye"', None],
    ["1", "search", "tool", '"q"', '"\\\\frac{1}{2}"', None],
    ["2", "generate", "llm", '"中文 ÄÖ"', None, None],
    ["2", "browse", "tool", None, '"certificate"', None],
    ["3", "search", "llm", "null", None, 'Decoded 词元 "as is"'],
]
SCORE_ROWS: list[list[Any]] = [
    ["1", "acc", 1.0, None],
    ["2", "acc", 0.5, None],
    ["2", "acc/odd name", 2.0, None],
    ["3", "acc", NAN, None],
    ["1", "note", None, "Reward hack?"],
    ["3", "note", None, "fine"],
]
GROUP_ROWS: list[list[Any]] = [
    ["math", "run-1", 1, "3", False, 2, 0.625, 0.375, 0.25, 1.0, 0.75, 2, 1, 0.5, False, 65.0, 50, 80, 5.5, 9.0, 0],
    ["math", "run-2", 2, "10", True, 1, NAN, NAN, NAN, NAN, NAN, 1, 0, 0.0, True, 0.0, 0, 0, 1.0, 1e-9, 1],
    [None, None, None, "uuid-7", None, 1, *[None] * 5, 0, 0, None, False, *[None] * 3, 0.0, None, 0],
]


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(TABLES)
    tables = {"trajectories": TRAJECTORY_ROWS, "spans": SPAN_ROWS, "latest_scores": SCORE_ROWS, "groups": GROUP_ROWS}
    for table, rows in tables.items():
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    yield connection
    connection.close()


def found(database: duckdb.DuckDBPyConnection, where: str) -> str:
    """The ids that a filter finds, as one string."""
    sql, parameters, _ = compile_where(where)
    assert sql.count("?") == len(parameters)
    rows = database.execute(f"SELECT t.trajectory_id FROM trajectories t WHERE {sql}", parameters).fetchall()
    return "".join(sorted(row[0] for row in rows))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("", "1234"),
        ("  \n", "1234"),
        # numbers; that of 3 is nan, that of 4 is missing
        ("reward = 1", "1"),
        ("reward = 0.25", "2"),
        ("reward = 25e-2", "2"),
        ("reward = .25", "2"),
        ("reward = +1.", "1"),
        ("reward != 1", "234"),
        ("reward < 1", "2"),
        ("reward <= 1", "12"),
        ("reward > 0.25", "1"),
        ("reward >= 0.25", "12"),
        ("reward > -inf", "12"),
        ("reward < INF", "12"),
        ("reward = nan", "3"),
        ("reward != NaN", "124"),
        ("reward in (1, nan)", "13"),
        ("reward not in (1, nan)", "24"),
        ("reward is null", "4"),
        ("reward is not null", "123"),
        ("step = 1", "12"),
        ("step = 1.0", "12"),
        ("step > 1.5", "3"),
        ("step > -1", "123"),
        ("step>-1", "123"),
        ("step < 99999999999999999999999999999999999999", "123"),
        ("step < 1e300", "123"),
        ("start_ns = 1700000000000000001", "1"),
        ("start_ns > 1700000000000000001", "2"),
        ("start_ns in (5, 1700000000000000002)", "23"),
        ("end_ns is null", "4"),
        ("duration_s < 1e-8", "3"),
        ("rollout_n = 1", "2"),
        ("turns >= 2 and tool_calls > 0 and tool_errors = 0", "1"),
        ("prompt_tokens > 99 and response_tokens < 60", "1"),
        ("policy_version_min = 7 and policy_version_max = 8", "2"),
        # text
        ("trajectory_id = '1'", "1"),
        ('status = "ok"', "12"),
        ("status != 'ok'", "34"),
        ("status in ('error', 'running')", "34"),
        ("status NOT IN ('error', 'running')", "12"),
        ("experiment < 'run-2'", "12"),
        ("experiment >= 'run-2'", "3"),
        ("experiment != 'run-1'", "34"),
        ("name ~ 'AGENT'", "123"),
        ("name ~ 'agent x'", "3"),
        ("name !~ 'agent x'", "124"),
        ("name ~ '%'", ""),
        ("name ~ ''", "123"),
        ("error ~ 'it''s'", "3"),
        (r"error ~ 'it\'s'", "3"),
        (r"""error ~ "it's \\ bad" """, "3"),
        (r"error ~ 's \ b'", "3"),
        ("error is null", "124"),
        ("project = 'math' and worker = 'host-2'", "3"),
        # true and false
        ("validate = true", "3"),
        ("validate = FALSE", "12"),
        ("validate != true", "124"),
        ("validate in (true, false)", "123"),
        ("validate is null", "4"),
        # the sample index
        ("sample_index = 3", "12"),
        ("sample_index = '3'", "12"),
        ("sample_index != 3", "34"),
        ("sample_index in (3, '10')", "123"),
        ("sample_index = 'uuid-7'", "4"),
        ("sample_index < 10", "12"),
        ("sample_index <= '10'", "123"),
        ("sample_index > 3.5", "3"),
        ("sample_index ~ 'UUID'", "4"),
        ("sample_index ~ 1", "3"),
        # flags
        ("flag = 'truncated'", "2"),
        ("flag != 'truncated'", "134"),
        ("flag ~ 'TRUNC'", "2"),
        ("flag !~ 'e'", "34"),
        ("flag in ('truncated', 'repeats')", "12"),
        ("flag not in ('truncated', 'repeats')", "34"),
        ("flag is null", "34"),
        ("flag is not null", "12"),
        ("flag = 'truncated' and flag = 'tool_error'", "2"),
        # tags
        ("tag.level = 'hard'", "13"),
        ("tag.level != 'hard'", "24"),
        ("tag.level ~ 'HAR'", "13"),
        ("tag.level > 'f'", "13"),
        ("tag.n = 3", "1"),
        ("tag.n = '3'", "1"),
        ("tag.n > 2.5", "12"),
        ("tag.n in (2.5, '12')", "23"),
        ("tag.n not in (2.5, '12')", "14"),
        ("tag.ok = true", "1"),
        ("tag.ok in (false, 1)", "2"),
        ("tag.ok is null", "34"),
        ("tag.none is null", "1234"),
        ("tag.list ~ 'q'", "3"),
        ("tag.bad = nan", "2"),
        ("tag.bad > 1", ""),
        ("tag.\"odd name\" = 'x'", "1"),
        ("tag.'odd name' = 'x'", "1"),
        ("tag.a/b~'1'", ""),
        ('tag."a/b~c" = 1.5', "1"),
        ('tag."a""b" = 1', ""),
        ('tag."" = 1', ""),
        ("tag.a.b-c@1 = 1", ""),
        ("tag.中文 is null", "1234"),
        # ops
        ("tool = 'search'", "1"),
        ("tool != 'search'", "234"),
        ("tool ~ 'SEARCH' or tool ~ 'rows'", "12"),
        ("tool !~ 's'", "34"),
        ("tool in ('search', 'browse')", "12"),
        ("tool not in ('search', 'x')", "234"),
        ("tool is null", "34"),
        ("op = 'search'", "13"),
        ("op is null", "4"),
        ("kind = 'llm'", "123"),
        ("kind != 'tool'", "34"),
        ("kind in ('tool', 'env')", "12"),
        ("text ~ 'certificate'", "12"),
        ("text !~ 'Certificate'", "34"),
        ("text ~ 'say \"HI\"'", "1"),
        ("text ~ 'hi\"\nbye'", "1"),
        (r"text ~ '\frac{1}'", "1"),
        ('text ~ \'"prompt":"find\'', "1"),
        ("text ~ 'äö'", "2"),
        ("text ~ '中文'", "2"),
        # scores and groups
        ("score.acc < 0.7", "2"),
        ("score.acc > 0.7", "1"),
        ("score.acc = nan", "3"),
        ("score.acc != 1", "234"),
        ("score.acc in (1, 0.5)", "12"),
        ("score.acc is null", "4"),
        ('score."acc/odd name" = 2', "2"),
        ("score.other is null", "1234"),
        ("group.size = 2", "12"),
        ("group.size = 1", "34"),
        ("group.mean > 0.5", "12"),
        ("group.std = 0.375", "12"),
        ("group.std != 0.375", "34"),
        ("group.min = 0.25 and group.max = 1", "12"),
        ("group.spread >= 0.75", "12"),
        ("group.spread is null", "4"),
        ("group.scored = 2 and group.passed = 1", "12"),
        ("group.pass_rate < 0.5", "3"),
        ("group.pass_rate is null", "4"),
        ("group.zero_variance = true", "3"),
        ("group.zero_variance != true", "124"),
        ("group.response_tokens_mean > 60 and group.response_tokens_min < 60", "12"),
        ("group.response_tokens_max = 80 and group.turns_mean > 5", "12"),
        ("group.duration_s_max >= 9", "12"),
        ("group.errors > 0", "3"),
        ("advantage < 0", "2"),
        ("advantage = nan", "3"),
        ("fate = 'filtered' and fate_reason ~ 'long'", "2"),
        ("fate != 'trained'", "234"),
        ("fate is null", "34"),
        ("staleness > 0", "2"),
        ("staleness is null", "34"),
        ("label.note ~ 'HACK'", "1"),
        ("label.note = 'fine'", "3"),
        ("label.note !~ 'hack'", "234"),
        ("label.note in ('fine', 'x')", "3"),
        ("label.note is null", "24"),
        ("score.note is null", "1234"),
        ("label.acc is null", "1234"),
        # and, or, not
        ("reward < 0.5 and tool = 'browse' and flag = 'truncated' and text ~ 'certificate'", "2"),
        ("trajectory_id = '1' or trajectory_id = '2' and step = 9", "1"),
        ("(trajectory_id = '1' or trajectory_id = '2') and step = 9", ""),
        ("not trajectory_id = '1' and step = 1", "2"),
        ("not (trajectory_id = '1' and step = 1)", "234"),
        ("not trajectory_id = '1' or step = 1", "1234"),
        ("not not trajectory_id = '1'", "1"),
        ("NOT (reward < 1 OR flag = 'repeats')", "34"),
        ("not (reward < 1 and tool = 'browse')", "134"),
        ("not reward < 1", "134"),
        ("not reward is null", "123"),
        ("not tool != 'search'", "1"),
        ("text ~ 'decoded 词元'", "3"),
        ("""text ~ '"as is"'""", "3"),
        ("not (not (step = 1) or rollout_n = 0)", "2"),
    ],
)
def test_a_filter_finds(database: duckdb.DuckDBPyConnection, where: str, expected: str) -> None:
    assert found(database, where) == expected


@pytest.mark.parametrize(
    "where",
    [
        *("reward < 1", "reward = 1", "status ~ 'o'", "flag = 'repeats'", "tag.n > 1", "tool = 'search'", "text ~ 'a'"),
        *("score.acc > 0", "group.std > 0", "sample_index < 5", "error is null", "step in (1)", "tag.n in (3, '12')"),
    ],
)
def test_not_finds_what_the_condition_does_not(database: duckdb.DuckDBPyConnection, where: str) -> None:
    assert sorted(found(database, where) + found(database, f"not {where}")) == list("1234")


def test_a_plain_condition_stays_plain_so_that_files_can_be_skipped() -> None:
    assert compile_where("step >= 3 and project = 'p'").sql == "(t.step >= ? AND t.project = ?)"


def test_a_predicate_says_what_it_needs() -> None:
    assert compile_where("reward < 1 and sample_index = 3").needs == frozenset()
    every = "flag='a' and tag.x=1 and tool='a' and op='a' and kind='a' and text~'a' and score.x=1 and label.x='a'"
    every += " and group.std=0"
    assert compile_where(every).needs == {"flag", "tag", "tool", "op", "kind", "text", "score", "label", "group"}


def mistake(where: str) -> FilterError:
    with pytest.raises(FilterError) as caught:
        compile_where(where)
    return caught.value


@pytest.mark.parametrize(
    ("where", "position", "message"),
    [
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
        sql, parameters, _ = compile_where(where)
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
    "tag.level",
    'tag."odd \' name"',
    "score.acc",
    "and",
    "or",
    "not",
    "in",
    "is",
    "null",
    "true",
    "false",
]
WORDS += [
    "(",
    ")",
    ",",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "~",
    "!~",
    "==",
    "&&",
    ";",
    "--",
    "/*",
    "?",
    "$1",
    "'",
    '"',
    "\\",
]
WORDS += [
    "1",
    "-1",
    "0.5",
    "1e3",
    "inf",
    "-inf",
    "nan",
    "9" * 38,
    "9" * 39,
    "''",
    "'a'",
    '"b"',
    "'3'",
    "ok",
    "AND",
    "\x00",
]
OPERATORS = ["= ", "!= ", "< ", "<= ", "> ", ">= ", "~ ", "!~ ", "in ", "not in ", "is null", "is not null"]
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


def test_10_000_random_filters_give_a_predicate_that_runs_or_a_filter_error(
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
    for turn in range(10_000):
        where = makers[turn % len(makers)]()
        try:
            sql, parameters, _ = compile_where(where)
        except FilterError as error:
            str(error).encode()  # can be printed: no lone surrogates
            positions.append((error.position, len(where)))
            continue
        database.execute(f"SELECT t.trajectory_id FROM trajectories t WHERE {sql}", parameters).fetchall()
        ran += 1
    assert ran > 1_500
    assert all(0 <= position <= length for position, length in positions)


def _rows(page: str, heading: str) -> list[list[str]]:
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]


def test_the_page_lists_every_field_and_only_filters_that_compile() -> None:
    page = (ROOT / "docs/reference/filter.md").read_text()
    assert _rows(page, "Fields") == [[f"`{each.name}`", each.type, each.meaning] for each in FIELDS.values()]
    block = page.split("```text\n")[1].split("```")[0]
    examples = [line for line in block.splitlines() if line] + [row[0].strip("`") for row in _rows(page, "Operators")]
    assert len(examples) > 15
    for example in examples:
        compile_where(example)


def test_fields_have_the_types_of_their_columns() -> None:
    types = {"text": "text", "int64": "number", "float64": "number", "bool": "bool"}
    columns = {each.name: types.get(each.type) for each in TRAJECTORIES.columns if each.name != "sample_index"}
    shared = [each for each in FIELDS.values() if each.name in columns]
    assert len(shared) > 10
    assert [each.type for each in shared] == [columns[each.name] for each in shared]


def test_compiling_a_filter_loads_no_database() -> None:
    # The package around it loads DuckDB to answer queries, so an empty one stands in for it.
    program = """if True:
        import sys, types, rolltrace
        package = sys.modules["rolltrace.query"] = types.ModuleType("rolltrace.query")
        package.__path__ = [rolltrace.__path__[0] + "/query"]
        import rolltrace.query.filters
        print("duckdb" in sys.modules, "pyarrow" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
