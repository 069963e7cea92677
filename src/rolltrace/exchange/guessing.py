"""Which format a file or folder has, from its name and its beginning. `rolltrace import auto` asks here.

The module of a format may have `recognise(peek)`, which says why a file is of that format, or None. The formats are
asked in the order of `IMPORTS`, so that those with a mark of their own come before those that a few names stand for.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rolltrace.errors import ConfigError
from rolltrace.exchange.formats import IMPORTS
from rolltrace.exchange.opening import open_regular
from rolltrace.exchange.text import parse

_HEAD_BYTES = 64 << 10
_LONGEST_LINE = 16 << 20
_MOST_FILES = 5
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
    def record(self) -> dict[str, Any]:
        """The first line, if it is a JSON object; else an empty one."""
        if not self.head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
            return {}
        try:
            with open_regular(self.path) as file:
                line = next((line for line in iter(lambda: file.readline(_LONGEST_LINE), b"") if line.strip()), b"")
            value = parse(line.decode("utf-8-sig"))
        except (OSError, ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    @cached_property
    def columns(self) -> frozenset[str]:
        """Those of a Parquet file; none if it is no such file."""
        if not self.head.startswith(b"PAR1"):
            return frozenset()

        from rolltrace.exchange.splitting import parquet_columns  # with Arrow: only where there is such a file

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
        except OSError as fault:
            raise ConfigError(f"cannot read {str(path)!r}: {fault.strerror or fault}") from None
    peeks: dict[Path, Peek] = {}
    for name, form in IMPORTS.items():
        files = form.files(path)[:_MOST_FILES] if path.is_dir() else [path]
        for file in files:
            why = form.recognise(peeks.setdefault(file, Peek(file)))
            if why is not None:
                return Guess(name, why if file == path else f"{file.relative_to(path)}: {why}")
    raise ConfigError(
        f"cannot tell the format of {str(path)!r}; name it: rolltrace import FORMAT {path} "
        f"(formats: {', '.join(IMPORTS)})"
    )
