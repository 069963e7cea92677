"""The bytes of records that could not be made rows, kept so that nothing is lost.

    STORE/unreadable/SEGMENT-PLACE.msgpack

They are as they were recorded, secrets included, and so private. There is a limit to how much is kept: a record may be
unreadable because it is huge.
"""

from __future__ import annotations

import os
from pathlib import Path

from rolltrace._guard import logger
from rolltrace.files import make_folder, replace_file

MOST_BYTES = 64 << 20
"""Of all files together."""


def unreadable_folder(store: Path) -> Path:
    return store / "unreadable"


class Aside:
    """Where one drainer puts what it cannot read."""

    def __init__(self, store: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder = unreadable_folder(store)
        self._most_bytes = most_bytes
        self._bytes: int | None = None
        """How much there is; None before the first look."""

    def keep(self, name: str, body: bytes) -> None:
        """Keep these bytes under a name that is made of checked names alone. Under the same name they are replaced."""
        path = self._folder / name
        if self._bytes is None:
            self._bytes = self._begin()
        there = path.stat().st_size if path.exists() else 0
        if self._bytes - there + len(body) > self._most_bytes:
            logger.warning("there is no room to keep %s (%d bytes) in %s", name, len(body), self._folder)
            return
        replace_file(path, body, durable=True)
        self._bytes += len(body) - there

    def _begin(self) -> int:
        if self._folder.is_symlink():
            raise OSError(f"{self._folder} is a link, which is not followed")
        make_folder(self._folder, durable=True)
        with os.scandir(self._folder) as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
