"""`rolltrace flags`: every flag, for people and for programs."""

from __future__ import annotations

import json

import pytest

from rolltrace.cli import main
from rolltrace.flags import ALWAYS_ON, FLAGS


def test_every_flag_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flags"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [flag.name for flag in (*FLAGS, *ALWAYS_ON)]
    assert lines[0].endswith("the mark of re-tokenisation")


def test_json_has_all_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flags", "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["name"], sorted(first)) == ("prefix_break", ["detail", "meaning", "name", "not_set"])
