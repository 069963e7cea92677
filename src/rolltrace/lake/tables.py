"""The Delta tables of a lake, one for each table of a store, and how parts get into them exactly once.

    LAKE/TABLE/_delta_log/...                                           the table's own log
    LAKE/TABLE/project=P/experiment=E/step=S/TABLE--SOURCE~SUM.parquet  parts, byte for byte as in the store

The name of a part ends in its checksum, so that one name has one content for ever. A commit adds parts and may take out
those that they stand for, all at once. It carries a transaction id of the table for each part that it adds, which is
the part's place: whoever is not sure whether a commit went through asks the table, and two that add the same part at
the same time get into conflict, of which one wins. A second id, without the checksum, is for hosts that share a store:
it is carried by whoever brings the rows of a part in, as that part or in one that stands for it, so that two who bring
the same rows in different parts get into conflict too. So there is no lock but the table's own, which is that a file of
the log is put only if there is none of its number.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from rolltrace._arrow import pa, pq
from rolltrace.errors import FormatError, OutageError
from rolltrace.lake.address import LakeAddress, check_installed
from rolltrace.lake.faults import plain_text, translating
from rolltrace.lake.objects import Objects
from rolltrace.record import TABLES
from rolltrace.store import SCHEMAS, Partition

TABLE_NAMES = tuple(sorted((table.name for table in TABLES), key=lambda name: name == "trajectories"))
"""In the order in which they are committed: a trajectory is listed when its ops are there."""
PARTITIONED_BY = list(Partition._fields)
_CONFIGURATION: Mapping[str, str | None] = {
    "delta.checkpointInterval": "50",
    # One id for each part that was ever added would be too many in the end. Whoever ships remembers too, for longer.
    "delta.setTransactionRetentionDuration": "interval 30 days",
}
_COMMIT_RETRIES = 60
_ROWS_OF = "rows-of:"
_LOG = "_delta_log"
_COMMIT = re.compile(r"(?:.*/)?(\d{20})\.json")
_CHECKPOINT = re.compile(r"(?:.*/)?(\d{20})\.checkpoint(?:\..*)?\.parquet")


class Conflict(OutageError):
    """Somebody else has changed what a commit was about; look again."""


class LakePart(NamedTuple):
    """A part that is in a table, or is to be."""

    path: str
    """From the folder of the table: `project=P/experiment=E/step=S/TABLE--SOURCE~SUM.parquet`."""
    size: int
    rows: int
    partition: Partition
    time_ms: int = 0
    """When it was added."""

    @property
    def values(self) -> dict[str, str | None]:
        return {
            name: None if value is None else str(value)
            for name, value in zip(Partition._fields, self.partition, strict=True)
        }


class Added(NamedTuple):
    """What was ever added to a table, as far as it remembers."""

    paths: set[str]
    """Of parts that were added, also those that have been replaced since."""
    names: set[str]
    """Of parts whose rows were brought in: paths without a checksum."""


class LakeTable:
    """One table of a lake, as it was when it was last looked at."""

    def __init__(self, address: LakeAddress, name: str) -> None:
        check_installed()
        self.name = name
        self._address = address
        self._table: Any = None
        self._active: tuple[int, dict[str, LakePart]] | None = None
        self._added: tuple[int, Added] = (-1, Added(set(), set()))

    @property
    def version(self) -> int:
        """-1 if there is no such table yet."""
        return -1 if self._table is None else int(self._table.version())

    def refresh(self) -> bool:
        """Look at it as it is now; whether it is there."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        with translating(self._address, f"reading the log of {self.name}"):
            try:
                if self._table is None:
                    if self._address.folder is not None and not (self._address.folder / self.name / _LOG).is_dir():
                        return False
                    self._table = DeltaTable(self._address.table(self.name), storage_options=self._address.options())
                else:
                    self._table.update_incremental()
            except TableNotFoundError:
                return False
        self._check_protocol()
        return True

    def make(self) -> None:
        """See to it that the table is there and has every column."""
        from deltalake import DeltaTable

        if not self.refresh():
            if self._address.folder is not None:
                (self._address.folder / self.name).mkdir(parents=True, exist_ok=True)
            with translating(self._address, f"making the table {self.name}"):
                self._table = DeltaTable.create(
                    self._address.table(self.name),
                    _plain_schema(self.name),
                    mode="ignore",
                    partition_by=PARTITIONED_BY,
                    name=self.name,
                    configuration=_CONFIGURATION,
                    storage_options=self._address.options(),
                )
        self._add_new_columns()

    def active(self) -> dict[str, LakePart]:
        """The parts that are in it, by path."""
        if self._table is None:
            return {}
        if self._active is None or self._active[0] != self.version:
            with translating(self._address, f"reading the log of {self.name}"):
                # Not `pa.table(...)`, which loads pandas, if there is one, to see whether it is given a frame of it.
                rows = pa.RecordBatchReader.from_stream(self._table.get_add_actions(flatten=True)).read_all()
            names = [
                "path",
                "size_bytes",
                "num_records",
                "modification_time",
                *(f"partition.{name}" for name in PARTITIONED_BY),
            ]
            missing = [name for name in names if name not in rows.column_names]
            if missing and len(rows):
                raise FormatError(f"the table {self._address.table(self.name)!r} is none of ours: no {missing[0]!r}")
            columns = [rows[name].to_pylist() for name in names] if len(rows) else []
            parts = (
                LakePart(unquote(path), size, count or 0, Partition(*place), time_ms)
                for path, size, count, time_ms, *place in zip(*columns)
            )
            self._active = (self.version, {part.path: part for part in parts})
        return self._active[1]

    def commit(
        self, adds: Collection[LakePart], removes: Collection[LakePart] = (), names: Collection[str] = ()
    ) -> None:
        """Add parts, whose files are there, and take others out, in one.

        Args:
            adds: What is added.
            removes: What is taken out; in the table as it was last looked at.
            names: Of the parts whose rows come in by this.

        Raises:
            Conflict: some of it was added or taken out since the table was last looked at; nothing of this happened, or
                all of it before.
        """
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction, RemoveAction

        now_ms = time.time_ns() // 1_000_000
        actions: list[Any] = [
            AddAction(part.path, part.size, part.values, now_ms, True, json.dumps({"numRecords": part.rows}))
            for part in adds
        ]
        actions += [RemoveAction(part.path, True, now_ms, part.size, part.values) for part in removes]
        ids = [*(part.path for part in adds), *(f"{_ROWS_OF}{name}" for name in names)]
        transactions = [Transaction(each, 1, now_ms) for each in ids]
        properties = CommitProperties(max_commit_retries=_COMMIT_RETRIES, app_transactions=transactions)
        with translating(self._address, f"committing to {self.name}"):
            try:
                self._table.create_write_transaction(
                    actions, "append", self._table.schema(), PARTITIONED_BY, commit_properties=properties
                )
            except CommitFailedError as fault:
                raise Conflict(f"a commit to {self._address.table(self.name)!r} failed: {plain_text(fault)}") from fault

    def added(self) -> Added:
        """What was ever added up to the version that was last looked at, so that whatever came later is a conflict.

        deltalake tells of one id at a time, and reads the whole log each time.
        """
        since, added = self._added
        if since == self.version:
            return added
        objects = Objects(self._address, self.name)
        versions: dict[int, str] = {}
        checkpoints: dict[int, list[str]] = {}
        for path in objects.list(_LOG):
            if commit := _COMMIT.fullmatch(path):
                versions[int(commit[1])] = path
            elif checkpoint := _CHECKPOINT.fullmatch(path):
                checkpoints.setdefault(int(checkpoint[1]), []).append(path)
        ids: set[str] = set()
        newest = max((version for version in checkpoints if since < version <= self.version), default=since)
        for path in checkpoints.get(newest, ()) if newest > since else ():
            transactions = pq.read_table(pa.BufferReader(objects.get(path)), columns=["txn"])["txn"].combine_chunks()
            ids.update(each for each in pa.compute.struct_field(transactions, "appId").to_pylist() if each is not None)
        for version, path in versions.items():
            if newest < version <= self.version:
                for line in objects.get(path).splitlines():
                    if b'"txn"' in line and "txn" in (action := json.loads(line)):
                        ids.add(action["txn"]["appId"])
        names = {each for each in ids if each.startswith(_ROWS_OF)}
        added = Added(added.paths | (ids - names), added.names | {each.removeprefix(_ROWS_OF) for each in names})
        self._added = (self.version, added)
        return added

    def vacuum(self, hours: float, *, dry_run: bool) -> list[str]:
        """Remove the files that no version of the last hours has; their paths."""
        if not self.refresh():
            return []
        with translating(self._address, f"removing old files of {self.name}"):
            return list(
                self._table.vacuum(
                    retention_hours=int(hours), dry_run=dry_run, enforce_retention_duration=False, full=True
                )
            )

    def checkpoint(self) -> None:
        """Write what the table has into one file, so that readers need not read the whole log."""
        with translating(self._address, f"writing a checkpoint of {self.name}"):
            self._table.create_checkpoint()

    def _check_protocol(self) -> None:
        protocol = self._table.protocol()
        if "deletionVectors" in (protocol.reader_features or ()):
            raise FormatError(
                f"the table {self._address.table(self.name)!r} uses deletion vectors, which rolltrace does not read; "
                "turn them off in the engine that changed it"
            )

    def _add_new_columns(self) -> None:
        """Columns that came with a newer version of rolltrace."""
        column_names = {field.name for field in self._table.schema().fields}
        wanted = _plain_schema(self.name)
        missing = [name for name in wanted.names if name not in column_names]
        if missing:
            from deltalake import Schema

            fields = Schema.from_arrow(pa.schema([wanted.field(name) for name in missing])).fields
            with translating(self._address, f"adding columns to {self.name}"):
                self._table.alter.add_columns(fields)


def _plain_schema(name: str) -> pa.Schema:
    return SCHEMAS[name].remove_metadata()
