"""The real recorder for tests: into memory, with a clock and ids that can be foretold, or into a store of its own."""

from __future__ import annotations

import builtins
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace.capture import Recorder, follow_threads, scope
from rolltrace.journal import JournalWriter, Losses
from rolltrace.record import (
    Coordinates,
    Error,
    Event,
    OpEnd,
    Record,
    TrajectoryEnd,
    decode_coordinates,
    decode_record,
    decode_value,
)
from rolltrace.settings import Settings

if TYPE_CHECKING:
    from rolltrace.query import Store, Trajectory


class MemorySink:
    """A sink that keeps the encoded records in a list."""

    def __init__(self) -> None:
        self.start_over_in_child()

    def append(self, body: builtins.bytes, step: int | None = None) -> bool:
        self.bodies.append(body)
        self.records += 1
        self.bytes += len(body)
        return True

    def lose(self, reason: str, step: int | None, count: int = 1) -> None:
        steps = self.losses.setdefault(reason, {})
        label = "" if step is None else str(step)
        steps[label] = steps.get(label, 0) + count

    def sync(self) -> bool:
        """There is no disk to wait for."""
        return True

    def turn_over(self, older_than_sec: float = 0.0) -> int:
        return 0

    def close(self) -> None:
        """There is nothing to close."""

    def start_over_in_child(self) -> None:
        self.bodies: list[builtins.bytes] = []
        self.records = 0
        self.bytes = 0
        self.losses: Losses = {}


class FakeClock:
    """A clock that goes forward only by itself, `step_ns` each time it is read, or by `advance`."""

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000, step_ns: int = 1_000) -> None:
        self.now_ns = start_ns
        self.step_ns = step_ns

    def __call__(self) -> int:
        self.now_ns += self.step_ns
        return self.now_ns

    def advance(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


class counting_ids:
    """Bytes that count 1, 2, 3... where the recorder would take random ones."""

    def __init__(self) -> None:
        self._next = itertools.count(1).__next__

    def __call__(self, size: int) -> bytes:
        return self._next().to_bytes(size, "big")


@dataclass(frozen=True)
class TracedOp:
    """One op that has ended."""

    name: str
    kind: str
    inputs: Any
    outputs: Any
    status: str
    error: Error | None
    start_ns: int
    end_ns: int
    op_id: int
    parent_id: int
    trajectory_id: str
    coordinates: Coordinates
    thread: str


@dataclass(frozen=True)
class TracedTrajectory:
    """One trajectory that has ended."""

    name: str
    id: str
    coordinates: Coordinates
    status: str
    error: Error | None
    start_ns: int
    end_ns: int
    parent_id: str
    """The trajectory it was begun in; empty if there is none."""
    parent_op_id: int
    tags: dict[str, Any]


@dataclass(frozen=True)
class Said:
    """A tag, reward, transition or note."""

    event: str
    body: Any
    trajectory_id: str
    op_id: int


class Recording:
    """What was traced so far. Everything is decoded anew at each look."""

    def __init__(self, recorder: Recorder, sink: MemorySink) -> None:
        self.recorder = recorder
        self.sink = sink

    @property
    def records(self) -> list[Record]:
        """All records, in the order they were written."""
        return [decode_record(body) for body in self.sink.bodies]

    @property
    def ops(self) -> list[TracedOp]:
        """The ops that have ended, in the order they did."""
        return [_op(each) for each in self.records if isinstance(each, OpEnd)]

    @property
    def trajectories(self) -> list[TracedTrajectory]:
        """The trajectories that have ended, in the order they did."""
        return [_trajectory(each) for each in self.records if isinstance(each, TrajectoryEnd) and not each.is_group]

    @property
    def groups(self) -> list[TracedTrajectory]:
        """The group records that have ended, in the order they did."""
        return [_trajectory(each) for each in self.records if isinstance(each, TrajectoryEnd) and each.is_group]

    @property
    def events(self) -> list[Said]:
        """What was said about trajectories."""
        events = [each for each in self.records if isinstance(each, Event)]
        return [Said(e.event, decode_value(e.body), e.trajectory_id.hex(), e.op_id) for e in events]

    @property
    def op(self) -> TracedOp:
        """The only op; a test that expects one need not index."""
        (only,) = self.ops
        return only


def _op(end: OpEnd) -> TracedOp:
    same = ("name", "kind", "status", "error", "start_ns", "end_ns", "op_id", "parent_id", "thread")
    return TracedOp(
        **{name: getattr(end, name) for name in same},
        inputs=decode_value(end.inputs),
        outputs=decode_value(end.outputs),
        trajectory_id=end.trajectory_id.hex(),
        coordinates=decode_coordinates(end.coordinates),
    )


def _trajectory(end: TrajectoryEnd) -> TracedTrajectory:
    same = ("name", "status", "error", "start_ns", "end_ns", "parent_op_id")
    return TracedTrajectory(
        **{name: getattr(end, name) for name in same},
        id=end.trajectory_id.hex(),
        coordinates=decode_coordinates(end.coordinates),
        parent_id=(end.parent_trajectory_id or b"").hex(),
        tags=decode_value(end.tags),
    )


@contextmanager
def _record_with(recorder: Recorder) -> Iterator[None]:
    follow_threads()
    before, scope.recorder = scope.recorder, recorder
    try:
        yield
    finally:
        scope.recorder = before


@contextmanager
def recording(
    *, clock: FakeClock | None = None, sink: MemorySink | None = None, **settings: Any
) -> Iterator[Recording]:
    """Trace into memory: `with recording(max_stream_items=3) as traced: ...`.

    Args:
        clock: One to advance by hand; a fresh one if not given.
        sink: Where the records go; a list if not given.
        **settings: As in `rolltrace.init`. The environment is not read.
    """
    clock = clock or FakeClock()
    sink = sink or MemorySink()
    recorder = Recorder(Settings(**settings), sink, wall_ns=clock, tick_ns=clock, random_bytes=counting_ids())
    with _record_with(recorder):
        yield Recording(recorder, sink)


class Rollouts:
    """What is traced inside `with rollouts(store) as lab` can be read with `lab.read(trajectory_id)`."""

    def __init__(self, store: Path, journal: JournalWriter) -> None:
        self.store = store
        self._journal = journal
        self._opened: Store | None = None

    def read(self, trajectory_id: str) -> Trajectory:
        """The trajectory as a backend is given it, with all that was said of it so far."""
        if self._opened is None:
            from rolltrace.query import open_store

            self._opened = open_store(self.store)
        self._opened.refresh()
        return self._opened.trajectory(trajectory_id)

    def kill(self) -> None:
        """From here on it is as if the process had been killed: nothing more is recorded, and open ops stay open."""
        scope.recorder = None
        self._journal.close()


@contextmanager
def rollouts(
    store: str | os.PathLike[str], project: str = "contract", experiment: str = "run", **settings: Any
) -> Iterator[Rollouts]:
    """Trace into a store of its own: `with rollouts(tmp_path) as lab: ...`. Nothing is drained.

    Args:
        store: The store folder.
        project: Its name.
        experiment: Its name.
        **settings: As in `rolltrace.init`. The environment is not read.
    """
    folder = Path(store)
    journal = JournalWriter(folder, {"project": project, "experiment": experiment, "backends": ["rolltrace"]})
    recorder = Recorder(Settings(project_name=project, experiment_name=experiment, drain="off", **settings), journal)
    lab = Rollouts(folder, journal)
    with _record_with(recorder):
        try:
            yield lab
        finally:
            journal.close()
            if lab._opened is not None:
                lab._opened.close()
