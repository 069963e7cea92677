"""`rolltrace ls`: which rows and columns are shown, also on a narrow screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from tests.draining import drain


@rolltrace.rollout_trace_op(kind="llm")
def generate(length: int) -> dict[str, object]:
    return {"token_ids": list(range(length)), "content": "x"}


def write(store: Path) -> None:
    """`z` first, then `a`: steps 0 to 4, two rollouts each, one token more each time."""
    for experiment in ("z", "a"):
        rolltrace.init("p", experiment, "rolltrace", store=store)
        for step in range(5):
            for n in range(2):
                with rolltrace.rollout_trace_attr(7, step=step, rollout_n=n, level=f"l{step}") as trajectory:
                    generate(2 * step + n + 1)
                    trajectory.reward(step / 10 + n)
        rolltrace.shutdown()
    drain(store)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    path = tmp_path_factory.mktemp("chosen") / "store"
    write(path)
    return path


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def table(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[list[str]]:
    """The lines of the table, as words; without the footer."""
    assert main(["ls", *map(str, arguments)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    end = next(at for at, line in enumerate(lines) if "trajector" in line)
    return [line.split() for line in lines[:end]]


def places(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[tuple[str, int, int]]:
    assert main(["ls", *map(str, arguments), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [(row["experiment"], row["step"], row["rollout_n"]) for row in rows]


def test_the_newest_experiment_and_the_newest_rows_come_last(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = places(capsys, store)
    assert found[0] == ("z", 0, 0)
    assert found[9:11] == [("z", 4, 1), ("a", 0, 0)]
    assert found[-1] == ("a", 4, 1)


def test_last_offset_and_limit_take_a_part(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert places(capsys, store, "--last", 2) == [("a", 4, 0), ("a", 4, 1)]
    assert places(capsys, store, "--last", 2, "--offset", 3) == [("a", 2, 1), ("a", 3, 0)]
    assert places(capsys, store, "--offset", 8, "--limit", 2) == [("z", 4, 0), ("z", 4, 1)]
    assert places(capsys, store, "--last", 4, "--order", "-reward", "--limit", 1) == [("a", 4, 1)]


def test_an_order_may_begin_with_a_dash(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert places(capsys, store, "--order", "-reward,experiment", "--limit", 2) == [("a", 4, 1), ("z", 4, 1)]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["--where", "tag.level = 'l3'"], "tag.level"),
        (["--where", "flags is null and score.judge is null"], "score.judge"),
        (["--where", "group.std > 0"], "group.std"),
        (["--order", "worker"], "worker"),
        (["--where", "name ~ 'o' and prompt_tokens is null"], "prompt_tokens"),
        (["--run", "test"], "run"),
    ],
)
def test_what_was_asked_about_is_among_the_columns_on_80(
    store: Path, arguments: list[str], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown in table(capsys, store, *arguments)[0]


def test_names_above_the_columns_can_be_typed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header, *rows = table(
        capsys, store, "--where", "tokens > 8 and n = 1 and took >= 0 and sample = 7", "--order", "-tokens,id"
    )
    assert {"id", "n", "tokens", "took"} <= set(header)
    assert [row[header.index("tokens")] for row in rows] == ["10", "10"]


def test_columns_are_those_that_are_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header, row = table(capsys, store, "--columns", "n,tokens,tag.level,score.reward,group.n", "--last", 1)
    assert (header, row) == (["n", "tokens", "tag.level", "score.reward", "group.n"], ["1", "10", "l4", "1.4", "2"])
    assert main(["ls", str(store), "--columns", "rewrd"]) == 1
    assert "trajectories have no column 'rewrd'; did you mean 'reward'?" in capsys.readouterr().err


def test_two_experiments_do_not_make_the_run_a_column(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = table(capsys, store)[0]
    assert "experiment" in header
    assert "run" not in header
