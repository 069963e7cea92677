"""The files of a table in a folder, read from its Delta log without deltalake.

A listing is answered sooner than deltalake is loaded, and a process that was forked cannot use it at all: its runtime
has threads that are not there. So readers of a folder read the log themselves, which is JSON, and one Parquet file
with what came before. What is unusual in it is left to deltalake.

The newest entry may be torn by a power cut. It is passed over: whoever writes next removes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import unquote

import msgspec

from rolltrace._address import StoreAddress
from rolltrace.errors import FormatError
from rolltrace.files import read_page
from rolltrace.tables.schema import Place
from rolltrace.tables.table import LOG, DataFile, Table

_LAST_CHECKPOINT = "_last_checkpoint"
_KNOWN_FEATURES = frozenset({"timestampNtz"})
_CHECKPOINT = """
SELECT add.path, add.size, add.modificationTime, add.stats,
    add.partitionValues['project'], add.partitionValues['experiment'], add.partitionValues['step']
FROM read_parquet(?, hive_partitioning=false) WHERE add IS NOT NULL
"""
_FEATURES = """
SELECT protocol.readerFeatures FROM read_parquet(?, hive_partitioning=false) WHERE protocol IS NOT NULL
"""
_STEP = re.compile(r"-?[0-9]{1,19}", re.ASCII)

Fetch = Callable[[str, list[Any]], list[tuple[Any, ...]]]
"""Gives the rows of a DuckDB statement."""


class TableVersion(Protocol):
    """A table that can be looked at again and again."""

    @property
    def version(self) -> int: ...
    def refresh(self) -> bool: ...
    def files(self) -> list[DataFile]: ...


class _Add(msgspec.Struct, rename="camel"):
    path: str
    size: int = 0
    modification_time: int = 0
    partition_values: dict[str, str | None] = {}
    stats: str | None = None
    deletion_vector: Any = None


class _Remove(msgspec.Struct):
    path: str


class _ReaderProtocol(msgspec.Struct, rename="camel"):
    reader_features: list[str] | None = None


class _Action(msgspec.Struct):
    add: _Add | None = None
    remove: _Remove | None = None
    protocol: _ReaderProtocol | None = None


class _Stats(msgspec.Struct, rename="camel"):
    num_records: int = 0


class _LastCheckpoint(msgspec.Struct):
    version: int
    parts: int | None = None


class _UnusualError(Exception):
    """Something that only deltalake understands."""


_decode_action = msgspec.json.Decoder(_Action).decode
_decode_stats = msgspec.json.Decoder(_Stats).decode


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
        self._checkpoint: bytes | None = None
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
            except _UnusualError:
                self._table = Table(self._address, self._name)
        return self._table.refresh()

    def _read_on(self) -> None:
        checkpoint = self._read_last_checkpoint()
        if checkpoint is not None and checkpoint.version > self._version:
            next_entry = self._log / f"{self._version + 1:020}.json"
            if self._version < 0 or not next_entry.exists():
                self._load_checkpoint(checkpoint)
        while True:
            try:
                page = read_page(self._log / f"{self._version + 1:020}.json")
            except FileNotFoundError:
                break
            except OSError as error:
                raise _UnusualError from error
            if not self._apply(page):
                if (self._log / f"{self._version + 2:020}.json").exists():
                    raise _UnusualError  # torn, and not the newest
                break
            self._version += 1
        if self._version < 0 and self._log.is_dir() and any(self._log.glob("*.json")):
            raise _UnusualError  # its beginning is gone, and no checkpoint is named

    def _read_last_checkpoint(self) -> _LastCheckpoint | None:
        """The newest checkpoint, if it is another one than before."""
        try:
            page = read_page(self._log / _LAST_CHECKPOINT)
        except OSError:
            return None
        if page == self._checkpoint:
            return None
        self._checkpoint = page
        try:
            return msgspec.json.decode(page, type=_LastCheckpoint)
        except msgspec.MsgspecError as error:
            raise _UnusualError from error

    def _load_checkpoint(self, checkpoint: _LastCheckpoint) -> None:
        path = self._log / f"{checkpoint.version:020}.checkpoint.parquet"
        if checkpoint.parts is not None or not path.is_file() or path.is_symlink():
            raise _UnusualError
        try:
            for (features,) in self._fetch(_FEATURES, [str(path)]):
                self._check_features(features)
            rows = self._fetch(_CHECKPOINT, [str(path)])
        except (FormatError, _UnusualError):
            raise
        except Exception as error:  # it cannot be read; deltalake says why
            raise _UnusualError from error
        files = (
            _data_file(path, size, time_ms, stats, project, experiment, step)
            for path, size, time_ms, stats, project, experiment, step in rows
        )
        self._files = {file.path: file for file in files}
        self._version = checkpoint.version

    def _apply(self, page: bytes) -> bool:
        """Take over what an entry of the log says; False if it is torn."""
        try:
            actions = [_decode_action(line) for line in page.splitlines() if line.strip()]
        except msgspec.MsgspecError:
            return False
        if not actions:
            return False
        # Removes first: a commit that rewrites a file under its own name adds it again.
        for action in actions:
            if action.protocol is not None:
                self._check_features(action.protocol.reader_features)
            if action.remove is not None:
                self._files.pop(unquote(action.remove.path), None)
        for action in actions:
            if (add := action.add) is not None:
                if add.deletion_vector is not None:
                    raise _UnusualError
                place = (add.partition_values.get(name) for name in Place._fields)
                file = _data_file(add.path, add.size, add.modification_time, add.stats, *place)
                self._files[file.path] = file
        return True

    def _check_features(self, features: list[str] | None) -> None:
        if not _KNOWN_FEATURES.issuperset(features or ()):
            raise _UnusualError


def _data_file(
    path: str, size: int, time_ms: int, stats: str | None,
    project: str | None = None, experiment: str | None = None, step: str | None = None,
) -> DataFile:  # fmt: skip
    try:
        rows = _decode_stats(stats or "{}").num_records
    except msgspec.MsgspecError:
        rows = 0
    number = int(step) if step is not None and _STEP.fullmatch(step) else None
    return DataFile(unquote(path), size, rows, Place(project or "unknown", experiment or "unknown", number), time_ms)
