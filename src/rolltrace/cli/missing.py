"""Tell on stderr what an answer lacks, and why a command that writes cannot. One place for all commands."""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rolltrace.cli.output import plain
from rolltrace.errors import IncompleteWarning
from rolltrace.journal import write_problem

_NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def telling_of_missing() -> Iterator[None]:
    """While the block runs, an `IncompleteWarning` is one line on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", IncompleteWarning)
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, IncompleteWarning):
                print(f"rolltrace: {plain(str(message))}", file=sys.stderr)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def refusal_of(fault: OSError, store: Path | None) -> str | None:
    """What to say of something that this user may not do; None if that is not what went wrong."""
    if fault.errno not in _NOT_ALLOWED:
        return None
    why = None if store is None else write_problem(store)
    what = f"{fault.strerror}: {str(fault.filename)!r}" if fault.filename is not None else str(fault)
    return what if why is None else f"{what}; the store {str(store)!r} can only be read: {why}"
