"""Which folder a command works on: a store, and nothing becomes one by mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rolltrace.cli import main

COMMANDS = [
    ["ls"], ["groups"], ["live"], ["stats"], ["doctor"], ["store", "drain"], ["store", "drain", "--once"],
    ["store", "compact"], ["store", "prune", "--older-than", "0m", "--yes"], ["store", "retain"],
    ["store", "retain", "--keep", "errors", "--yes"], ["store", "retain", "--off"],
    ["label", "aaaaaaaa", "--score", "reward=1"], ["show", "aaaaaaaa"], ["sql", "select 1"], ["export", "jsonl"],
    ["store", "journal", "dump"], ["sync", "--to", "otlp"], ["sync", "--to", "otlp", "--dry-run"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_makes_a_store_of_what_is_none(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    for name in ("src", "data", "journal"):
        (project / name).mkdir(parents=True)
    (project / "data" / "train.parquet").write_text("theirs")
    (project / "journal" / "monday.txt").write_text("theirs")
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for folder, what in (
        (project, "which is a folder of other things"),
        (tmp_path / "empty", "which is an empty folder"),
        (tmp_path / "absent", "which does not exist"),
        (project / "journal" / "monday.txt", "which is a file"),
    ):
        assert main([*words, "--store", str(folder)]) == 1
        error = capsys.readouterr().err
        assert (
            error
            == f"rolltrace: there is no store at {str(folder)!r}, {what}; name one: rolltrace COMMAND --store STORE\n"
        )
    assert sorted(tmp_path.rglob("*")) == before


def test_import_and_a_saved_policy_of_sync_make_a_store_where_there_is_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = tmp_path / "chat.jsonl"
    chat.write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}]}) + "\n")
    for number, words in enumerate(
        (["import", "chat", str(chat), "--project", "p", "--experiment", "e"], ["sync", "--to", "otlp", "--save"])
    ):
        empty, absent = tmp_path / f"empty{number}", tmp_path / f"absent{number}"
        empty.mkdir()
        for folder in (empty, absent):
            assert main([*words, "--store", str(folder)]) == 0
            assert (folder / "format.json").exists()
        assert main([*words, "--store", str(tmp_path)]) == 1
        assert "which is a folder of other things; name a new folder or a store" in capsys.readouterr().err
    assert not (tmp_path / "format.json").exists()
