"""`rolltrace docs`: the documentation, which is installed with the package."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import rolltrace
from rolltrace.cli.command import argument, command, option
from rolltrace.cli.options import JSON, Options
from rolltrace.cli.output import Column, print_rows, print_table
from rolltrace.errors import ConfigError, StoreError

_EXAMPLES = """examples:
  rolltrace docs                 all pages
  rolltrace docs filter          one of them, such as the filter language
  rolltrace docs howto/verl | less
  rolltrace docs --path"""
_FOLDERS = (".", "howto", "reference", "design")
"""In the order of a book. Of two pages of the same name the first is meant."""


@command(
    "read the documentation",
    "List the pages of the documentation, or print one. They are installed with the package, in the matching version.",
    argument("page", "its name, such as filter or howto/verl", required=False),
    option("--path", "print the path of the pages, or of the page named"),
    JSON,
    epilog=_EXAMPLES,
)
def docs(options: Options) -> int:
    folder = _folder()
    if options.page is not None:
        page = _find(folder, options.page)
        print(page if options.path else page.read_text(encoding="utf-8"), end="\n" if options.path else "")
    elif options.path:
        print(folder)
    else:
        rows = [{"page": _name(folder, page), "title": _title(page), "path": str(page)} for page in _pages(folder)]
        if options.json:
            print_rows(rows)
            return 0
        print_table([Column(key, [row[key] for row in rows], stretch=key == "title") for key in ("page", "title")])
        print("one: rolltrace docs PAGE; where they are: rolltrace docs --path")
    return 0


def _folder() -> Path:
    """Where the pages are: beside the modules in an installed package, at the root of a checkout."""
    package = Path(rolltrace.__file__).parent
    for folder in (package / "_docs", package.parent.parent / "docs"):
        if (folder / "reference" / "cli.md").is_file():
            return folder
    raise StoreError(
        f"{str(package)!r} has no documentation; install it again: pip install --force-reinstall rolltrace"
    )


def _pages(folder: Path) -> list[Path]:
    """All pages in their order, translations last."""

    def place(page: Path) -> tuple[int, str]:
        name = page.parent.relative_to(folder).as_posix()
        return _FOLDERS.index(name) if name in _FOLDERS else len(_FOLDERS), page.name

    return sorted(folder.rglob("*.md"), key=place)


def _name(folder: Path, page: Path) -> str:
    return page.relative_to(folder).with_suffix("").as_posix()


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as lines:
        return next((line.removeprefix("# ").strip() for line in lines if line.startswith("# ")), page.stem)


def _find(folder: Path, wanted: str) -> Path:
    """The page of this name, with or without its folder and ending."""
    pages = {_name(folder, page): page for page in _pages(folder)}
    word = wanted.strip("/").removeprefix("docs/").removesuffix(".md")
    for name, page in pages.items():
        if word in (name, page.stem):
            return page
    alike = get_close_matches(word, [page.stem for page in pages.values()])
    hint = f"do you mean {' or '.join(dict.fromkeys(alike))}? " if alike else ""
    raise ConfigError(f"there is no page {wanted!r}; {hint}all pages: rolltrace docs")
