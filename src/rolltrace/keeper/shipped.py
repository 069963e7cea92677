"""Remove parts of this store that a lake has: `rolltrace retain --shipped`.

    STORE/outbox/lake/remove.json     {"after_steps": 2}

A step goes as a whole, when so many later steps have begun and the lake has all its parts. Parts of no step stay.

Where several hosts share the store, one that was suspended in the middle of merging may go on at any time. If all parts
were gone, the number under which it writes would be free again (`store.merge`), its rows would be back, and would be
shipped once more. So there an empty part takes the place of those of each table, under the next number, and stays.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from rolltrace.errors import ConfigError
from rolltrace.files import make_folder, read_page, replace_file
from rolltrace.lake import BACKEND, LakePosition, choosing, lake_path, names_in, partition_of, positions
from rolltrace.record import TABLES
from rolltrace.store import (
    SCHEMAS,
    Superseded,
    finished_steps,
    is_emptied,
    other_hosts,
    outbox_folder,
    parts_in,
    replace_parts,
    source_of,
    step_folders,
    table_of,
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


def remove_shipped(store: Path, after_steps: int, *, dry_run: bool = False, epoch: int = 0) -> Removed:
    """Remove the finished steps that a lake has all of. The caller holds the lease of upkeep, in this epoch."""
    with choosing(store, patience_sec=1.0) as alone:
        lake_positions = positions(store) if alone else []
        if not lake_positions:
            return Removed(0, 0, 0)
        finished, undrained = finished_steps(store, later=after_steps), undrained_sources(store)
        is_shared = bool(other_hosts(store))
        steps = count = size = 0
        for folder in step_folders(store):
            listed = visible_parts(folder)
            parts = [part for part in listed if not is_emptied(part)]
            if not dry_run:  # whoever has emptied them was perhaps killed before it noted that
                _forget(store, [part for part in listed if part not in parts], lake_positions)
            if not finished(folder) or not parts:
                continue
            if any(source_of(part) in undrained for part in parts_in(folder)):
                continue
            if not any(_has_all(store, each, parts) for each in lake_positions):
                continue
            steps, count, size = steps + 1, count + len(parts), size + sum(map(_size, parts))
            if dry_run:
                continue
            if is_shared:
                _empty(store, folder, parts, lake_positions, epoch)
            else:
                _remove(store, folder, parts, lake_positions)
        return Removed(steps, count, size)


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except FileNotFoundError:  # replaced by another host
        return 0


def _has_all(store: Path, position: LakePosition, parts: list[Path]) -> bool:
    try:
        return all(lake_path(store, part) in position.shipped for part in parts)
    except OSError:  # one is damaged, or gone
        return False


def _remove(store: Path, folder: Path, parts: list[Path], lake_positions: list[LakePosition]) -> None:
    paths = [lake_path(store, part) for part in parts]
    # Those that others stand for go first: a kill must not bring them back.
    for part in sorted(parts_in(folder), key=set(parts).__contains__):
        part.unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:  # something else is in it
        pass
    for position in lake_positions:  # nothing here stands for these any more
        position.forget(path for path in paths if path in position.shipped)


def _empty(store: Path, folder: Path, parts: list[Path], lake_positions: list[LakePosition], epoch: int) -> None:
    """Put an empty part in the place of those of each table; they themselves go as all parts that were replaced."""
    for table in TABLES:
        own = [part for part in parts if table_of(part) == table.name]
        if not own:
            continue
        try:
            partition, rows = partition_of(own[0]), SCHEMAS[table.name].empty_table()
            emptied = replace_parts(store, partition, table, own, rows, epoch=epoch, shipped=True)
        except (Superseded, FileNotFoundError):  # by a host that was suspended while it merged them: the next time
            continue
        _forget(store, [emptied], lake_positions)


def _forget(store: Path, emptied: list[Path], lake_positions: list[LakePosition]) -> None:
    """Nothing here stands any more for what is in the lake."""
    names = [name for part in emptied for name in names_in(store, part)]
    for position in lake_positions:
        position.forget(path for name in names if (path := position.path_of(name)) is not None)
