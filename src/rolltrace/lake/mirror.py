"""A lake as a folder that looks like a store: every part is listed, and is fetched when somebody is about to read it.

    CACHE/lakes/LAKE/lake.json              {"url": ...}; whoever opens the folder knows by this what it is
    CACHE/lakes/LAKE/versions.json          the version of each table that it shows
    CACHE/lakes/LAKE/data/..., summary/...  as in a store; files that are not here are hollow (cache.py)
    CACHE/lakes/LAKE/blobs/...              those that somebody has looked at

So everything above a store works on a lake. Parts never change, so one that is here is right; whether it is damaged is
seen when it comes. Several processes share the folder: they bring it up to date one after the other.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from rolltrace.errors import ConfigError, FormatError, StoreError
from rolltrace.files import LAKE_FILE, file_lock, file_mode, is_mirror, make_folder, read_page, replace_file
from rolltrace.lake.address import LakeAddress
from rolltrace.lake.cache import cache_folder, is_hollow, make_hollow, make_room, most_bytes, note_use
from rolltrace.lake.faults import PartGone
from rolltrace.lake.objects import Objects, check_lake
from rolltrace.lake.tables import TABLE_NAMES, LakePart, LakeTable
from rolltrace.record import FORMAT
from rolltrace.store import blob_path, checksum_problem, data_folder, is_part_name, table_of

_AT_ONCE = 8
_PATIENCE_SEC = 60.0
_SUMMARY = "summary"
_GONE = "the lake lists it and does not have it"


def mirror_of(text: str | os.PathLike[str]) -> Path:
    """The folder that shows a lake, made if needed.

    Raises:
        StoreError: there is no lake.
        ConfigError, OutageError, MissingExtraError: it cannot be read.
    """
    address = LakeAddress.of(text)
    folder = cache_folder() / "lakes" / address.name
    if address.folder is not None and not address.folder.is_dir():
        raise StoreError(f"there is no lake at {address.url!r}, which does not exist")
    if not check_lake(address, Objects(address)):
        raise StoreError(f"there is no lake at {address.url!r}; fill one with: rolltrace ship STORE --to {address.url}")
    cache_folder().mkdir(parents=True, exist_ok=True)
    make_folder(data_folder(folder))
    make_folder(folder / _SUMMARY)
    replace_file(folder / "format.json", b'{"format": %d}\n' % FORMAT)
    if not is_mirror(folder):
        replace_file(folder / LAKE_FILE, json.dumps({"url": address.url}).encode())
    return folder


class Mirror:
    """Such a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = LakeAddress.of(json.loads(read_page(folder / LAKE_FILE))["url"])
        self._tables = {name: LakeTable(self.address, name) for name in TABLE_NAMES}
        self._objects: Objects | None = None
        self._parts: dict[Path, LakePart] = {}
        self._summaries: dict[Path, int] = {}
        self._versions: dict[str, int] = {}
        self._fetched_bytes = 0
        self._fetched_last: list[Path] = []

    @property
    def objects(self) -> Objects:
        if self._objects is None:
            self._objects = Objects(self.address)
        return self._objects

    def refresh(self) -> None:
        """Bring the listing up to date.

        Raises:
            OutageError, BackendError: the lake cannot be reached.
        """
        with ThreadPoolExecutor(len(self._tables)) as pool:
            list(pool.map(LakeTable.refresh, self._tables.values()))
        versions = {name: table.version for name, table in self._tables.items()}
        if versions == self._versions:
            return
        deadline = time.monotonic() + _PATIENCE_SEC
        while True:
            with file_lock(self.folder / "refresh.lock") as alone:
                if alone:
                    self._show(versions)
                    return
            if time.monotonic() > deadline:
                raise StoreError(f"another process holds {str(self.folder / 'refresh.lock')!r}; end it")
            time.sleep(0.02)

    def _show(self, versions: dict[str, int]) -> None:
        shown = self._shown()
        if any(versions[name] < shown.get(name, -1) for name in versions):  # another process has looked since
            for table in self._tables.values():
                table.refresh()
            versions = {name: table.version for name, table in self._tables.items()}
        parts = {
            data_folder(self.folder) / part.path: part
            for name, table in self._tables.items()
            for part in map(partial(self._checked, name), table.active().values())
        }
        there = {file for file in data_folder(self.folder).rglob("*.parquet") if not file.name.startswith(".")}
        for path in there - parts.keys():
            path.unlink(missing_ok=True)
        for path in parts.keys() - there:
            make_hollow(path, parts[path].size)
        self._show_summaries()
        replace_file(self.folder / "versions.json", msgspec.json.encode(versions))
        self._parts, self._versions = parts, versions

    def _checked(self, table: str, part: LakePart) -> LakePart:
        if not _is_sound(table, part.path):
            raise FormatError(
                f"the table {self.address.table(table)!r} lists {part.path[:200]!r}, which rolltrace did not put "
                "there; take it back with the engine that did (RESTORE), and merge parts with: rolltrace lake compact"
            )
        return part

    def _shown(self) -> dict[str, int]:
        try:
            return msgspec.json.decode(read_page(self.folder / "versions.json"), type=dict[str, int])
        except (OSError, msgspec.MsgspecError):
            return {}

    def _show_summaries(self) -> None:
        """The numbers of settled steps come at once, their listings when they are needed."""
        remote = {self.folder / path: size for path, size in self.objects.list(_SUMMARY).items() if ".." not in path}
        there = {file for file in (self.folder / _SUMMARY).rglob("step=*") if file.is_file()}
        for path in there - remote.keys():
            path.unlink(missing_ok=True)
        missing = [path for path in remote if path not in there]
        for path in missing:
            if path.suffix == ".parquet":
                make_hollow(path, remote[path])
            else:
                make_folder(path.parent)
        numbers = [path for path in missing if path.suffix == ".summary"]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._get, numbers))

    def fetch(self, files: Iterable[Path]) -> dict[Path, str | None]:
        """See to it that these parts and listings are here; which of them cannot be, and why: None for those that are
        not in the lake any more.

        Raises:
            OutageError, BackendError: the lake cannot be reached.
        """
        wanted = list(files)
        missing = [file for file in wanted if is_hollow(file)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            problems = dict(zip(missing, pool.map(self._fetch, missing)))
        if _GONE in problems.values():
            self._versions = {}
            self.refresh()
        self._fetched_last = [file for file in wanted if problems.get(file) is None]
        for file in wanted:
            note_use(file)
        if missing:
            self._fetched_bytes += sum(file.stat().st_size for file in missing if file.exists())
            if self._fetched_bytes > most_bytes() // 20:
                self._fetched_bytes = 0
                make_room(wanted)
        return {
            # Merged in the lake, and removed there since we looked; or somebody has removed it behind our back.
            file: problem if problem != _GONE or file in self._parts else None
            for file, problem in problems.items()
            if problem is not None
        }

    def _fetch(self, file: Path) -> str | None:
        try:
            self._get(file)
        except PartGone:
            return _GONE
        if file not in self._parts:
            return None
        part = self._parts[file]
        try:
            size = file.stat().st_size
            problem = f"it has {size} bytes, not {part.size}" if size != part.size else checksum_problem(file)
        except OSError as fault:
            problem = str(fault)
        if problem is not None:
            make_hollow(file, part.size)
        return problem

    def _get(self, file: Path) -> None:
        make_folder(file.parent)
        path = str(file.relative_to(self.folder))
        if data_folder(self.folder) in file.parents:
            path = f"{table_of(file)}/{file.relative_to(data_folder(self.folder))}"
        self.objects.get_file(path, file, mode=file_mode(file.parent))

    def has(self, file: Path) -> bool:
        """Whether a file is here, and not only named."""
        return not is_hollow(file)

    def has_lost(self) -> bool:
        """Whether something is gone that was fetched last."""
        return any(map(is_hollow, self._fetched_last))

    def filled_tables(self) -> set[str]:
        """The tables that have parts in the lake.

        Raises:
            OutageError, BackendError: the lake cannot be reached.
        """
        self.refresh()
        return {table_of(part) for part in self._parts}

    def row_counts(self, parts: Sequence[Path]) -> dict[str, int]:
        """How many rows of each table some parts have, as the tables say."""
        counts: dict[str, int] = {}
        for part in parts:
            if part in self._parts:
                counts[table_of(part)] = counts.get(table_of(part), 0) + self._parts[part].rows
        return counts

    def fetch_blob(self, name: str) -> bool:
        """Get the content of this hash; whether the lake has it."""
        path = blob_path(self.folder, name)
        make_folder(path.parent)
        try:
            self.objects.get_file(f"blobs/{name[:2]}/{name}", path, mode=file_mode(path.parent))
        except PartGone:
            return False
        return True


def _is_sound(table: str, path: str) -> bool:
    """Whether a path that a table names is that of a part: a log may have been made up."""
    words = path.split("/")
    return (
        len(words) == len(("project", "experiment", "step", "part"))
        and not any(word in ("", ".", "..") for word in words)
        and is_part_name(words[-1])
        and table_of(Path(path)) == table
    )


def open_mirror(folder: Path) -> Mirror:
    """The mirror that a folder is."""
    try:
        return Mirror(folder)
    except (ValueError, KeyError, TypeError) as fault:
        raise ConfigError(f"{folder / LAKE_FILE} is damaged ({fault}); remove the folder, it is only a cache") from None
