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
    assert places(capsys, store, "--offset", 8, "--limit", 2) == [("a", 0, 0), ("a", 0, 1)]
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


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Steps 1 to 3 of two experiments, samples 0 to 11. Not to be changed."""
    folder = tmp_path_factory.mktemp("many") / "store"
    for experiment in ("a", "b"):
        rolltrace.init("p", experiment, "rolltrace", store=folder, drain="off")
        for step in (1, 2, 3):
            for sample in range(12):
                with rolltrace.rollout_trace_attr(sample, step=step, rollout_n=0) as trajectory:
                    trajectory.reward(sample)
        rolltrace.shutdown()
    return folder


def _places(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[tuple[str, int, int]]:
    assert main([*map(str, arguments), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [(row["experiment"], row["step"], row.get("sample_index")) for row in rows]


@pytest.mark.parametrize("command", ["ls", "groups"])
def test_a_limit_shows_the_newest(command: str, many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = [("b", 3, sample) for sample in range(12)]
    assert _places(capsys, command, many, "--limit", 3) == newest[-3:]
    assert _places(capsys, command, many)[-12:] == newest
    assert main([command, str(many), "--limit", "3"]) == 0
    assert "3 of 72" in capsys.readouterr().out


def test_an_offset_leaves_out_the_newest(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _places(capsys, "ls", many, "--limit", 2, "--offset", 3) == [("b", 3, 7), ("b", 3, 8)]
    assert _places(capsys, "ls", many, "--offset", 71) == [("a", 1, 0)]


@pytest.mark.parametrize("command", ["ls", "groups"])
def test_with_an_order_a_limit_shows_the_first(command: str, many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _places(capsys, command, many, "--order=-step,-sample_index", "--limit", 2, "--experiment", "a")
    assert found == [("a", 3, 11), ("a", 3, 10)]


def test_a_limit_shows_the_newest_steps_and_experiments(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [place[:2] for place in _places(capsys, "ls", many, "--steps", "--limit", 2)] == [("b", 2), ("b", 3)]
    assert main(["ls", str(many), "--experiments", "--limit", "1"]) == 0
    assert "b" in capsys.readouterr().out.splitlines()[1].split()


def test_samples_have_a_column_that_sorts_as_numbers(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [sample for _, _, sample in _places(capsys, "ls", many, "--step", 1, "--experiment", "a")] == [*range(12)]
    for view in ("trajectories", "groups"):
        query = f"select experiment, step, sample_number from {view} where step = 1 order by experiment, sample_number"
        assert main(["sql", query, str(many), "--json"]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [row["sample_number"] for row in rows] == [*range(12), *range(12)]


@pytest.mark.parametrize(("option", "validate"), [("--train", False), ("--validate", True)])
def test_steps_are_of_training_or_of_validation(
    option: str, validate: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for is_validation in (False, True):
        with rolltrace.rollout_trace_attr(1, step=1, validate=is_validation):
            pass
    rolltrace.shutdown()
    assert main(["ls", "--steps", option, "--json", str(tmp_path)]) == 0
    assert [json.loads(line)["validate"] for line in capsys.readouterr().out.splitlines()] == [validate]
