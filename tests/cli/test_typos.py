"""Misspelt names: a command says so and names what was meant; it does not answer as if there were nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.flags import ALWAYS_ON, FLAGS


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    folder = tmp_path_factory.mktemp("typos") / "store"
    rolltrace.init("arithmetic", "calculator", "rolltrace", store=folder, drain="off", run="first")
    for n in range(3):
        with rolltrace.rollout_trace_attr(sample_index=0, step=1, rollout_n=n, difficulty="hard") as trajectory:
            trajectory.reward(n, terms={"correct": n, "format": 1})
            rolltrace.score(trajectory, "judge", n)
    rolltrace.shutdown()
    return folder


@pytest.mark.parametrize(
    ("value", "meant"),
    [("flag.cut_by_lenght", "cut_by_length"), ("term.correkt", "correct"), ("score.judgge", "judge")],
)
def test_a_misspelt_value_is_not_plotted(
    value: str, meant: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", "--of", value, str(store)]) == 1
    printed = capsys.readouterr()
    assert f"did you mean {meant!r}?" in printed.err
    assert printed.out == ""


def test_a_flag_that_nothing_has_yet_can_be_plotted(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "--of", "flag.repetition", str(store)]) == 0
    assert "share with the flag repetition" in capsys.readouterr().out


def test_help_of_plot_names_flags_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["plot", "--help"])
    named = set(re.findall(r"flag\.([a-z_]+)", capsys.readouterr().out))
    assert named
    assert named <= {flag.name for flag in (*FLAGS, *ALWAYS_ON)}


@pytest.mark.parametrize(
    ("condition", "meant"),
    [
        ("term.correkt > 0", "correct"),
        ("not term.correkt > 0", "correct"),
        ("reward >= 0 or score.juge > 1", "judge"),
        ("tag.dificulty = 'hard'", "difficulty"),
    ],
)
@pytest.mark.parametrize("command", [["ls"], ["ls", "--json"], ["groups"], ["plot"]])
def test_a_misspelt_name_in_a_filter_is_told(
    command: list[str], condition: str, meant: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--where", condition, str(store)]) == 0
    assert f"did you mean {meant!r}?" in capsys.readouterr().err


def test_names_that_the_store_has_are_not_remarked_on(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = "term.correct > 0 and score.judge > 0 and tag.difficulty = 'hard'"
    assert main(["ls", "--where", where, str(store)]) == 0
    assert capsys.readouterr().err == ""


_COMMANDS = [
    ["ls"], ["ls", "--steps"], ["ls", "--json"], ["groups"], ["plot"], ["plot", "--experiment", "calculator"],
    ["live", "--finished", "--once"], ["export", "jsonl"], ["export", "sft"], ["export", "csv"], ["label"],
    ["diff", "--step", "1", "--sample", "0"], ["label", "--step", "1", "--sample", "0", "--rollout", "0", "good"],
    ["sync", "--to", "otlp", "--dry-run"],
]  # fmt: skip


@pytest.mark.parametrize("command", _COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("option", "typo", "meant"),
    [("--experiment", "calclator", "calculator"), ("--project", "Arithmetic", "arithmetic")],
)
def test_a_misspelt_experiment_or_project_is_an_error(
    command: list[str], option: str, typo: str, meant: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, option, typo, "--store", str(store)]) == 1
    printed = capsys.readouterr()
    assert f"{typo!r}; did you mean {meant!r}?" in printed.err
    assert printed.out == ""


@pytest.mark.parametrize("command", [["ls"], ["groups"], ["plot"], ["export", "jsonl"]], ids=" ".join)
def test_a_misspelt_run_is_an_error(command: list[str], store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--run", "frist", str(store)]) == 1
    assert "there is no run 'frist'; did you mean 'first'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "meant"), [("failed", "error"), ("success", "ok"), ("eror", "error"), ("canceled", "cancelled")]
)
def test_a_status_by_another_name_is_told_what_it_is_called_here(
    status: str, meant: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ls", "--where", f"status = '{status}'", str(store)]) == 0
    assert f"did you mean {meant!r}?" in capsys.readouterr().out


def test_python_warns_of_a_misspelt_name_once(store: Path) -> None:
    with rolltrace.open(store) as opened:
        with pytest.warns(rolltrace.errors.UnknownNameWarning, match="did you mean 'correct'") as told:
            opened.trajectories(where="term.correkt > 0")
        opened.groups(where="term.correkt > 0")  # a second warning would be an error here
        assert [warning.filename for warning in told] == [__file__]
