"""`rolltrace store journal`: what a person sees of journals, in a terminal and in a pipe."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.journal import journal_files


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rolltrace.init("project", "experiment", "rolltrace", store=tmp_path)

    @rolltrace.rollout_trace_op(name="search", kind="tool")
    def search(query: str, limit: int = 5) -> dict[str, object]:
        return {"hits": ["北京", "\x1b[31mred"], "score": math.nan, "raw": b"\x00"}

    @rolltrace.rollout_trace_op(name="broken")
    def broken() -> None:
        raise ValueError("no luck")

    with rolltrace.rollout_trace_attr(
        step=3, sample_index="uuid-1", rollout_n=2, validate=True, difficulty="hard"
    ) as trajectory:
        search("天气")
        with pytest.raises(ValueError, match="no luck"):
            broken()
        trajectory.reward(0.5, terms={"format": 0.5})
    rolltrace.shutdown()
    return tmp_path


def dump(store: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    code = main(["store", "journal", "dump", str(store)])
    assert code == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_dump_prints_every_record_as_a_line_of_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = dump(store, capsys)
    assert [row["record"] for row in rows] == [
        "trajectory_start", "op_start", "op_end", "op_start", "op_end", "event", "trajectory_end",
    ]  # fmt: skip
    (op,) = [row for row in rows if row["record"] == "op_end" and row["name"] == "search"]
    assert op["inputs"] == {"query": "天气", "limit": 5}
    assert op["outputs"]["hits"] == ["北京", "\x1b[31mred"]  # type: ignore[index]
    assert op["outputs"]["score"] == {"$float": "nan"}  # type: ignore[index]
    assert (op["step"], op["sample_index"], op["rollout_n"], op["validate"]) == (3, "uuid-1", 2, True)
    assert (op["project"], op["experiment"], op["kind"], op["status"]) == ("project", "experiment", "tool", "ok")


def test_dump_shows_the_exception_of_an_op(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (op,) = [row for row in dump(store, capsys) if row["record"] == "op_end" and row["name"] == "broken"]
    error = op["error"]
    assert isinstance(error, dict)
    assert (op["status"], error["type"], error["message"]) == ("error", "ValueError", "no luck")
    assert 'raise ValueError("no luck")' in error["traceback"]


def test_dump_escapes_what_a_terminal_would_obey(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["store", "journal", "dump", str(store)])
    assert "\x1b" not in capsys.readouterr().out


def test_dump_reports_damage_and_exits_3(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = journal_files(store)
    data = bytearray(path.read_bytes())
    data[4200] ^= 0xFF
    path.write_bytes(data)
    assert main(["store", "journal", "dump", str(store)]) == 3
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (damage,) = [row for row in rows if row["record"] == "damage"]
    assert damage["file"] == path.name
    assert damage["reason"] == "checksum mismatch"
    assert len(rows) == 7


def test_dump_shows_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, max_samples_per_step_per_worker=1)
    for sample in range(3):
        with rolltrace.rollout_trace_attr(step=5, sample_index=sample):
            pass
    rolltrace.shutdown()
    rows = dump(tmp_path, capsys)
    assert rows[0]["record"] == "losses"
    assert rows[0]["losses"] == {"sample_limit": {"5": 2}}


def test_status_has_a_line_per_file(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "journal", "status", "--json", str(store)]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["state"], row["records"], row["damaged"], row["lost"]) == ("sealed", 7, 0, 0)


def test_the_store_comes_from_the_environment(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLTRACE_STORE", str(store))
    assert main(["store", "journal", "dump"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7


def test_a_missing_store_is_one_line_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "journal", "dump", str(tmp_path / "nowhere")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("rolltrace: there is no store at ")
    assert len(said.err.splitlines()) == 1


def test_a_closed_pipe_is_fine(store: Path) -> None:
    script = f"{sys.executable} -m rolltrace.cli store journal dump {store} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=os.environ, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "clean up a store" in capsys.readouterr().out


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.strip() == f"rolltrace {rolltrace.__version__}"
