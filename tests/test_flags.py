"""Every flag is described, and the setting `checks` is understood or refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rolltrace.errors import ConfigError
from rolltrace.flags import ALWAYS_ON, FLAGS, check_selection, is_on
from rolltrace.settings import Settings


@pytest.mark.parametrize("flag", [*FLAGS, *ALWAYS_ON], ids=lambda flag: flag.name)
def test_a_flag_is_described(flag: Any) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", flag.name)
    assert flag.meaning
    assert flag.not_set
    assert not flag.meaning.endswith(".")


@pytest.mark.parametrize(
    ("value", "selection"),
    [
        ("all", "all"),
        (True, "all"),
        ("on", "all"),
        ("off", "off"),
        ("OFF", "off"),
        (False, "off"),
        ([], "off"),
        ("prefix_break", "prefix_break"),
        (" prefix_break , tool_error ", "prefix_break,tool_error"),
        (["-repetition", "-repetition"], "-repetition"),
        (("tool_error",), "tool_error"),
        (OmegaConf.create(["-repetition"]), "-repetition"),
    ],
)
def test_what_can_be_written(value: Any, selection: str) -> None:
    assert check_selection("checks", value) == selection


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("prefix_brake", "checks names no check 'prefix_brake'; did you mean 'prefix_break'?"),
        ("-prefix_brake", "checks names no check 'prefix_brake'; did you mean 'prefix_break'?"),
        (["tool_error", "xyz"], "checks names no check 'xyz'; there are: prefix_break, length_mismatch,"),
        ("tool_error,-repetition", "checks mixes names to keep and names to drop"),
        (3, "checks must be 'all', 'off', names of checks to keep or, each with a leading '-', to drop; not 3"),
        ("tool_error,,", "checks must be"),
        ({"a": 1}, "checks must be"),
        ([1], "checks must be"),
        ("-", "checks must be"),
    ],
)
def test_what_cannot_be_understood_is_an_error(value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_selection("checks", value)


@pytest.mark.parametrize(
    ("selection", "name", "on"),
    [
        ("all", "anything", True),
        ("off", "tool_error", False),
        ("tool_error,repetition", "repetition", True),
        ("tool_error,repetition", "prefix_break", False),
        ("-tool_error", "tool_error", False),
        ("-tool_error", "a_newer_one", True),
    ],
)
def test_what_is_on(selection: str, name: str, on: bool) -> None:
    assert is_on(selection, name) is on


def test_a_hydra_config_can_switch_checks_off() -> None:
    config = OmegaConf.create("actor_rollout_ref: {rollout: {trace: {checks: off}}}")
    assert Settings.gather({}, config).checks == "off"


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_CHECKS", "tool_eror")
    with pytest.raises(ConfigError, match=r"ROLLTRACE_CHECKS names no check 'tool_eror'; did you mean 'tool_error'\?"):
        Settings.gather({})


def test_a_check_of_another_package_can_be_named(tmp_path: Path) -> None:
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rolltrace.checks]\nmy_check = mine:check\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from rolltrace.flags import check_selection\n"
        "print(check_selection('checks', '-my_check'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "-my_check\n"
