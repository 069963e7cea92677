"""Tracing into memory, with a clock and ids that can be foretold: the real recorder, with a list for a journal."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from msgspec import Raw

from rolltrace.capture import Recorder, follow_threads, scope
from rolltrace.journal import Losses
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


class MemorySink:
    """A sink that keeps the encoded records in a list."""

    def __init__(self) -> None:
        self.start_over_in_child()

    def append(
        self, body: builtins.bytes, step: int | None = None, rest: tuple[builtins.bytes | Raw, ...] = ()
    ) -> bool:
        self.bodies.append(b"".join((body, *rest)))
        self.records += 1
        self.bytes += len(self.bodies[-1])
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
    return TracedOp(
        end.name,
        end.kind,
        decode_value(end.inputs),
        decode_value(end.outputs),
        end.status,
        end.error,
        end.start_ns,
        end.end_ns,
        end.op_id,
        end.parent_id,
        end.trajectory_id.hex(),
        decode_coordinates(end.coordinates),
        end.thread,
    )


def _trajectory(end: TrajectoryEnd) -> TracedTrajectory:
    return TracedTrajectory(
        end.name,
        end.trajectory_id.hex(),
        decode_coordinates(end.coordinates),
        end.status,
        end.error,
        end.start_ns,
        end.end_ns,
        (end.parent_trajectory_id or b"").hex(),
        end.parent_op_id,
        decode_value(end.tags),
    )


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
    follow_threads()
    before, scope.recorder = scope.recorder, recorder
    try:
        yield Recording(recorder, sink)
    finally:
        scope.recorder = before
