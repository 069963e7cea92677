"""What a settled step says in a listing, kept on disk, so that a cold process need not look at every op of every step.

    STORE/summary/project=P/experiment=E/step=S--FINGERPRINT.parquet    its rows of the listing
    STORE/summary/project=P/experiment=E/step=S--FINGERPRINT.summary    a few numbers about it: `Summary`

The fingerprint is made of the names and sizes of all parts in the folder of the step. Parts never change, so a summary
whose fingerprint is that of the folder is right, whoever made it and whenever; any other is not looked at. A new part,
a late score by coordinates, pruning and compaction change the folder and with it the fingerprint. Only scores that were
given by id alone lie elsewhere: a summary names those parts of them that are in its numbers (`late`).

Everything here can be removed at any time: answers stay the same, and take longer until the keeper has made it again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import xxhash

from rolltrace._arrow import pq
from rolltrace.files import check_inside, file_mode, is_inside, make_folder, read_page, replace_file, replacing
from rolltrace.query.step_rows import is_sound
from rolltrace.store import (
    OnUnreadable,
    add_checksum,
    data_folder,
    is_part_name,
    leave_out,
    part_entries,
    parts_in,
    replaced_by,
    source_of,
    step_folders,
    table_of,
    visible_parts,
)

VERSION = 7
"""To be raised when the listing or `Summary` changes: older summaries are then not looked at."""
_NAME = re.compile(r"(step=(?:none|-?\d+))--([0-9a-f]{32})\.(parquet|summary)")
_DIGEST_BYTES = 16


class Summary(msgspec.Struct):
    """What is known of a step without reading its parts."""

    parts: list[str]
    """The parts that are to be read, by name; the others in the folder are replaced by these."""
    replaced: list[tuple[str, str]]
    """Table and source of parts that these stand for."""
    rows: dict[str, int]
    """How many rows each table has."""
    terms: int
    """How many of its scores have terms."""
    dropped: list[str]
    """The trajectories that were begun and not kept. The listing is without them, other tables may not be."""
    strays: bool
    """There are rows of trajectories that are not among those of this folder, but perhaps of another experiment."""
    late: list[str]
    """The parts of late scores, by path below the data folder, that are in `steps`."""
    steps: list[tuple[Any, ...]]
    """The rows of `_steps`: the values of its columns, in their order."""


class Folder(NamedTuple):
    """The folder of a step, as it was when it was looked at."""

    path: Path
    fingerprint: str
    parts: list[Path]
    """The visible ones."""
    summary: Summary | None


def summary_folder(store: Path) -> Path:
    return store / "summary"


def listing_file(store: Path, folder: Folder) -> Path:
    """Where the rows of the listing of a step are, if it has a summary."""
    return _file(store, folder.path, folder.fingerprint, "parquet")


class Folders:
    """The folders of all steps of a store, looked at again and again."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._folders: dict[Path, Folder] = {}
        self._unusable: set[tuple[Path, str]] = set()

    def scan(self, on_unreadable: OnUnreadable = leave_out) -> dict[Path, Folder]:
        """Every folder as it is now, in order."""
        before, self._folders = self._folders, {}
        there: dict[Path, frozenset[str]] = {}
        for path in step_folders(self._store, on_unreadable):
            fingerprint = fingerprint_of(path, on_unreadable)
            folder_before = before.get(path)
            if folder_before is None or folder_before.fingerprint != fingerprint or folder_before.summary is None:
                parent = _file(self._store, path, "", "").parent
                if parent not in there:
                    there[parent] = frozenset(_names(parent) if is_inside(self._store, parent) else ())
                folder_before = self._look(path, fingerprint, there[parent], folder_before)
            self._folders[path] = folder_before
        return self._folders

    def _look(self, path: Path, fingerprint: str, there: frozenset[str], before: Folder | None) -> Folder:
        named = (_file(self._store, path, fingerprint, kind).name for kind in ("parquet", "summary"))
        summary = None
        if (path, fingerprint) not in self._unusable and there.issuperset(named):
            summary = read_summary(_file(self._store, path, fingerprint, "summary"))
        if summary is None and before is not None and before.fingerprint == fingerprint:
            return before
        parts = visible_parts(path) if summary is None else [path / name for name in summary.parts]
        return Folder(path, fingerprint, parts, summary)

    def forget_summary(self, path: Path) -> None:
        """Its listing cannot be read: do without."""
        folder = self._folders.pop(path, None)
        if folder is not None:
            self._unusable.add((path, folder.fingerprint))


