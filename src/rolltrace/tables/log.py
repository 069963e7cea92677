"""The files of a table in a folder, read from its Delta log without deltalake.

A listing is answered sooner than deltalake is loaded, and a process that was forked cannot use it at all: its runtime
has threads that are not there. So readers of a folder read the log themselves: JSON, and one Parquet file with what
came before. What they cannot make out is left to deltalake.

The newest entry may be torn by a power cut. It is passed over: whoever writes next removes it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec

from rolltrace._address import StoreAddress
from rolltrace.files import read_page
from rolltrace.tables.columns import Place
from rolltrace.tables.table import LOG, DataFile, Table

_CHECKPOINT = """
SELECT add.path, add.size, add.modificationTime, add.stats, add.partitionValues['project'],
    add.partitionValues['experiment'], add.partitionValues['step'], protocol.readerFeatures
FROM read_parquet(?, hive_partitioning=false) WHERE add IS NOT NULL OR protocol IS NOT NULL
"""

Fetch = Callable[[str, list[Any]], list[tuple[Any, ...]]]
"""Gives the rows of a DuckDB statement."""


class TableVersion(Protocol):
    """A table that can be looked at again and again."""

    @property
    def version(self) -> int: ...
    def refresh(self) -> bool: ...
    def files(self) -> list[DataFile]: ...


_decode = msgspec.json.Decoder().decode


def open_version(address: StoreAddress, name: str, fetch: Fetch) -> TableVersion:
    """A table for a reader, not looked at yet."""
    return Table(address, name) if address.folder is None else TableLog(address, name, fetch)


class TableLog:
    """One table in a folder, as it was when it was last looked at."""

    def __init__(self, address: StoreAddress, name: str, fetch: Fetch) -> None:
        assert address.folder is not None
        self._address = address
        self._name = name
        self._log = address.folder / name / LOG
        self._fetch = fetch
        self._files: dict[str, DataFile] = {}
        self._version = -1
        self._table: Table | None = None
        """deltalake's, once it is needed."""

    @property
    def version(self) -> int:
        """-1 if there is no such table yet."""
        return self._version if self._table is None else self._table.version

    def files(self) -> list[DataFile]:
        """The files of the version that was last looked at."""
        return list(self._files.values()) if self._table is None else self._table.files()

    def refresh(self) -> bool:
        """Look at it as it is now; whether it exists."""
        if self._table is None:
            try:
                self._read_on()
                return self._version >= 0
            except Exception:  # unusual or damaged: deltalake reads it, or says why not
                self._table = Table(self._address, self._name)
        return self._table.refresh()

    def _entry(self, version: int) -> Path:
        return self._log / f"{version:020}.json"

    def _read_on(self) -> None:
        if self._version < 0 or not self._entry(self._version + 1).exists():
            self._load_checkpoint()
        while self._entry(self._version + 1).exists():
            try:
                lines = read_page(self._entry(self._version + 1)).splitlines()
                actions = [_decode(line) for line in lines if line.strip()]
                if not actions:
                    raise ValueError("an empty entry")
            except ValueError:
                if self._entry(self._version + 2).exists():
                    raise
                break  # torn, and the newest
            self._apply(actions)
            self._version += 1
        if self._version < 0 and any(self._log.glob("*.json")):
            raise ValueError("its beginning is gone, and no checkpoint is named")

    def _load_checkpoint(self) -> None:
        """Begin with the newest checkpoint, if it is newer than what is known."""
        try:
            version = int(_decode(read_page(self._log / "_last_checkpoint"))["version"])
        except FileNotFoundError:
            return
        if version <= self._version:
            return
        path = self._log / f"{version:020}.checkpoint.parquet"
        if path.is_symlink():
            raise ValueError("a link")
        rows = self._fetch(_CHECKPOINT, [str(path)])
        for *_, features in rows:
            _check_features(features)
        files = [_data_file(*row[:-1]) for row in rows if row[0] is not None]
        self._files, self._version = {file.path: file for file in files}, version

    def _apply(self, actions: list[dict[str, Any]]) -> None:
        # Removes first: a commit that rewrites a file under its own name adds it again.
        for action in actions:
            _check_features(action.get("protocol", {}).get("readerFeatures"))
            if "remove" in action:
                self._files.pop(unquote(action["remove"]["path"]), None)
        for action in actions:
            if (add := action.get("add")) is not None:
                place = (add["partitionValues"].get(name) for name in Place._fields)
                file = _data_file(add["path"], add["size"], add["modificationTime"], add.get("stats"), *place)
                self._files[file.path] = file


def _check_features(features: list[str] | None) -> None:
    """Nothing that changes how files are read, such as deletion vectors."""
    if not {"timestampNtz"}.issuperset(features or ()):
        raise ValueError(f"it uses {features}")


def _data_file(path: str, size: int, time_ms: int, stats: str | None, *place: str | None) -> DataFile:
    project, experiment, step = place
    rows = _decode(stats or "{}").get("numRecords", 0)
    place_ = Place(project or "unknown", experiment or "unknown", None if step is None else int(step))
    return DataFile(unquote(path), size, rows, place_, time_ms)
