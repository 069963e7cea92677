"""The command line as a whole: help, start-up, Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rolltrace.cli import COMMANDS, main
from rolltrace.cli.command import Group
from rolltrace.tables import TableStore, address_in
from tests.cli.parsing import all_commands

_ENDLESS = "select count(*) from range(1000000000000) a, range(1000000000) b where a.range + b.range = -1"


def test_help_fits_80_columns_and_names_the_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    texts = {context.command_path: command.get_help(context) for context, command in all_commands()}
    assert len(texts) > 30
    assert [(name, line) for name, text in texts.items() for line in text.splitlines() if len(line) > 80] == []
    assert [name for name, text in texts.items() if "rolltrace docs" not in text] == []


def test_the_store_is_given_the_same_way_in_all_commands() -> None:
    for context, command in all_commands():
        has_option = any("--store" in param.opts for param in command.params)
        assert has_option == (not isinstance(command, Group) and command.name != "docs"), context.command_path


def test_there_are_at_most_20_commands_and_help_groups_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(COMMANDS) <= 20
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in ("record:", "look:", "export:", "maintain:")] == [
        "record:", "look:", "export:", "maintain:",
    ]  # fmt: skip
    assert {line.split()[0] for line in lines if line.startswith("  ")} >= set(COMMANDS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tail", "live --finished"), ("score", "label ID --score NAME=VALUE"), ("flags", "docs flags"),
        ("drain", "store drain"), ("rm", "store rm"), ("journal", "store journal"),
        ("completion", "--completion SHELL"),
    ],
)  # fmt: skip
def test_a_command_that_was_merged_says_what_to_type(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([old, "--json"])
    assert stopped.value.code == 2
    assert f"type: rolltrace {new}" in capsys.readouterr().err


def test_a_misspelt_command_names_what_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["groops"])
    assert "did you mean 'groups'?" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["rolltrace", "rolltrace.cli"])
def test_it_runs_as_a_module(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("rolltrace ")


def test_what_asks_no_store_loads_no_column_library() -> None:
    program = """
import sys
from rolltrace.cli import main
for command in sys.argv[1:]:
    try:
        main(command.split())
    except SystemExit:
        pass
    loaded = {"deltalake", "duckdb", "numpy", "pandas", "polars", "pyarrow"} & set(sys.modules)
    print(command, *sorted(loaded), file=sys.stderr)
"""
    commands = ["--help", "--version", "docs flags", "docs", "--completion bash", "ls --help"]
    done = subprocess.run([sys.executable, "-c", program, *commands], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == commands


def test_ctrl_c_in_a_long_question_is_one_line_and_exit_code_130(tmp_path: Path) -> None:
    TableStore(address_in(tmp_path / "store")).prepare()
    command = [sys.executable, "-m", "rolltrace", "sql", _ENDLESS, str(tmp_path / "store")]
    # On a terminal it says what it does: then it is at work for sure.
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "COLUMNS": "200"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what runs in the background ignores it
    ) as sql:  # fmt: skip
        os.close(theirs)
        try:
            told = b""
            while b"so far" not in told:
                told += os.read(ours, 1000)
            assert f"reading {tmp_path / 'store'}, ".encode() in told
            sql.send_signal(signal.SIGINT)
            assert sql.wait(60) == 130
        finally:
            sql.kill()
    told = os.read(ours, 10_000)
    assert told.endswith(b"rolltrace: stopped by Ctrl-C\r\n")
    assert b"Traceback" not in told
    os.close(ours)


def test_df_and_pl_say_what_to_install_and_what_works_without(tmp_path: Path) -> None:
    program = """
import importlib.util, json, sys
import rolltrace
from rolltrace.errors import MissingExtraError

found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in ("pandas", "polars") else found(name, package)
result = rolltrace.open(sys.argv[1]).trajectories()
messages = []
for method in (result.df, result.pl):
    try:
        method()
    except MissingExtraError as error:
        messages.append(str(error))
print(json.dumps(messages))
"""
    TableStore(address_in(tmp_path)).prepare()
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [
        f".{method}() needs {name}: pip install {name}; without it: .rows() gives dicts, .arrow() a table"
        for method, name in (("df", "pandas"), ("pl", "polars"))
    ]
