"""Which format a file or folder has, from its name and its beginning. `rolltrace import auto` asks here.

The module of a format may have `recognise(peek)`, which says why a file is of that format, or None. The formats are
asked in the order of `IMPORTS`, so that those with a mark of their own come before those that a few names stand for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rolltrace.errors import ConfigError
from rolltrace.exchange.formats import IMPORTS, listing
from rolltrace.exchange.source_lines import json_records, open_regular

_HEAD_BYTES = 64 << 10
_MAX_NAMES = 12
_MAX_FILES = 5
"""Of a folder that are looked into for each format."""


class Peek:
    """A file, and its beginning."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def head(self) -> bytes:
        """Its first bytes."""
        try:
            with open_regular(self.path) as file:
                return file.read(_HEAD_BYTES)
        except OSError:
            return b""

    @cached_property
    def first(self) -> Any:
        """The first record of a file of JSON; None if there is none."""
        if self.head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
            return None
        try:
            return next(json_records(self.path)).value
        except (OSError, StopIteration):
            return None

    @cached_property
    def record(self) -> dict[str, Any]:
        """The same if it is an object; else an empty one."""
        return self.first if isinstance(self.first, dict) else {}

    @cached_property
    def columns(self) -> frozenset[str]:
        """Those of a Parquet file; none if it is no such file."""
        if not self.head.startswith(b"PAR1"):
            return frozenset()

        from rolltrace.exchange.packed_files import parquet_columns  # with Arrow: only where there is such a file

        return parquet_columns(self.path)


class Guess(NamedTuple):
    """What a path seems to be."""

    format: str
    why: str


def guess(path: Path) -> Guess:
    """The format of a file, or of the files in a folder.

    Raises:
        ConfigError: it is not there, or of no format that is recognised.
    """
    if not path.exists():
        raise ConfigError(f"{str(path)!r} does not exist")
    if not path.is_dir():
        try:
            open_regular(path).close()
        except OSError as error:
            raise ConfigError(f"cannot read {str(path)!r}: {error.strerror or error}") from None
    peeks: dict[Path, Peek] = {}
    for name, form in IMPORTS.items():
        files = form.files(path)[:_MAX_FILES] if path.is_dir() else [path]
        for file in files:
            why = form.recognise(peeks.setdefault(file, Peek(file)))
            if why is not None:
                return Guess(name, why if file == path else f"{file.relative_to(path)}: {why}")
    raise ConfigError("\n".join(_explain(path, list(peeks.values()))))


def _explain(path: Path, peeks: list[Peek]) -> Iterator[str]:
    """What was looked at, what it is nearest to, and what was looked for."""
    seen = next((peek for peek in peeks if _names(peek)), None)
    is_inside = "" if seen is None or seen.path == path else f" ({seen.path.relative_to(path)})"
    what = "no record or column was found in it"
    if seen is not None:
        kind = "columns are" if seen.columns else "first record has"
        what = f"its {kind} {', '.join(sorted(map(str, _names(seen)))[:_MAX_NAMES])}{is_inside}"
    yield f"cannot tell the format of {str(path)!r}: {what}"
    near = [
        (len(marks & _names(seen)) / len(marks), name, marks)
        for name, form in IMPORTS.items()
        if seen is not None and (marks := form.columns if seen.columns else form.fields) and marks & _names(seen)
    ]
    if near:
        _, name, marks = max(near)
        missing = sorted(marks - _names(seen)) if seen is not None else []
        lacks = f", and this has no {listing(missing)}" if missing else ", and a name or place of its own"
        yield f"nearest is {name}, which has {listing(marks)}{lacks}"
    yield f"name it: rolltrace import FORMAT {path}; formats that were looked for:"
    yield from (f"  {name}: {form.help}" for name, form in IMPORTS.items() if not form.is_remote)


def _names(peek: Peek) -> frozenset[Any]:
    return peek.columns or frozenset(peek.record)
