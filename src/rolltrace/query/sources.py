"""What stands behind the views: the rows of each table in a scope, as SQL over data files that were found sound.

Rows of trajectories that were begun and then not kept are left out, as compaction leaves them out for good. Ops that
run are in no table: they come from the live snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from rolltrace.query.cursors import LIVE_OPS, make_live_ops
from rolltrace.query.database import duckdb
from rolltrace.query.snapshot import ScopeKey, Snapshot
from rolltrace.query.views import MESSAGE_ROWS
from rolltrace.tables import (
    TRAJECTORIES,
    DataFile,
    Place,
    StoreAddress,
    fill_ids,
    find_moving,
    merge_rows,
    read_files,
    read_rows,
)

_RECENT_MS = 600_000
"""An op that is in a live snapshot and has ended since is in a file that is not much older than the snapshot."""

CheckFiles = Callable[[str, Sequence[DataFile]], list[DataFile]]


class Sources:
    """The tables of one snapshot, as far as they are in a scope."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        address: StoreAddress,
        snapshot: Snapshot,
        scope: ScopeKey,
        check_files: CheckFiles,
    ) -> None:
        """`check_files` gives those of some files of a table that are sound."""
        self._connection = connection
        self._address = address
        self._snapshot = snapshot
        self._scope = scope
        self._check_files = check_files
        self._sound: dict[str, list[DataFile]] = {}

    def read(self, table: str) -> str:
        """SQL, in parentheses, of the rows of a table, one per key."""
        if table == "trajectories":
            return self._read_trajectories()
        files = self._files("messages" if table == MESSAGE_ROWS else table)
        if table == "scores":
            rows = self._read_scores(files)
        elif table == MESSAGE_ROWS:
            rows = self._rows("messages", files)
        else:
            rows = read_rows(self._connection, self._address, table, files)
        if table not in ("losses", "runs", "blobs"):
            rows = self._without_dropped(rows, find_moving(files))
        return self._with_live_ops(rows) if table == "ops" else rows

    def _files(self, table: str) -> list[DataFile]:
        if table not in self._sound:
            self._sound[table] = self._check_files(table, self._snapshot.files(table, self._scope))
        return self._sound[table]

    def _rows(self, table: str, files: Sequence[DataFile]) -> str:
        return read_files(self._connection, self._address, table, files)

    def _read_trajectories(self) -> str:
        files = self._files("trajectories")
        moving = find_moving(files)
        scores = [file for file in self._files("scores") if file.place in moving] if moving else []
        return read_rows(self._connection, self._address, "trajectories", files, scores)

    def _read_scores(self, files: list[DataFile]) -> str:
        """Those of settled steps have the ids of their trajectories."""
        trajectories = self._files("trajectories")
        places = find_moving(files) | find_moving(trajectories)
        moving = [file for file in files if file.place in places]
        settled = self._rows("scores", [file for file in files if file.place not in places])
        if not moving:
            return settled
        known = merge_rows(
            TRAJECTORIES, self._rows("trajectories", [file for file in trajectories if file.place in places])
        )
        filled = fill_ids(self._rows("scores", moving), f"SELECT * FROM ({known}) WHERE start_ns IS NOT NULL")
        return f"(SELECT * FROM {settled} UNION ALL BY NAME ({filled}))"

    def _without_dropped(self, rows: str, moving: set[Place]) -> str:
        losses = [file for file in self._files("losses") if file.place in moving or not file.is_settled]
        if not losses:
            return rows
        dropped = f"(SELECT trajectory_id FROM {self._rows('losses', losses)} WHERE trajectory_id IS NOT NULL)"
        return f"(SELECT * FROM {rows} ANTI JOIN {dropped} USING (trajectory_id))"

    @cached_property
    def _has_live_ops(self) -> bool:
        ops = self._snapshot.ops(self._scope)
        if ops:
            make_live_ops(self._connection, ops)
        return bool(ops)

    def _with_live_ops(self, rows: str) -> str:
        if not self._has_live_ops:
            return rows
        since_ms = min(host.time_ns for host in self._snapshot.live) // 1_000_000 - _RECENT_MS
        recent = [file for file in self._files("ops") if file.time_ms >= since_ms]
        return (
            f"(SELECT * FROM {rows} UNION ALL BY NAME SELECT * FROM {LIVE_OPS} "
            f"ANTI JOIN {self._rows('ops', recent)} ended USING (trajectory_id, op_id))"
        )
