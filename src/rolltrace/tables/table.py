"""One Delta table of a store: which files it has, and commits that add and remove files at once.

A data file has rows of one `Place` only, and its name says what it is:

    TABLE/data/SLUG/step-120/batch-COLUMNS-ID-HASH.parquet      rows of a batch: perhaps partial ones
    TABLE/data/SLUG/step-120/settled-COLUMNS-ID-HASH.parquet    one row per key, as compaction wrote it

ID is random, so that a name has one content for ever; HASH is that of the content, and COLUMNS how many there are. A
commit may carry application transactions, `(journal, end offset)`: two that carry the same one conflict, and only one
of them counts. That, and that a file of the log can be created only once, is all there is of locking.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from rolltrace._address import StoreAddress
from rolltrace._arrow import pa
from rolltrace.errors import FormatError, OutageError
from rolltrace.files import file_mode, make_folder, sync_path
from rolltrace.tables.columns import PARTITION_COLUMNS, Place, arrow_schema
from rolltrace.tables.storage import describe_error, translate_errors

LOG = "_delta_log"
_CHECKPOINT_INTERVAL = 50
_CONFIGURATION: Mapping[str, str | None] = {
    "delta.checkpointInterval": str(_CHECKPOINT_INTERVAL),
    # A position per journal that was ever written would be too many in the end.
    "delta.setTransactionRetentionDuration": "interval 90 days",
    "delta.logRetentionDuration": "interval 2 days",
    # Each batch file is removed once; a week of these would be most of a checkpoint.
    "delta.deletedFileRetentionDuration": "interval 2 hours",
}
_MAX_COMMIT_RETRIES = 60
_NAME = re.compile(r"(?:^|/)(?:batch|settled)-([0-9]{1,4})-[0-9a-f]{32}-([0-9a-f]{16})\.parquet$", re.ASCII)

FileKind = Literal["batch", "settled"]


class ConflictError(OutageError):
    """Somebody else has changed what a commit was about; look again."""


class DataFile(NamedTuple):
    """A data file that is in a table, or is to be."""

    path: str
    """From the folder of the table."""
    size_bytes: int
    rows: int
    place: Place
    time_ms: int = 0
    """When it was added."""

    @property
    def is_settled(self) -> bool:
        """Whether it was written by compaction."""
        return self.path.rpartition("/")[2].startswith("settled-")

    @property
    def columns(self) -> int | None:
        """How many columns it has: files with as many have the same, because columns are only ever added."""
        match = _NAME.search(self.path)
        return None if match is None else int(match[1])

    @property
    def hash(self) -> str | None:
        """The hash of its content; None if another tool has written it."""
        match = _NAME.search(self.path)
        return None if match is None else match[2]

    @property
    def is_inside(self) -> bool:
        """Whether its path is one below the folder of the table."""
        parts = self.path.split("/")
        return "://" not in self.path and ".." not in parts and bool(parts[0]) and "\0" not in self.path

    @property
    def partition_values(self) -> dict[str, str | None]:
        return {name: None if value is None else str(value) for name, value in zip(PARTITION_COLUMNS, self.place)}


class Table:
    """One table, as it was when it was last looked at."""

    def __init__(self, address: StoreAddress, name: str) -> None:
        self.name = name
        self.address = address
        self._delta: Any = None
        self._files: tuple[int, list[DataFile]] | None = None

    @property
    def version(self) -> int:
        """-1 if there is no such table yet."""
        return -1 if self._delta is None else int(self._delta.version())

    def refresh(self) -> bool:
        """Look at it as it is now; whether it exists."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        folder = self.address.folder
        with translate_errors(self.address, f"reading the log of {self.name}"):
            try:
                if self._delta is not None:
                    self._delta.update_incremental()
                elif folder is not None and not (folder / self.name / LOG).is_dir():
                    return False
                else:
                    self._delta = DeltaTable(self.address.table(self.name), storage_options=self.address.options())
            except TableNotFoundError:
                return False
        self._check_protocol()
        return True

    def create(self) -> None:
        """Make sure that the table exists and has every column."""
        from deltalake import DeltaTable

        if not self.refresh():
            if self.address.folder is not None:
                make_folder(self.address.folder / self.name / LOG, durable=True)
            with translate_errors(self.address, f"creating the table {self.name}"):
                self._delta = DeltaTable.create(
                    self.address.table(self.name),
                    arrow_schema(self.name).remove_metadata(),
                    mode="ignore",
                    partition_by=list(PARTITION_COLUMNS),
                    name=self.name,
                    configuration=_CONFIGURATION,
                    storage_options=self.address.options(),
                )
            self._sync(-1)
        self._add_new_columns()

    def files(self) -> list[DataFile]:
        """The files of the version that was last looked at."""
        if self._delta is None:
            return []
        if self._files is None or self._files[0] != self.version:
            with translate_errors(self.address, f"reading the log of {self.name}"):
                self._files = (self.version, list(_read_files(self._delta, self.address, self.name)))
        return self._files[1]

    def position(self, journal: str) -> int:
        """How far a journal was committed, in the version that was last looked at; -1 if it never was."""
        if self._delta is None:
            return -1
        with translate_errors(self.address, f"reading the log of {self.name}"):
            version = self._delta.transaction_version(journal)
        return -1 if version is None else int(version)

    def commit(
        self,
        adds: Collection[DataFile],
        removes: Collection[DataFile] = (),
        positions: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Add files, whose bytes are there, and remove others, in one; then look at the table as it is.

        Raises:
            ConflictError: one of the files to remove was removed, or one of the journals committed, since the table
                was last looked at. Nothing of this happened.
        """
        from deltalake import CommitProperties, PostCommitHookProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction, RemoveAction

        before, now_ms = self.version, time.time_ns() // 1_000_000
        actions: list[Any] = [
            AddAction(
                file.path, file.size_bytes, file.partition_values, now_ms, True, json.dumps({"numRecords": file.rows})
            )
            for file in adds
        ]
        actions += [RemoveAction(file.path, True, now_ms, file.size_bytes, file.partition_values) for file in removes]
        transactions = [Transaction(journal, offset, now_ms) for journal, offset in positions.items()]
        properties = CommitProperties(max_commit_retries=_MAX_COMMIT_RETRIES, app_transactions=transactions)
        with translate_errors(self.address, f"committing to {self.name}"):
            for attempt in range(_MAX_COMMIT_RETRIES):
                try:
                    self._delta.create_write_transaction(
                        actions, "append", self._delta.schema(), list(PARTITION_COLUMNS),
                        commit_properties=properties,
                        post_commithook_properties=PostCommitHookProperties(cleanup_expired_logs=False),
                    )  # fmt: skip
                    break
                except CommitFailedError as error:
                    if not self._look_again(removes, positions) or attempt + 1 == _MAX_COMMIT_RETRIES:
                        raise ConflictError(f"{self.address.table(self.name)!r}: {describe_error(error)}") from error
            self._delta.update_incremental()
        self._sync(before)

    def _look_again(self, removes: Collection[DataFile], positions: Mapping[str, int]) -> bool:
        """Look at the table after a commit has failed; whether what the commit was about is as it was before.

        For deltalake a batch that only adds files has read the whole table, and conflicts with a compaction of any
        step.
        """
        before = {journal: self.position(journal) for journal in positions}
        self._delta.update_incremental()
        if any(self.position(journal) != position for journal, position in before.items()):
            return False
        return not removes or {file.path for file in removes} <= {file.path for file in self.files()}

    def vacuum(self, hours: float) -> list[str]:
        """Remove the files that no version of the last hours uses; their paths."""
        with translate_errors(self.address, f"removing old files of {self.name}"):
            removed = self._delta.vacuum(int(hours), dry_run=False, enforce_retention_duration=False, full=True)
            self._delta.cleanup_metadata()
        return list(removed)

    def removed_paths(self) -> list[str]:
        """The files that were removed from the table and are perhaps still there."""
        with translate_errors(self.address, f"reading the log of {self.name}"):
            return list(self._delta.vacuum(0, dry_run=True, enforce_retention_duration=False, full=False))

    def _sync(self, before: int) -> None:
        """Wait until the newest entry of the log is on the disk, and see that it is as private as the store: deltalake
        does neither."""
        folder = self.address.folder
        if folder is not None:
            log = folder / self.name / LOG
            mode = file_mode(log)
            for version in range(before + 1, self.version + 1):
                _set_mode(log / f"{version:020}.json", mode)
                if version % _CHECKPOINT_INTERVAL == 0:
                    _set_mode(log / f"{version:020}.checkpoint.parquet", mode)
                    _set_mode(log / "_last_checkpoint", mode)
            sync_path(log / f"{self.version:020}.json")
            sync_path(log)

    def _check_protocol(self) -> None:
        if "deletionVectors" in (self._delta.protocol().reader_features or ()):
            raise FormatError(
                f"the table {self.address.table(self.name)!r} uses deletion vectors, which rolltrace does not read; "
                "turn them off in the engine that changed it"
            )

    def _add_new_columns(self) -> None:
        """Add the columns that came with a newer version of rolltrace."""
        from deltalake import Schema

        existing = {field.name for field in self._delta.schema().fields}
        schema = arrow_schema(self.name).remove_metadata()
        missing = [field for field in schema if field.name not in existing]
        if missing:
            with translate_errors(self.address, f"adding columns to {self.name}"):
                self._delta.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)


def _set_mode(path: Path, mode: int) -> None:
    with suppress(OSError):  # another user's, who does the same, or removed
        if path.stat().st_mode & 0o777 != mode:
            path.chmod(mode)


def _read_files(delta: Any, address: StoreAddress, name: str) -> Iterable[DataFile]:
    rows = delta.get_add_actions(flatten=True)  # not through pyarrow, which a listing need not load
    if not rows.num_rows:
        return
    parts = [f"partition.{part}" for part in PARTITION_COLUMNS]
    columns = ["path", "size_bytes", "num_records", "modification_time", *parts]
    missing = [column for column in columns if column not in rows.column_names]
    if missing:
        raise FormatError(f"{address.table(name)!r} is not a table of rolltrace: it has no {missing[0]!r}")
    for path, size, count, time_ms, *place in zip(*(rows.column(column).to_pylist() for column in columns)):
        yield DataFile(unquote(path), size, count or 0, Place(*place), time_ms)
