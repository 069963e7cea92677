"""rolltrace, with its drainer beside it as by default."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any

import rolltrace
from benchmarks.peers.peer import PROJECT, STEP, Coordinates, Peer
from benchmarks.tracers import Decorator
from rolltrace.journal import journal_files, undrained_bytes
from rolltrace.query import Store
from rolltrace.record import OpKind


class OurStore(Peer):
    """The embedded store."""

    @cached_property
    def _store(self) -> Store:
        return rolltrace.open(self.folder)

    @contextmanager
    def running(self) -> Iterator[None]:
        rolltrace.init(PROJECT, "peers", store=self.folder, run="peers")
        try:
            yield
        finally:
            rolltrace.shutdown()
            rolltrace.RolloutTraceConfig.reset()

    def wait_until_stored(self) -> None:
        """Nothing is lost without this wait: it is until all of it is compressed."""
        while any(map(undrained_bytes, journal_files(self.folder))):
            time.sleep(0.01)

    def trajectory(self, *, sample_index: int, rollout_n: int) -> AbstractContextManager[Any]:
        return rolltrace.rollout_trace_attr(sample_index=sample_index, step=STEP, rollout_n=rollout_n, validate=False)

    def op(self, *, name: str, kind: OpKind) -> Decorator:
        return rolltrace.rollout_trace_op(name=name, kind=kind)

    def span(self, name: str, kind: OpKind, inputs: dict[str, Any]) -> Any:
        raise NotImplementedError("rolltrace has a decorator of its own")

    def complete_ops(self) -> Counter[Coordinates]:
        ops_of: Counter[Coordinates] = Counter()
        for row in self._store.trajectories().rows():
            trajectory = self._store.trajectory(row["trajectory_id"])
            ops_of[row["sample_index"], row["rollout_n"]] = sum(op.outputs is not None for op in trajectory.walk())
        return ops_of

    def list_step(self) -> int:
        return len(self._store.trajectories(step=STEP).rows())

    def open_one(self) -> int:
        (row,) = self._store.trajectories(step=STEP, sample_index=0, rollout_n=0).rows()
        return sum(op.outputs is not None for op in self._store.trajectory(row["trajectory_id"]).walk())
