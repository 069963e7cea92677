"""Which translations are behind their English page: `python tools/translations.py [--accept PAGE ...]`.

The last line of a page under docs/zh names the English text that it was translated from, by its hash. When the English
page changes, that no longer fits and the tests fail: change the translation too, and then accept it.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
_MARK = re.compile(r"\n*<!-- translated from (\S+) ([0-9a-f]{16}) -->\n*\Z")


def translations() -> list[Path]:
    return sorted((DOCS / "zh").rglob("*.md"))


def english_of(page: Path) -> Path:
    return DOCS / page.relative_to(DOCS / "zh")


def digest(english: Path) -> str:
    return hashlib.sha256(english.read_bytes()).hexdigest()[:16]


def is_behind(page: Path) -> bool:
    """Whether the English page is another one than this was translated from."""
    mark = _MARK.search(page.read_text(encoding="utf-8"))
    return mark is None or mark[2] != digest(english_of(page))


def accept(page: Path) -> None:
    """Say that the translation fits its English page as it is now."""
    english = english_of(page)
    text = _MARK.sub("", page.read_text(encoding="utf-8").rstrip("\n") + "\n")
    mark = f"<!-- translated from {english.relative_to(DOCS).as_posix()} {digest(english)} -->"
    page.write_text(f"{text.rstrip()}\n\n{mark}\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", type=Path, nargs="+", default=[], metavar="PAGE", help="it fits again")
    for page in parser.parse_args().accept:
        accept(page.resolve())
    behind = [page for page in translations() if is_behind(page)]
    for page in behind:
        name = page.relative_to(DOCS.parent)
        english = english_of(page).relative_to(DOCS.parent)
        print(f"{name} is behind {english}; then: python tools/translations.py --accept {name}")
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
