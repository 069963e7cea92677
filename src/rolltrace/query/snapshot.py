"""What one look at a store found: a version of each table, what runs right now, and what pass means.

A snapshot never changes: the next look makes another one. A table is opened when a question reads it, `trajectories`
first: it is committed last, so what it lists is in the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from xxhash import xxh3_64_hexdigest

from rolltrace.pass_rule import Experiment, PassRule, rules_digest
from rolltrace.tables import TABLE_SCHEMAS, DataFile, LiveOp, LiveSnapshot, Place

if TYPE_CHECKING:
    from rolltrace.query.cursors import Cursor

TABLES = tuple(schema.name for schema in reversed(TABLE_SCHEMAS))
"""The names of all tables, `trajectories` first."""
ScopeKey = int | frozenset[Place] | None
"""One step of all experiments, some places, or all."""
ReadFiles = Callable[[str], Sequence[DataFile]]


class Snapshot:
    """The files and the running ops that questions see until the next look."""

    def __init__(
        self,
        versions: dict[str, int],
        read_files: ReadFiles,
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
        is_inside = covers(scope)
        return [file for file in self._files[table] if is_inside(file.place)]

    def ops(self, scope: ScopeKey = None) -> list[LiveOp]:
        """The ops that run in a scope."""
        is_inside = covers(scope)
        return [op for host in self.live for op in host.ops if is_inside(Place(op.project, op.experiment, op.step))]

    def sizes(self) -> Counter[Experiment]:
        """How many bytes the files of each experiment have."""
        sizes: Counter[Experiment] = Counter()
        for table in TABLES:
            for file in self.files(table):
                sizes[file.place.project, file.place.experiment] += file.size_bytes
        return sizes

    def places(self) -> set[Place]:
        """The steps that have trajectories."""
        return {file.place for file in self.files("trajectories")}

    def digest(self, step: int | None) -> str:
        """A text that is another one as soon as an answer about this step, or about all, may be another one."""
        if step not in self._digests:
            parts = [f"{table}/{file.path}" for table in TABLES for file in self.files(table, step)]
            parts += (f"{op.trajectory_id}/{op.op_id}" for op in self.ops(step))
            self._digests[step] = xxh3_64_hexdigest("\n".join(sorted(parts)).encode()) + rules_digest(self.pass_rules)
        return self._digests[step]


def covers(scope: ScopeKey) -> Callable[[Place], bool]:
    """Which places are meant."""
    if scope is None:
        return lambda place: True
    if isinstance(scope, frozenset):
        return scope.__contains__
    return lambda place: place.step == scope
