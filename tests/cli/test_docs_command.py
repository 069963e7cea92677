"""`rolltrace docs`: the pages that are installed with the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rolltrace.cli import main

ROOT = Path(__file__).parents[2]


def test_pages_are_listed_with_their_titles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    said = capsys.readouterr().out
    assert "reference/filter" in said
    assert "howto/verl" in said
    assert "How to trace verl" in said


@pytest.mark.parametrize("name", ["filter", "reference/filter", "docs/reference/filter.md"])
def test_a_page_is_printed_by_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", name]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/reference/filter.md").read_text()


def test_of_two_pages_of_one_name_that_for_users_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "verl", "--path"]) == 0
    assert Path(capsys.readouterr().out.strip()) == ROOT / "docs/howto/verl.md"


def test_a_page_that_is_not_there_names_those_alike(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "filtr"]) == 1
    said = capsys.readouterr().err
    assert said == "rolltrace: there is no page 'filtr'; do you mean filter? all pages: rolltrace docs\n"


def test_the_pages_are_part_of_the_wheel() -> None:
    settings = (ROOT / "pyproject.toml").read_text()
    assert '[tool.hatch.build.targets.wheel.force-include]\n"docs" = "rolltrace/_docs"' in settings


def test_every_page_that_help_and_messages_name_exists(capsys: pytest.CaptureFixture[str]) -> None:
    sources = [path.read_text() for path in (ROOT / "src/rolltrace").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"rolltrace docs ([a-z][\w/-]*)", text)}
    assert "filter" in named
    assert [name for name in sorted(named) if main(["docs", name, "--path"]) != 0] == []
