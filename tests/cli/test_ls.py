"""`rolltrace ls`: a table for people, JSON lines for programs, and what all commands share."""

from __future__ import annotations

import json
import math
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

import rolltrace
from rolltrace._amounts import ago, duration, size
from rolltrace.cli import COMMANDS, main
from rolltrace.cli.output import cut
from tests.draining import drain
from tests.nightly import nightly

ROOT = Path(__file__).parent.parent.parent
HOSTILE = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202egnp.exe"


def write(store: Path) -> None:
    """The first step is drained, the second waits in the journal."""
    rolltrace.init("p", "e", "rolltrace", store=store)
    for step in (1, 2):
        for sample in (3, 10, "北京-uuid"):
            with rolltrace.rollout_trace_attr(sample, step=step, name=HOSTILE, difficulty="hard") as trajectory:
                trajectory.reward(0.25 * step)
        if step == 1:
            rolltrace.shutdown()
            drain(store)
            rolltrace.init("p", "e", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(3, step=2, validate=True) as trajectory:
        trajectory.reward(math.nan)
    rolltrace.shutdown()


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed."""
    path = tmp_path_factory.mktemp("listed")
    write(path)
    return path


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(each) for each in arguments]) == 0
    return capsys.readouterr().out


def rows(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, object]]:
    return [json.loads(line) for line in ask(capsys, *arguments, "--json").splitlines()]


# Answers as many questions as it gets, each with an environment of its own: most of a command's time is Python's start.
ANSWERING = """
import json, os, sys
from rolltrace.cli import main
before = dict(os.environ)
for line in sys.stdin:
    arguments, environment = json.loads(line)
    os.environ.update(environment)
    main(arguments)
    print(end="\\0", flush=True)
    os.environ.clear()
    os.environ.update(before)
"""


class Terminal:
    """A real one, and a process that runs commands on it."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        unset = ("NO_COLOR", "COLUMNS", "LINES", "TERM")
        self._process = subprocess.Popen(
            [sys.executable, "-c", ANSWERING], stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, text=True,
            env={key: value for key, value in os.environ.items() if key not in unset},
        )  # fmt: skip
        os.close(theirs)

    def run(self, *arguments: object, columns: int = 80, **environment: str) -> str:
        """What a command prints on a terminal of that width."""
        ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([[str(each) for each in arguments], environment]) + "\n")
        self._process.stdin.flush()
        said = b""
        while not said.endswith(b"\0"):
            said += os.read(self._ours, 4096)
        # What it says of its work on a slow machine is gone from the screen at the end.
        return re.sub(r"(?:\rreading [^\r\n]*)+\r +\r", "", said[:-1].decode())

    def close(self) -> None:
        self._process.communicate()
        os.close(self._ours)


@pytest.fixture(scope="module")
def terminal() -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()


def test_the_table_has_a_line_per_trajectory_and_says_how_to_show_one(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ask(capsys, "ls", store).splitlines()
    assert len(lines) == 1 + 7 + 1
    assert lines[0].split()[:3] == ["id", "step", "sample"]
    short = lines[1].split()[0]
    assert len(short) == 8
    assert lines[-1] == f"7 trajectories; one: rolltrace show {short}"


def test_json_has_every_column_and_tags_as_an_object(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "ls", store)
    assert [(row["step"], row["sample_index"]) for row in found[:3]] == [(1, 3), (1, 10), (1, "北京-uuid")]
    assert found[0]["tags"] == {"difficulty": "hard"}
    assert found[0]["name"] == HOSTILE


def test_json_stays_json_when_a_reward_is_nan(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows(capsys, "ls", store, "--validate")
    assert row["reward"] == {"$float": "nan"}


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--step", "1"], 3),
        (["--sample", "3"], 3),
        (["--sample", "3", "--train"], 2),
        (["--validate"], 1),
        (["--where", "reward > 0.3"], 3),
        (["--project", "p", "--experiment", "e", "--limit", "2"], 2),
        (["--step", "-1"], 0),
    ],
)
def test_filters_choose(store: Path, capsys: pytest.CaptureFixture[str], options: list[str], count: int) -> None:
    assert len(rows(capsys, "ls", store, *options)) == count


def test_order_and_limit(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "ls", store, "--order=-step,sample_index", "--limit", "1", "--train")
    assert [(row["step"], row["sample_index"]) for row in found] == [(2, 3)]
    assert "1 of 6 trajectories; all: --limit 6" in ask(capsys, "ls", store, "--train", "--limit", "1")


def test_steps_and_experiments(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["step"] for row in rows(capsys, "ls", store, "--steps", "--project", "p")] == [1, 2, 2]
    assert ask(capsys, "ls", store, "--steps").splitlines()[-1] == "3 steps"
    (row,) = rows(capsys, "ls", store, "--experiments")
    assert (row["experiment"], row["trajectories"]) == ("e", 7)
    assert ask(capsys, "ls", store, "--experiments").splitlines()[-1] == "1 experiment"


