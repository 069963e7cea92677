"""`rolltrace live --finished`: trajectories as they finish."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

import rolltrace
from rolltrace.cli import main


def finish(sample: int, **attributes: object) -> None:
    with rolltrace.rollout_trace_attr(sample, step=1, name="\x1b[2Jname", **attributes) as trajectory:
        trajectory.reward(0.5)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    for sample in range(5):
        finish(sample)
    return tmp_path


def test_the_last_ones_oldest_first(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["live", "--finished", str(store), "--once", "-n", "2", "--json"]) == 0
    assert [json.loads(line)["sample_index"] for line in capsys.readouterr().out.splitlines()] == [3, 4]


def test_a_line_for_people(store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["live", "--finished", str(store), "--once", "-n", "1"]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 1
    assert "step 1 sample 4" in said
    assert "reward 0.5" in said
    assert "\\x1b[2Jname" in said
    assert said[:-1].isprintable()


def test_filters_choose(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["live", "--finished", str(store), "--once", "--sample", "3", "--where", "reward > 0", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_what_runs_is_not_finished(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with rolltrace.rollout_trace_attr(9, step=1):
        assert main(["live", "--finished", str(store), "--once", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_a_negative_count_is_wrong_usage(store: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["live", "--finished", str(store), "-n", "-1"])
    assert stopped.value.code == 2


def following(store: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rolltrace.cli", "live", "--finished", str(store), "--json", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sample_of(lines: IO[str] | None) -> int:
    assert lines is not None
    return int(json.loads(lines.readline())["sample_index"])


def test_it_follows_until_interrupted_which_is_told_in_one_line(store: Path) -> None:
    with following(store, "-n", "1") as tail:
        assert sample_of(tail.stdout) == 4
        finish(77)
        assert sample_of(tail.stdout) == 77, "seen while its writer is there"
        rolltrace.shutdown()
        rolltrace.init("p", "e", "rolltrace", store=store)
        finish(78)
        assert sample_of(tail.stdout) == 78, "and nothing twice"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(60) == 130
        assert tail.stderr is not None
        assert tail.stderr.read() == "rolltrace: stopped by Ctrl-C\n"
