"""`rolltrace live`: what runs right now."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rolltrace
from rolltrace.capture import Recorder
from rolltrace.cli import main


def test_nothing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    assert main(["live", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"nothing is running in the store '{tmp_path}'\n"


def test_age_op_and_worker_of_what_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    said: list[str] = []

    @rolltrace.rollout_trace_op(name="\x1b[31msearch", kind="tool")
    def search() -> None:
        for options in ([], ["--json"]):
            assert main(["live", str(tmp_path), *options]) == 0
            said.append(capsys.readouterr().out)

    with rolltrace.rollout_trace_attr(7, step=3, rollout_n=1):
        search()
    table, line = said
    assert len(table.splitlines()) == 3
    assert table.replace("\n", "").isprintable()
    assert "\\x1b[31msearch" in table
    assert table.endswith("1 running trajectory\n")
    row = json.loads(line)
    assert (row["step"], row["sample_index"], row["rollout_n"], row["current_op"]) == (3, 7, 1, "\x1b[31msearch")
    assert row["age_s"] >= row["op_age_s"] >= 0
    assert row["worker"]


def test_what_hangs_between_ops_is_called_hung(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is recorded by a clock that is an hour behind: then it has been waiting for an hour."""
    monkeypatch.setenv("COLUMNS", "200")
    real = time.time_ns
    monkeypatch.setitem(Recorder.__init__.__kwdefaults__, "wall_ns", lambda: real() - 3600 * 10**9)
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)

    @rolltrace.rollout_trace_op(kind="tool")
    def search() -> None:
        pass

    for n in range(6):
        with rolltrace.rollout_trace_attr(7, step=3, rollout_n=n):
            search()
    with rolltrace.rollout_trace_attr(8, step=3, rollout_n=0) as trajectory:
        search()
        assert main(["live", str(tmp_path)]) == 0
        assert "hung?" in capsys.readouterr().out
        assert main(["live", "--json", str(tmp_path)]) == 0
        row = json.loads(capsys.readouterr().out)
        assert (row["pace"], row["current_op"]) == ("hung", None)
        assert row["idle_s"] > 3000
        assert main(["doctor", str(tmp_path)]) == 0
        assert f"trajectory {trajectory.id} looks hung: no op for 1h00m" in capsys.readouterr().out


def test_watching_goes_on_until_interrupted(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    command = [sys.executable, "-m", "rolltrace.cli", "live", "--watch", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as live:
        assert live.stdout is not None
        assert [live.stdout.readline() for _ in range(2)] == [f"nothing is running in the store '{tmp_path}'\n"] * 2
        live.send_signal(signal.SIGINT)
        assert live.wait(60) == 130
