"""Remove parts of this store that a lake has: `rolltrace retain --shipped`.

    STORE/outbox/lake/remove.json     {"after_steps": 2}

A step goes as a whole, when so many later steps have begun and the lake has all its parts. Parts of no step stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from rolltrace.errors import ConfigError
from rolltrace.files import make_folder, read_page, replace_file
from rolltrace.lake import BACKEND, Position, choosing, lake_path, positions
from rolltrace.store import (
    finished_steps,
    outbox_folder,
    parts_in,
    source_of,
    step_folders,
    undrained_sources,
    visible_parts,
)


class Removed(NamedTuple):
    """What was removed, or would be."""

    steps: int
    parts: int
    bytes: int


class _Policy(msgspec.Struct, forbid_unknown_fields=True):
    after_steps: int


def _file(store: Path) -> Path:
    return outbox_folder(store, BACKEND) / "remove.json"


def shipped_policy(store: Path) -> int | None:
    """After how many later steps what was shipped goes by itself; None if it stays."""
    try:
        return msgspec.json.decode(read_page(_file(store)), type=_Policy).after_steps
    except (OSError, msgspec.MsgspecError):
        return None


def set_shipped_policy(store: Path, after_steps: int | None) -> None:
    """Set that; None lets it stay.

    Raises:
        ConfigError: the number makes no sense.
    """
    if after_steps is None:
        _file(store).unlink(missing_ok=True)
        return
    if after_steps < 1:
        raise ConfigError(f"after_steps must be 1 or more: the last step is never finished, not {after_steps}")
    make_folder(_file(store).parent)
    replace_file(_file(store), msgspec.json.encode(_Policy(after_steps)))


def remove_shipped(store: Path, after_steps: int, *, dry_run: bool = False) -> Removed:
    """Remove the finished steps that a lake has all of. The caller holds the lease of upkeep."""
    with choosing(store, patience_sec=1.0) as alone:
        known = positions(store) if alone else []
        if not known:
            return Removed(0, 0, 0)
        finished, undrained = finished_steps(store, later=after_steps), undrained_sources(store)
        steps = count = size = 0
        for folder in step_folders(store):
            parts = visible_parts(folder)
            if not finished(folder) or not parts:
                continue
            if any(source_of(part) in undrained for part in parts_in(folder)):
                continue
            position = next((each for each in known if _has_all(store, each, parts)), None)
            if position is None:
                continue
            steps, count, size = steps + 1, count + len(parts), size + sum(part.stat().st_size for part in parts)
            if not dry_run:
                _remove(store, folder, parts, known)
        return Removed(steps, count, size)


def _has_all(store: Path, position: Position, parts: list[Path]) -> bool:
    try:
        return all(lake_path(store, part) in position.shipped for part in parts)
    except OSError:  # one is damaged, or gone
        return False


def _remove(store: Path, folder: Path, parts: list[Path], known: list[Position]) -> None:
    paths = [lake_path(store, part) for part in parts]
    # Those that others stand for go first: a kill must not bring them back.
    for part in sorted(parts_in(folder), key=set(parts).__contains__):
        part.unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:  # something else is in it
        pass
    for position in known:  # nothing here stands for these any more
        position.forget(path for path in paths if path in position.shipped)