def test_nothing_found_is_no_error(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"no trajectories in the store '{store}' meet the filter; there is no step 99; there are 1 to 2\n"
    assert ask(capsys, "ls", store, "--step", "99") == line


@pytest.mark.parametrize("options", [["--limit", "-1"], ["--steps", "--where", "step = 1"], ["--validate", "--train"]])
def test_wrong_usage_is_exit_code_2(store: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["ls", str(store), *options])
    assert stopped.value.code == 2


@pytest.mark.parametrize("options", [["--where", "rewrd < 1"], ["--where", "reward <"], ["--order", "rewrd"]])
def test_a_wrong_filter_is_one_line(store: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", str(store), *options]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("rolltrace: ")
    assert len(said.err.splitlines()) == 1


def test_traced_text_is_not_obeyed(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ([], ["--json"], ["--steps"], ["--experiments"]):
        said = ask(capsys, "ls", store, *options)
        assert said.replace("\n", "").isprintable()


def test_on_a_terminal_lines_fit_and_columns_align(store: Path, terminal: Terminal) -> None:
    for columns in (50, 80, 160):
        said = terminal.run("ls", store, columns=columns, NO_COLOR="1")
        assert "\x1b" not in said
        lines = said.splitlines()[:8]
        wide = [sum(2 if letter in "北京" else 1 for letter in line) for line in lines]
        assert max(wide) <= columns
        at = lines[0].index("status")
        assert {line.replace("北京", "北.京.")[at : at + 2] for line in lines[1:]} == {"ok"}


def test_colour_only_on_a_terminal_that_wants_it(
    store: Path, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "\x1b[2m" in terminal.run("ls", store, TERM="xterm")
    assert "\x1b" not in terminal.run("ls", store, TERM="xterm", NO_COLOR="1")
    assert "\x1b" not in terminal.run("ls", store, TERM="dumb")
    assert "\x1b" not in ask(capsys, "ls", store)


def test_on_a_terminal_an_error_marks_the_place(store: Path, terminal: Terminal) -> None:
    assert terminal.run("ls", store, "--where", "step = 1 and rewrd < 1").count("^") == 1


def test_a_terminal_without_utf8_is_served(store: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rolltrace.cli", "ls", str(store)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u5317" in done.stdout


# All commands end in the same place when nobody reads on: a little output and a lot of it, the others at night.
@pytest.mark.parametrize("command", ["ls --json", "sql 'from range(100000)'", "tail -n 5", "doctor"][: nightly(4, 2)])
def test_a_closed_pipe_is_fine(store: Path, command: str) -> None:
    name, _, rest = command.partition(" ")
    given = f"{rest} {store}" if name == "sql" else f"{store} {rest}"
    script = f"{sys.executable} -m rolltrace.cli {name} {given} | head -n 1; exit ${{PIPESTATUS[0]}}"
    if name == "tail":  # it would write again only when a trajectory finishes
        script = script.replace("tail ", "tail --once ")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=os.environ, check=False)
    assert done.stderr == ""
    assert done.returncode == (1 if name == "doctor" and done.returncode else 0)
    assert len(done.stdout.splitlines()) == 1


def test_every_command_has_help_and_a_section_in_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/reference/cli.md").read_text()
    for name in COMMANDS:
        with pytest.raises(SystemExit) as stopped:
            main([name, "--help"])
        assert stopped.value.code == 0
        assert f"\n## {name}\n" in page
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert f"rolltrace {name}" in section, f"the section of {name} has no example"


def test_lengths_of_time_and_sizes_for_people() -> None:
    shown = [duration(seconds) for seconds in (0, 5e-6, 0.0123, 0.9999, 3.44, 59.99, 125, 11_220, 352_800, None, -1)]
    assert shown == ["0ms", "5us", "12ms", "1.0s", "3.4s", "1m00s", "2m05s", "3h07m", "4d02h", "", "0ms"]
    sizes = [size(count) for count in (0, 999, 1000, 99_960, 3_200_000_000)]
    assert sizes == ["0 B", "999 B", "1.0 kB", "100 kB", "3.2 GB"]
    assert ago(None) == ""


def test_cut_counts_columns_and_not_letters() -> None:
    assert cut("北京北京", 8) == "北京北京"
    assert cut("北京北京", 7) == "北京北…"
    assert cut("abc", 2) == "a…"


def test_what_training_made_of_them_is_shown_where_it_said_so(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "fate" not in ask(capsys, "ls", store).splitlines()[0]
    shutil.copytree(store, tmp_path, dirs_exist_ok=True)
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    rolltrace.score((1, 3, None), "fate", "filtered")
    rolltrace.score((1, 3, None), "advantage", -0.5)
    rolltrace.shutdown()
    said = ask(capsys, "ls", tmp_path, "--step", 1, "--sample", 3).splitlines()
    assert said[0].split()[6:8] == ["advantage", "fate"]
    assert said[1].split()[5:7] == ["-0.5", "filtered"]
