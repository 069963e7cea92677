"""`rolltrace --completion`: what real shells make of the scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rolltrace.cli import COMMANDS

_ASK_BASH = """
source "$0"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
compopt() { :; }
_rolltrace_completion rolltrace
printf '%s\\n' "${COMPREPLY[@]}"
"""
_ASK_FISH = 'source $argv[1]; complete -C "$argv[2]"'
# A terminal of its own, in which Tab is pressed.
_ASK_ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; autoload -Uz compinit; compinit -D; zstyle ":completion:*" list-prompt ""; source '$1
zpty -w shell 'bindkey "^I" complete-word; print RE""ADY'
zpty -r shell output '*READY*'
zpty -w -n shell "$2"$'\\t'
zpty -w -n shell $'\\n'
zpty -r shell output "*$3*" && print -r -- "$output"
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With a `rolltrace` that is this one: the scripts ask it at each Tab."""
    folder = tmp_path_factory.mktemp("bin")
    program = folder / "rolltrace"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rolltrace "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def script(shell: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "rolltrace", "--completion", shell]
    file = folder / f"completion.{shell}"
    file.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return file


@pytest.fixture(scope="module")
def bash_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return script("bash", tmp_path_factory.mktemp("bash"))


def ask_bash(bash_script: Path, environment: dict[str, str], *words: str) -> tuple[list[str], str]:
    command = ["bash", "-c", _ASK_BASH, str(bash_script), "rolltrace", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["pl"], ["plot"]),
        (["ls", "--st"], ["--store", "--steps", "--step"]),
        (["ls", "runs/store", "--las"], ["--last"]),
        (["export", "c"], ["csv", "chrome"]),
        (["export", "csv", "--wh"], ["--where"]),
        (["store", "r"], ["retain", "rm"]),
        (["--completion", ""], ["bash", "fish", "zsh"]),
        (["ls", "--step", ""], []),
        (["ls", ""], []),
    ],
    ids=" ".join,
)
def test_bash_offers_commands_formats_and_options(
    bash_script: Path, environment: dict[str, str], words: list[str], offered: list[str]
) -> None:
    assert ask_bash(bash_script, environment, *words) == (offered, "")


def test_bash_offers_all_commands(bash_script: Path, environment: dict[str, str]) -> None:
    assert tuple(ask_bash(bash_script, environment, "")[0]) == COMMANDS


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rolltrace pl", ["plot"]),
        ("rolltrace ls --las", ["--last"]),
        ("rolltrace export cs", ["csv"]),
        ("rolltrace export csv --wh", ["--where"]),
    ],
)
def test_fish_offers_them_with_what_they_mean(
    tmp_path: Path, environment: dict[str, str], line: str, offered: list[str]
) -> None:
    command = ["fish", "--no-config", "-c", _ASK_FISH, str(script("fish", tmp_path)), line]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert [each.split("\t")[0] for each in done.stdout.splitlines()] == offered
    assert all("\t" in each for each in done.stdout.splitlines())


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [("rolltrace gro", "rolltrace groups"), ("rolltrace ls --las", "rolltrace ls --last")],
)
def test_zsh_completes_what_is_typed(tmp_path: Path, environment: dict[str, str], typed: str, completed: str) -> None:
    command = ["zsh", "-f", "-c", _ASK_ZSH, "zsh", str(script("zsh", tmp_path)), typed, completed]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert completed in done.stdout, done.stderr
