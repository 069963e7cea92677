"""`rolltrace plot`: values over the steps, in the terminal and as a picture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from tests.draining import drain

HOSTILE = "\x1b[31mred"


@rolltrace.rollout_trace_op(kind="llm")
def generate(length: int) -> dict[str, object]:
    return {"token_ids": list(range(length)), "content": "x"}


def write(store: Path) -> None:
    """Two experiments of three steps; in step s of `a` the rewards are s/4 and s/4 + 0.5, in `b` all are 1."""
    for experiment in ("a", "b"):
        rolltrace.init("p", experiment, "rolltrace", store=store)
        for step in range(3):
            for n in range(2):
                with rolltrace.rollout_trace_attr(7, step=step, rollout_n=n) as trajectory:
                    generate(10 * (step + 1))
                    reward = 1.0 if experiment == "b" else step / 4 + n / 2
                    trajectory.reward(reward, terms={"format": 0.5, HOSTILE: n, "why": "text"})
            with rolltrace.rollout_trace_attr(8, step=step, validate=True) as trajectory:
                trajectory.reward(0.25)
        with rolltrace.rollout_trace_attr("without a step"):
            pass
        rolltrace.shutdown()
    drain(store)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    path = tmp_path_factory.mktemp("plotted") / "store"
    write(path)
    return path


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def means(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[tuple[str, str], list[float]]:
    """By value and experiment, the mean of each step of training."""
    assert main(["plot", *map(str, arguments), "--json", "--train"]) == 0
    curves: dict[tuple[str, str], list[float]] = {}
    for row in map(json.loads, capsys.readouterr().out.splitlines()):
        curves.setdefault((row["value"], row["experiment"]), []).append(row["mean"])
    return curves


def test_a_chart_has_a_line_per_experiment_and_says_where_it_went(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(store), "--train"]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == "mean reward by step"
    assert lines[1].startswith("   1 │")
    assert lines[1].endswith("b"), "the line of b ends at the top"
    assert lines[-3].split() == ["0", "2"]
    assert lines[-2:] == [
        "a  a  0.25 -> 0.75, 3 steps, 6 trajectories", "b  b  1 -> 1, 3 steps, 6 trajectories",
    ]  # fmt: skip
    assert all(len(line) <= 80 for line in lines)
    assert said.err == "rolltrace: left out 2 trajectories without a step\n"


def test_validation_has_a_line_of_its_own(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(store), "--experiment", "a"]) == 0
    assert "b  a (validation)  0.25 -> 0.25, 3 steps, 3 trajectories" in capsys.readouterr().out


def test_every_value_is_the_mean_of_its_step(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = "reward,pass,flat,tokens,turns,tools,errors,flags,flag.interrupted,terms,score.reward,response_tokens"
    found = means(capsys, store, "--of", values, "--experiment", "a", "--threshold", 0.6)
    assert found["reward", "a"] == found["score.reward", "a"] == [0.25, 0.5, 0.75]
    assert found["pass", "a"] == [0, 0.5, 0.5]
    assert found["flat", "a"] == [0, 0, 0]
    assert found["tokens", "a"] == found["response_tokens", "a"] == [10, 20, 30]
    assert found["turns", "a"] == [1, 1, 1]
    assert found["tools", "a"] == found["errors", "a"] == found["flag.interrupted", "a"] == [0, 0, 0]
    assert found["term.format", "a"] == [0.5, 0.5, 0.5]
    assert ("term.why", "a") not in found, "text has no mean"
    assert means(capsys, store, "--of", "flat", "--experiment", "b") == {("flat", "b"): [1, 1, 1]}


def test_experiments_and_filters_choose(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = means(capsys, store, "--experiment", "a", "--experiment", "b", "--where", "step > 0 or reward = 0")
    assert both == {("reward", "a"): [0, 0.5, 0.75], ("reward", "b"): [1, 1]}


def test_names_that_were_traced_are_not_obeyed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(store), "--of", "terms"]) == 0
    assert "mean term.\\x1b[31mred by step" in capsys.readouterr().out


def test_a_terminal_without_utf8_gets_a_chart_too(store: Path) -> None:
    command = [sys.executable, "-m", "rolltrace", "plot", str(store), "--experiment", "a", "--train"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "*" in done.stdout
    assert "0.75 |" in done.stdout
    assert done.stdout.isascii()


@pytest.mark.parametrize(("ending", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_picture_is_written(
    store: Path, tmp_path: Path, ending: str, begin: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"reward{ending}"
    assert main(["plot", str(store), "--of", "reward,terms", "-o", str(picture)]) == 0
    assert picture.read_bytes().startswith(begin)
    assert f"wrote {picture}: 3 charts" in capsys.readouterr().out


def test_without_matplotlib_one_line_says_what_to_install(store: Path, tmp_path: Path) -> None:
    program = "import sys; sys.modules['matplotlib'] = None; from rolltrace.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "plot", str(store), "--train", "-o", str(tmp_path / "x.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("rolltrace: images require matplotlib: pip install matplotlib; ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--of", "rewrd"], "there is no value 'rewrd' to plot; there are: reward, pass"),
        (["--of", "term."], "there is no value 'term.'"),
        (["-o", "x.txt"], "the output file must end in .png, .svg, .pdf; not 'x.txt'"),
    ],
)
def test_what_cannot_be_plotted_is_one_line(
    store: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(store), *arguments]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_nothing_to_plot_is_told_with_the_store(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(store), "--of", "advantage"]) == 0
    assert f"nothing to plot: no trajectory with a step has advantage ({store})" in capsys.readouterr().out
