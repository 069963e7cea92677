"""A folder of Parquet files with the chosen trajectories: a store of its own, that any tool can read."""

from __future__ import annotations

import os
import re
import shutil
from itertools import groupby
from pathlib import Path
from typing import Any

from rolltrace.errors import ConfigError, StoreError
from rolltrace.exchange.selection import Exported, Selection, batches
from rolltrace.query import Row, stored_name
from rolltrace.record import LOSSES, SCORES, TABLES, Table
from rolltrace.store import SCHEMAS, Partition, blob_path, prepare, write_table

_PER_PART = 500
_BLOB = re.compile(r'"\$image":\{"hash":"([0-9a-f]{16,64})"')


def write(selection: Selection, folder: Path) -> Exported:
    """Write the folder; it must be new or empty, and appears when all of it is there."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{str(folder)!r} already exists and is not empty; name a new folder with -o")
    folder.parent.mkdir(parents=True, exist_ok=True)
    hidden = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    try:
        prepare(hidden)
        for partition, rows in groupby(selection.rows, key=_partition):
            _write_partition(selection, hidden, partition, list(rows))
        os.rename(hidden, folder)
    except OSError as fault:
        raise StoreError(f"cannot write {str(folder)!r}: {fault.strerror or fault}") from fault
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return Exported(len(selection.rows))


def _partition(row: Row) -> Partition:
    return Partition(row["project"], row["experiment"], row["step"])


def _write_partition(selection: Selection, folder: Path, partition: Partition, rows: list[Row]) -> None:
    for number, batch in enumerate(batches(rows, _PER_PART)):
        ids = [row["trajectory_id"] for row in batch]
        for table in TABLES:
            if table is not LOSSES:
                # Scores as they are read: a late one gets the id and the step of its trajectory.
                name = SCORES.name if table is SCORES else stored_name(table)
                part_rows = selection.table(name, partition.step, ids).arrow()
                _write(folder, partition, table, f"export-{number}", part_rows)
                _copy_blobs(selection.store.path, folder, part_rows)
    lost = selection.store.sql(
        "SELECT * FROM losses WHERE project = ? AND experiment = ? AND step IS NOT DISTINCT FROM ?", list(partition)
    ).arrow()
    _write(folder, partition, LOSSES, "export-0", lost)


def _write(folder: Path, partition: Partition, table: Table, source: str, rows: Any) -> None:
    if len(rows):
        schema = SCHEMAS[table.name]
        write_table(folder, partition, table, source, rows.select(schema.names).cast(schema))


def _copy_blobs(store: Path, folder: Path, rows: Any) -> None:
    for column in rows.schema.names:
        if column in ("payload", "trace", "fields", "body", "tags"):
            texts = (text for text in rows[column].to_pylist() if text is not None and "$image" in text)
            for name in {name for text in texts for name in _BLOB.findall(text)}:
                source, target = blob_path(store, name), blob_path(folder, name)
                is_link = source.is_symlink() or source.parent.is_symlink()
                if source.is_file() and not is_link and not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, target)
