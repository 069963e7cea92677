"""`import auto` tells each format by its files, and refuses to guess what it does not know."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rolltrace.cli import main
from rolltrace.errors import ConfigError
from rolltrace.exchange import IMPORTS, guess

from .conftest import CHAT, Importer, write
from .mutations import SAMPLES

NAMED = ("--project", "p", "--experiment", "e")
FOLDERS = {
    "harbor": "harbor", "inspect": "inspect", "trl": "trl", "slime": "slime", "nemo-rl": "nemo_rl", "art": "art",
    "mini-swe-agent": "mini_swe_agent", "claude-code": "claude_code", "codex": "codex",
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_a_format_is_recognised_by_its_folder_and_by_each_of_its_files(name: str) -> None:
    folder = SAMPLES / FOLDERS[name]
    assert guess(folder).format == name
    files = IMPORTS[name].files(folder)
    assert files
    assert {guess(file).format for file in files} == {name}


def test_lines_are_recognised_by_their_fields(tmp_path: Path) -> None:
    lines = {
        "jsonl": {"rolltrace": 1},
        "verl": {"input": "i", "output": "o", "score": 1, "step": 1},
        "tinker": {"iteration": 1, "group_idx": 2, "steps": []},
        "chat": {"messages": CHAT},
    }
    for name, record in lines.items():
        assert guess(write(tmp_path / f"{name}.jsonl", [record])).format == name


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"PK\x03\x04", b"PAR1", b"[1]", b'{"a": 1}\n', b"{" * 100_000])
def test_what_is_not_known_is_not_guessed(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.dat").write_bytes(content)
    with pytest.raises(ConfigError, match="cannot tell the format"):
        guess(tmp_path / "x.dat")


def test_an_unknown_format_is_compared_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as fault:
        guess(write(tmp_path / "x.jsonl", [{"input": "i", "output": "o", "model": "m"}]))
    first, near, name, *formats = str(fault.value).split("\n")
    assert first == f"cannot tell the format of '{tmp_path / 'x.jsonl'}': its first record has input, model, output"
    assert near == "nearest is verl, which has input, output and score, and this has no score"
    assert name == f"name it: rolltrace import FORMAT {tmp_path / 'x.jsonl'}; formats that were looked for:"
    assert [line.split(":")[0].strip() for line in formats] == [
        name for name, form in IMPORTS.items() if not form.is_remote
    ]


def test_a_folder_of_an_unknown_format_says_which_file_was_looked_at(tmp_path: Path) -> None:
    pq.write_table(pa.table({"step": [1], "prompt": ["p"]}), tmp_path / "completions_1.parquet")
    with pytest.raises(ConfigError) as fault:
        guess(tmp_path)
    assert "its columns are prompt, step (completions_1.parquet)" in str(fault.value)
    assert "nearest is trl" in str(fault.value)
    assert "this has no advantage and completion" in str(fault.value)


def test_auto_says_what_it_guessed_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(SAMPLES / "nemo_rl"), str(SAMPLES / "trl")]
    assert main(["import", "auto", *paths, str(tmp_path / "new"), *NAMED]) == 0
    captured = capsys.readouterr()
    assert f"{paths[0]}: taken for nemo-rl (" in captured.err
    assert "completions_00003.parquet: a Parquet file with" in captured.err
    assert captured.out == f"11 trajectories imported into {tmp_path / 'new'}\n"
    assert main(["import", "auto", str(tmp_path / "gone"), "--store", str(tmp_path / "new"), *NAMED]) == 1
    assert "does not exist" in capsys.readouterr().err


BROKEN = [b"", b"\0" * 500, b"PK\x03\x04" + b"\0" * 50, b"PAR1" + b"\0" * 50 + b"PAR1", b"[]", b"5", b"[" * 50_000]


@pytest.mark.parametrize("name", [name for name in IMPORTS if name not in ("mlflow", "weave")])
def test_no_importer_is_harmed_by_a_file_of_another_kind(name: str, tmp_path: Path, into: Importer) -> None:
    for number, content in enumerate(BROKEN):
        (tmp_path / f"{number}.eval").write_bytes(content)
        report = into(name, tmp_path / f"{number}.eval")
        assert (report.imported, report.malformed) in ((0, 1), (0, 0)), content[:20]
        assert report.malformed or not content.strip()
    assert not into.path.exists()
