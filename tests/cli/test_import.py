"""`rolltrace import`: which store, what is reported, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rolltrace.cli import main
from rolltrace.query import open_store

GOOD = json.dumps({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})
NAMED = ("--project", "p", "--experiment", "e")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.jsonl"
    path.write_text(f"{GOOD}\n{GOOD}\n")
    return path


def test_files_go_into_the_store_that_is_named_last(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "new"
    assert main(["import", "chat", str(file), str(store), *NAMED]) == 0
    assert capsys.readouterr().out == f"2 trajectories imported into {store}\n"
    assert len(open_store(store).trajectories().rows()) == 2
    assert main(["import", "chat", *NAMED, str(file), str(store)]) == 0
    assert len(open_store(store).trajectories().rows()) == 2


def test_the_store_may_come_from_the_environment(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_STORE", str(tmp_path / "new"))
    assert main(["import", "chat", str(file), *NAMED]) == 0
    assert len(open_store(tmp_path / "new").trajectories().rows()) == 2


def test_the_store_is_in_the_home_folder_otherwise(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["import", "chat", str(file), *NAMED]) == 0
    assert len(open_store(tmp_path / ".rolltrace").trajectories().rows()) == 2
    assert not (tmp_path / "~").exists()


def test_a_mistyped_file_does_not_become_a_store(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROLLTRACE_STORE", str(tmp_path / "new"))
    assert main(["import", "chat", str(file), str(tmp_path / "y.jsnol"), *NAMED]) == 3
    assert "y.jsnol: No such file" in capsys.readouterr().err
    assert not (tmp_path / "y.jsnol").exists()


def test_malformed_lines_are_named_and_give_exit_code_3(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f'{GOOD}\n{{"messages": "\\u001b[31m"}}\nnot json\n{GOOD}\n')
    assert main(["import", "chat", str(file), str(tmp_path / "new"), *NAMED, "--json"]) == 3
    captured = capsys.readouterr()
    first, second = captured.err.splitlines()
    assert first.startswith(f"rolltrace: {file}:2: messages must be")
    assert second.startswith(f"rolltrace: {file}:3: not JSON")
    assert "\x1b" not in captured.err
    assert json.loads(captured.out) == {
        "store": str(tmp_path / "new"), "imported": 2, "already_there": 0, "malformed": 2,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "\n\n", "no\nno\n"])
def test_nothing_that_can_be_read_gives_exit_code_1(text: str, file: Path, tmp_path: Path) -> None:
    file.write_text(text)
    assert main(["import", "chat", str(file), str(tmp_path / "new"), *NAMED]) == 1


def test_importing_again_says_what_was_new_and_what_was_there(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["import", "chat", str(file), "--store", str(tmp_path / "new"), *NAMED]
    assert main(arguments) == 0
    file.write_text(file.read_text() + GOOD.replace("q", "another") + "\n")
    for said in (
        "1 new trajectory imported into {}, 2 were there already",
        "0 new trajectories imported into {}, 3 were",
    ):
        capsys.readouterr()
        assert main(arguments) == 0
        assert capsys.readouterr().out.startswith(said.format(tmp_path / "new"))


def test_of_many_lines_that_cannot_be_read_twenty_are_named(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("broken\n" * 1000 + GOOD + "\n")
    assert main(["import", "chat", str(file), str(tmp_path / "new"), *NAMED]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "rolltrace: and 980 more that could not be read"


@pytest.mark.parametrize("text", ["broken\n", ""])
def test_a_failed_import_leaves_no_store(text: str, file: Path, tmp_path: Path) -> None:
    file.write_text(text)
    assert main(["import", "chat", str(file), str(tmp_path / "new"), *NAMED]) == 1
    assert main(["import", "chat", str(tmp_path / "gone.jsonl"), "--store", str(tmp_path / "new"), *NAMED]) == 1
    assert not (tmp_path / "new").exists()


def test_a_missing_project_is_one_line(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "verl", str(file), str(tmp_path / "new")]) == 1
    assert "pass --project and --experiment" in capsys.readouterr().err


def test_reward_columns_are_named_with_their_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {"step": [1, 1], "prompt": ["p", "p"], "completion": ["c", "d"], "a": [1.0, 0.0], "b": [0.0, 1.0]}
    pq.write_table(pa.table({**rows, "advantage": [0.7, -0.7]}), tmp_path / "x.parquet")
    command = ["import", "auto", str(tmp_path / "x.parquet"), str(tmp_path / "new"), *NAMED]
    assert main([*command, "--rewards", "a,b=0.25"]) == 0
    assert [row["reward"] for row in open_store(tmp_path / "new").trajectories(order="rollout_n").rows()] == [1.0, 0.25]
    with pytest.raises(SystemExit):
        main([*command, "--rewards", "a=x"])
    assert "'x' is not a weight; write NAME or NAME=WEIGHT" in capsys.readouterr().err
