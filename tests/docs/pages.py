"""The pages of the documentation, and what stands in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_FENCED = re.compile(r"^(?P<fence>```+)(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block of code."""

    language: str
    text: str
    line: int


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match["language"].strip(), match["text"], text.count("\n", 0, match.start()) + 1)
        for match in _FENCED.finditer(text)
    ]


def prose_of(page: Path) -> str:
    """The page without its fenced blocks."""
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def shell_lines_of(page: Path) -> list[str]:
    """The lines of its blocks of code, fenced or indented, that are no Python and no SQL."""
    fenced = [block.text for block in blocks_of(page) if block.language in ("", "text", "console", "bash")]
    indented = re.findall(r"(?:^ {4}.*\n)+", prose_of(page), re.MULTILINE)
    return [line.strip() for text in (*fenced, *indented) for line in text.splitlines()]
