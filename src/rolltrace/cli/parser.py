"""The parser of every command: help that fits the terminal and says where the docs are."""

from __future__ import annotations

import argparse
from typing import Any

_DOCS = "documentation: rolltrace docs"


class _Help(argparse.HelpFormatter):
    """Wraps each paragraph of one line; those with lines of their own, such as examples, stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        fill = super()._fill_text
        return "\n\n".join(each if "\n" in each else fill(each, width, indent) for each in paragraphs)


class Parser(argparse.ArgumentParser):
    """An ArgumentParser of ours; its subparsers are too."""

    def __init__(self, *, epilog: str | None = None, **options: Any) -> None:
        epilog = _DOCS if epilog is None else f"{epilog}\n\n{_DOCS}"
        super().__init__(epilog=epilog, **{"formatter_class": _Help, **options})
