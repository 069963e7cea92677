"""What a check says about a store, and what checks share."""

from __future__ import annotations

import os
import shlex
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from rolltrace._address import address_in
from rolltrace.files import owner_of

if TYPE_CHECKING:
    from rolltrace.query import Store

SHARE = "ask for it to be shared with your group: its owner sets ROLLTRACE_SHARE=group, or init(share='group')"
"""What to do about a store of somebody else's."""


class Finding(NamedTuple):
    """One line of the report."""

    level: Literal["ok", "note", "problem"]
    check: str
    what: str
    where: str = ""
    do: str = ""
    """What to type next."""


@lru_cache(maxsize=1)
def opened(store: Path) -> Store:
    """The store, opened once, and only looked at: what waits in journals stays there."""
    from rolltrace.query import open_store

    return open_store(store, drains=False)


def is_readable(path: Path) -> bool:
    return os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0))


def unreadable(check: str, path: Path) -> Finding:
    """Something that we may not read: its owner can share it, or it is ours and its mode is wrong."""
    owner = owner_of(path)
    if owner is not None:
        return Finding("problem", check, f"not readable by you; it belongs to {owner}", str(path), SHARE)
    right = f"u+r{'x' * path.is_dir()}"
    what = f"not readable by you (mode {mode_of(path):03o})"
    return Finding("problem", check, what, str(path), f"chmod {right} {shlex.quote(str(path))}")


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def command(words: str, store: Path) -> str:
    return f"rolltrace {words} {shlex.quote(address_in(store).url)}"
