"""A row of numbered files that several hosts add to, each number once: who decided what, in an order that all agree on.

    FOLDER/00000041.json
    FOLDER/00000042.json      the newest one says how things are

Whoever wants to decide something looks at the newest number first, then at everything that the decision depends on, and
then adds the next number. If somebody else did so meanwhile, the number is taken, and one has to look again. So a host
that was suspended between looking and deciding cannot decide: however late it is, its number is taken.

Older files may be removed, the newest one never. So a number that is free need not be the next one: `add` looks again
after it has added the file, and takes it back if there are higher numbers. Nobody goes by a file that is not the newest
without other evidence, so one that a kill leaves there does no harm.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from rolltrace.files.access import make_folder
from rolltrace.files.exclusive import create_file

_NAME = re.compile(r"(\d{8,})\.json")


class NumberedFiles:
    """The numbered files of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> list[int]:
        """Those that are there, in order."""
        try:
            names = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)

    def newest(self) -> int:
        """The highest number; 0 if there is none."""
        return max(self.numbers(), default=0)

    def path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.json"

    def add(self, number: int, data: bytes) -> bool:
        """Add the file with this number; False if somebody else has added it, or a higher one."""
        make_folder(self.folder)
        if not create_file(self.path(number), data, durable=True):
            return False
        if self.newest() == number:
            return True
        self.path(number).unlink(missing_ok=True)
        return False
