"""What one look at a store found, and connections in which it can be asked.

A snapshot never changes: the next look makes another one. A table is opened when a question reads it, `trajectories`
first: it is committed last, so what it lists is in the others. Ops that run are in no table: they come from the live
snapshots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from xxhash import xxh3_64_hexdigest

from rolltrace.pass_rule import Experiment, PassRule, rules_digest
from rolltrace.query.database import TABLES, duckdb
from rolltrace.query.views import MESSAGE_ROWS, make_views, names_in
from rolltrace.tables import (
    TRAJECTORIES,
    DataFile,
    LiveOp,
    LiveSnapshot,
    Place,
    StoreAddress,
    fill_ids,
    find_moving,
    merge_rows,
    read_files,
    read_rows,
)

ScopeKey = int | frozenset[Place] | None
"""One step of all experiments, some places, or all."""
_RECENT_MS = 600_000
"""An op that is in a live snapshot and has ended since is in a file that is not much older than the snapshot."""
_LIVE_TYPES = {
    "trajectory_id": "VARCHAR", "op_id": "BIGINT", "parent_id": "BIGINT", "name": "VARCHAR", "kind": "VARCHAR",
    "start_ns": "BIGINT", "project": "VARCHAR", "experiment": "VARCHAR", "step": "BIGINT", "sample_index": "VARCHAR",
    "sample_number": "BIGINT", "rollout_n": "BIGINT", "validate": "BOOLEAN", "run": "VARCHAR", "worker": "VARCHAR",
}  # fmt: skip


class Snapshot:
    """The files and the running ops that questions see until the next look."""

    def __init__(
        self,
        versions: dict[str, int],
        read_files: Callable[[str], Sequence[DataFile]],
        live: Sequence[LiveSnapshot] = (),
        pass_rules: Mapping[Experiment, PassRule] | None = None,
    ) -> None:
        """`versions`: those of the tables that are open; `read_files` gives the files of a table."""
        self.versions = versions
        self.live = live
        self.pass_rules = pass_rules or {}
        """What pass means, in the experiments for which somebody has chosen."""
        self.cursors: dict[ScopeKey, Cursor] = {}
        self._read_files = read_files
        self._files: dict[str, list[DataFile]] = {}
        self._digests: dict[int | None, str] = {}

    def files(self, table: str, scope: ScopeKey = None) -> list[DataFile]:
        """The files of a table in a scope."""
        if table not in self._files:
            self._files[table] = list(self._read_files(table))
        return [file for file in self._files[table] if covers(scope, file.place)]

    def ops(self, scope: ScopeKey = None) -> list[LiveOp]:
        """The ops that run in a scope."""
        ops = [op for host in self.live for op in host.ops]
        return [op for op in ops if covers(scope, Place(op.project, op.experiment, op.step))]

    def sizes(self) -> Counter[Experiment]:
        """How many bytes the files of each experiment have."""
        sizes: Counter[Experiment] = Counter()
        for table in TABLES:
            for file in self.files(table):
                sizes[file.place.project, file.place.experiment] += file.size_bytes
        return sizes

    def places(self, scope: ScopeKey = None) -> set[Place]:
        """The steps that have trajectories."""
        return {file.place for file in self.files("trajectories", scope)}

    def digest(self, step: int | None) -> str:
        """A text that is another one as soon as an answer about this step, or about all, may be another one."""
        if step not in self._digests:
            parts = [f"{table}/{file.path}" for table in TABLES for file in self.files(table, step)]
            parts += (f"{op.trajectory_id}/{op.op_id}" for op in self.ops(step))
            self._digests[step] = xxh3_64_hexdigest("\n".join(sorted(parts)).encode()) + rules_digest(self.pass_rules)
        return self._digests[step]


def covers(scope: ScopeKey, place: Place) -> bool:
    """Whether a place is meant."""
    return scope is None or (place in scope if isinstance(scope, frozenset) else place.step == scope)


class Cursor:
    """A connection, and the views of one scope that can be made in it, over files that were found sound.

    Rows of trajectories that were begun and then not kept are left out, as compaction leaves them out for good.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        address: StoreAddress,
        snapshot: Snapshot,
        scope: ScopeKey,
        check_files: Callable[[str, Sequence[DataFile]], list[DataFile]],
    ) -> None:
        """`check_files` gives those of some files of a table that are sound."""
        self.connection = connection
        self._address = address
        self._snapshot = snapshot
        self._scope = scope
        self._check_files = check_files
        self._sound: dict[str, list[DataFile]] = {}
        self._views = make_views(self._read, snapshot.places(scope), snapshot.pass_rules)
        self._created: set[str] = set()

    def make_views(self, sql: str | None) -> None:
        """Make the views that a statement names, after those that they read; all of them if it is not given."""
        for name in self._views if sql is None else names_in(sql, self._views):
            self._make(name)

    def _make(self, name: str) -> None:
        if name in self._created:
            return
        view = self._views[name]
        if isinstance(view, str):
            for other in names_in(view, self._views):
                if other != name:
                    self._make(other)
        self.connection.execute(f"CREATE TEMP VIEW {name} AS {view if isinstance(view, str) else view()}")
        self._created.add(name)

    def _read(self, table: str) -> str:
        """SQL, in parentheses, of the rows of a table, one per key."""
        files = self._files("messages" if table == MESSAGE_ROWS else table)
        if table == "trajectories":
            moving = find_moving(files)
            scores = [file for file in self._files("scores") if file.place in moving] if moving else []
            return read_rows(self.connection, self._address, table, files, scores)
        if table == "scores":
            rows = self._read_scores(files)
        elif table == MESSAGE_ROWS:
            rows = self._rows("messages", files)
        else:
            rows = read_rows(self.connection, self._address, table, files)
        if table not in ("losses", "runs", "blobs"):
            rows = self._without_dropped(rows, find_moving(files))
        return self._with_live_ops(rows) if table == "ops" else rows

    def _files(self, table: str) -> list[DataFile]:
        if table not in self._sound:
            self._sound[table] = self._check_files(table, self._snapshot.files(table, self._scope))
        return self._sound[table]

    def _rows(self, table: str, files: Iterable[DataFile]) -> str:
        return read_files(self.connection, self._address, table, list(files))

    def _read_scores(self, files: list[DataFile]) -> str:
        """Those of settled steps have the ids of their trajectories."""
        trajectories = self._files("trajectories")
        places = find_moving(files) | find_moving(trajectories)
        moving = [file for file in files if file.place in places]
        settled = self._rows("scores", (file for file in files if file.place not in places))
        if not moving:
            return settled
        known = merge_rows(
            TRAJECTORIES, self._rows("trajectories", (file for file in trajectories if file.place in places))
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
    def _live_ops(self) -> list[LiveOp]:
        """The ops that run, which are in the table `_live_ops` too."""
        ops = self._snapshot.ops(self._scope)
        if ops:
            columns = ", ".join(f"unnest(?::{kind}[]) AS {name}" for name, kind in _LIVE_TYPES.items())
            values = [[getattr(op, name) for op in ops] for name in _LIVE_TYPES]
            self.connection.execute(f"CREATE TEMP TABLE _live_ops AS SELECT {columns}, 'running' AS status", values)
        return ops

    def _with_live_ops(self, rows: str) -> str:
        if not self._live_ops:
            return rows
        since_ms = min(host.time_ns for host in self._snapshot.live) // 1_000_000 - _RECENT_MS
        recent = self._rows("ops", (file for file in self._files("ops") if file.time_ms >= since_ms))
        return (
            f"(SELECT * FROM {rows} UNION ALL BY NAME SELECT * FROM _live_ops "
            f"ANTI JOIN {recent} ended USING (trajectory_id, op_id))"
        )
