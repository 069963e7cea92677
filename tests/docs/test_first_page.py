"""The first page says for everything that rolltrace can record what to type, and where to read on."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from tests.docs.pages import ROOT

PAGES = {"anthropic": "sdk", "openai": "sdk", "prime-rl": "verifiers"}
"""What is described on the page of another."""
COMMANDS = ("run", "proxy", "collect", "import")
INDEX = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
TABLE = INDEX.partition("## What do you train with?")[2].partition("\n## ")[0]


def names(group: str) -> set[str]:
    return {each.name for each in entry_points(group=group) if each.dist is not None and each.dist.name == "rolltrace"}


@pytest.mark.parametrize("name", sorted({*names("rolltrace.instruments"), *names("rolltrace.integrations"), *COMMANDS}))
def test_the_table_names_a_page_for_everything_that_can_be_recorded(name: str) -> None:
    page = PAGES.get(name, name)
    assert f"](howto/{page}.md)" in TABLE
    assert (ROOT / "docs" / "howto" / f"{page}.md").exists()


def test_the_table_says_what_to_type() -> None:
    rows = [line.split("|")[1:-1] for line in TABLE.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    assert all("`" in typed for _, typed, _ in rows)
