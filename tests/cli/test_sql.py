"""`rolltrace sql`: a table, CSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.query.views import VIEWS
from tests.background import eventually


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    for sample in range(3):
        with rolltrace.rollout_trace_attr(sample, step=1, name='a "quoted",\n\x1b[31mname') as trajectory:
            trajectory.reward(sample / 2)
    rolltrace.shutdown()
    return tmp_path


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["sql", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_a_table_with_numbers_on_the_right(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys, "select 'x' as t, sum(reward) as total, null as none from trajectories", store)
    assert said == "t  total  none\nx    1.5\n1 row\n"


def test_csv_can_be_read_back(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys, "select name, reward, [1, 2] as l, null as n from trajectories order by 2", store, "--csv")
    rows = list(csv.reader(io.StringIO(said)))
    assert rows[0] == ["name", "reward", "l", "n"]
    assert rows[2] == ['a "quoted",\n\\x1b[31mname', "0.5", "[1, 2]", ""]
    assert "\x1b" not in said


def test_json_is_exact(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ask(capsys, "select name, 'nan'::double as x from trajectories limit 1", store, "--json")
    assert json.loads(said) == {"name": 'a "quoted",\n\x1b[31mname', "x": {"$float": "nan"}}
    assert "\x1b" not in said


def test_two_columns_of_one_name_are_both_shown(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(capsys, "select 1 as a, 2 as a", store, "--csv") == "a,a\n1,2\n"


def test_no_rows_is_no_error(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "select step from trajectories where false", store)
    assert answer == f"step\n0 rows in the store {str(store)!r}\n"
    assert ask(capsys, "select step from trajectories where false", store, "--json") == ""


@pytest.mark.parametrize(
    "wrong", ["select from where", "select nope from spans", "drop table spans", "select 1; select 2", ""]
)
def test_a_wrong_statement_is_one_line(store: Path, wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", wrong, str(store)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert said.err.startswith("rolltrace: ")


FOREVER = "select count(*) from range(1000000000000) where range % 7 = 8"


def test_a_statement_that_runs_for_ever_ends_at_its_time_limit(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", FOREVER, str(store), "--timeout", "0.5s"]) == 1
    assert "longer than 0.5 s" in capsys.readouterr().err


def test_ctrl_c_ends_a_statement_that_runs_for_ever(store: Path) -> None:
    command = [sys.executable, "-m", "rolltrace", "sql", FOREVER, str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:
        eventually(lambda: "duckdb" in Path(f"/proc/{asking.pid}/maps").read_text())
        asking.send_signal(signal.SIGINT)
        out, err = asking.communicate()
    assert (asking.returncode, out) == (130, "")
    assert err == "rolltrace: stopped by Ctrl-C\n"


@pytest.mark.parametrize(
    "greedy",
    [
        "select list(range) from range(10000000000)",
        "select range from range(10000000000)",
        "select a.range from range(100000) a, range(100000) b order by 1",
        "select string_agg(repeat('x', 1000000), '') from range(1000000)",
        "select repeat('a', 100000) from range(100000000)",
    ],
)
def test_a_statement_cannot_eat_more_memory_than_it_may(
    store: Path, greedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sql", greedy, str(store), "--memory", "100MB"]) == 1
    message = capsys.readouterr().err
    assert "Out of Memory" in message or "the answer is larger than" in message, message


def test_without_a_statement_it_says_what_one_looks_like(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql"]) == 1
    assert "which SELECT?" in capsys.readouterr().err


def test_every_view_that_the_help_names_can_be_asked(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for view in VIEWS:
        ask(capsys, f"select count(*) from {view}", store)
    with pytest.raises(SystemExit):
        main(["sql", "--help"])
    said = capsys.readouterr().out.partition("views: ")[2].partition("examples:")[0]
    assert sorted(re.findall("[a-z_]+", said)) == sorted(VIEWS)


def test_a_sum_of_integers_is_an_integer(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "select sum(step) as steps, sum(step) * 1.5 as more, 1::HUGEINT << 100 as huge, null::HUGEINT as none"
    row = json.loads(ask(capsys, f"{query} from trajectories", "--json", "--store", store))
    assert row == {"steps": 3, "more": 4.5, "huge": 1 << 100, "none": None}
    assert type(row["steps"]) is int
