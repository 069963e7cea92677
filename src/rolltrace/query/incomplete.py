"""What a store holds and an answer does not, because it could not be read: journals and data files.

A journal holds what was not drained yet. Somebody else's cannot be opened by us, and one that the drainer set aside is
read by nobody. A data file that is damaged, or not ours to read, is left out and the rest of the store is read. Records
that were damaged in a journal are lost: the losses of its experiment say so.
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from rolltrace._address import address_in
from rolltrace._guard import OURS
from rolltrace.errors import IncompleteWarning, UnknownNameWarning

Kind = Literal["journal", "file", "damage", "backlog"]
_NAMES: dict[Kind, str] = {"journal": "journal file", "file": "data file", "damage": "file", "backlog": "journal file"}
_LONGEST_REASON = 80


class Missing(NamedTuple):
    """A file that could not be read, or a folder of such files."""

    kind: Kind
    path: Path
    reason: str


class Incomplete(NamedTuple):
    """What an answer lacks; false if it lacks nothing."""

    missing: tuple[Missing, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing)

    def __str__(self) -> str:
        return "; ".join(map(self.of_kind, self.kinds))

    @property
    def kinds(self) -> list[Kind]:
        """What there is something missing of."""
        return [kind for kind in _NAMES if any(each.kind == kind for each in self.missing)]

    def of_kind(self, kind: Kind) -> str:
        """One line about what is missing of a kind."""
        files = [each for each in self.missing if each.kind == kind]
        if kind == "backlog":
            size = sum(float(each.reason.split()[0]) for each in files)
            return f"{size:.1f} MB of journals were not drained and are missing here: the store cannot be written to"
        if kind == "damage":
            few, more = files[0].reason, len(files) - 1
            return f"{few}" if not more else f"{few}; and in {more} more"
        path, reason = files[0].path, files[0].reason.replace(f"{files[0].path}", "it").partition(". ")[0]
        place = f"{path.parent.name}/{path.name}"
        which = f"the {'folder' if os.path.isdir(path) else _NAMES[kind]} {place}"
        if len(files) > 1:
            which = f"{len(files)} {_NAMES[kind]}s, such as {place},"
        lost = "what waits there to be drained" if kind == "journal" else "the rows there"
        return f"{which} cannot be read ({reason[:_LONGEST_REASON]}): {lost} cannot be shown"


COMPLETE = Incomplete()


class Teller:
    """Warns of what the answers of a store lack, once for each kind, and of names that it does not have."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._warned_of: set[str] = set()

    def tell_unknown(self, problems: Iterable[str]) -> None:
        for problem in problems:
            if problem not in self._warned_of:
                self._warned_of.add(problem)
                warnings.warn(problem, UnknownNameWarning, stacklevel=_caller_level())

    def tell(self, incomplete: Incomplete) -> None:
        for kind in incomplete.kinds if incomplete else ():
            if kind not in self._warned_of:
                self._warned_of.add(kind)
                line = f"{incomplete.of_kind(kind)}; see: rolltrace doctor {shlex.quote(address_in(self._store).url)}"
                warnings.warn(line, IncompleteWarning, stacklevel=_caller_level())


def _caller_level() -> int:
    """The `stacklevel` at which a warning of our caller names the line of whoever called rolltrace."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        level, frame = level + 1, frame.f_back
    return level