def fingerprint_of(folder: Path, on_unreadable: OnUnreadable = leave_out) -> str:
    """What tells the parts of a folder from any others that it has had or will have."""
    names = (f"{entry.name} {_size(entry)}" for entry in part_entries(folder, on_unreadable))
    return xxhash.xxh3_128_hexdigest("\n".join([f"v{VERSION}", *sorted(names)]).encode())


def read_summary(file: Path) -> Summary | None:
    """The numbers of a step; None if they cannot be read."""
    try:
        content = read_page(file)
        if xxhash.xxh3_128_digest(content[_DIGEST_BYTES:]) != content[:_DIGEST_BYTES]:
            return None
        summary = msgspec.msgpack.decode(content[_DIGEST_BYTES:], type=Summary)
        return summary if all(map(is_part_name, summary.parts)) and is_sound(summary.steps) else None
    except (OSError, msgspec.MsgspecError):
        return None


def write_summary(store: Path, folder: Folder, summary: Summary) -> None:
    """Save the numbers of a step, after its listing."""
    file = _file(store, folder.path, folder.fingerprint, "summary")
    check_inside(store, file)
    make_folder(file.parent)
    body = msgspec.msgpack.encode(summary)
    replace_file(file, [xxhash.xxh3_128_digest(body), body])


def write_listing(store: Path, folder: Folder, rows: object) -> None:
    """Save the rows of the listing of a step, an Arrow table."""
    file = listing_file(store, folder)
    check_inside(store, file)
    make_folder(file.parent)
    with replacing(file, mode=file_mode(file.parent)) as hidden:
        pq.write_table(rows, hidden, compression="zstd", compression_level=3, write_page_checksum=True)
        add_checksum(hidden)


def stale_files(store: Path, folders: Mapping[Path, Folder]) -> Iterator[Path]:
    """Summaries that stand for no folder as it is now."""
    right = {folder.path.relative_to(data_folder(store)): folder.fingerprint for folder in folders.values()}
    for parent, _, names in os.walk(summary_folder(store)):
        for name in names:
            match = _NAME.fullmatch(name)
            if match and right.get(Path(parent, match[1]).relative_to(summary_folder(store))) != match[2]:
                yield Path(parent, name)


def replaced_sources(parts: Sequence[Path]) -> list[tuple[str, str]]:
    """Table and source of all that these parts stand for, besides themselves."""
    return [(table_of(part), each.source) for part in parts for each in replaced_by(part)]


def is_among(part: Path, data: Path, names: frozenset[str]) -> bool:
    """Whether the rows of a part are those of the named ones: it is one of them, or was merged from them."""
    if str(part.relative_to(data)) in names:
        return True
    merged = replaced_by(part)
    return bool(merged) and all(
        str((part.parent / f"{table_of(part)}--{each.source}.parquet").relative_to(data)) in names for each in merged
    )


def has_replaced(folder: Folder) -> bool:
    """Whether parts wait to be removed: the fingerprint will change then."""
    return len(parts_in(folder.path)) > len(folder.parts)


def is_drained(folder: Folder, undrained: frozenset[str]) -> bool:
    """Whether no drainer will write a part of this folder again."""
    return not any(source_of(part) in undrained for part in folder.parts)


def _file(store: Path, folder: Path, fingerprint: str, kind: str) -> Path:
    place = folder.relative_to(data_folder(store))
    return summary_folder(store) / place.parent / f"{place.name}--{fingerprint}.{kind}"


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:  # removed since it was listed
        return -1


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
