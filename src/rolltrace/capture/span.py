"""One op: all logic of its beginning and its every way to end.

The shells in `op` only call the function inside `with Span(...)`. Our own work is guarded here, so that
neither entering nor leaving can raise; the user's exceptions pass through untouched.
"""

from __future__ import annotations

import threading
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.failure import describe, status_of
from rolltrace.record import NOTHING, OpEnd, OpStart, encode_record

if TYPE_CHECKING:
    from rolltrace.capture.recorder import Recorder
    from rolltrace.capture.signature import Call
    from rolltrace.capture.trajectory import Trajectory

T = TypeVar("T")

_MOST_INPUT_BYTES_AT_START = 4096
"""Inputs up to this size are also in the start record, so that they can be seen while the op runs."""
_main_thread = threading.main_thread().ident


class Span:
    """One traced call that is going on."""

    __slots__ = (
        "_end_tick", "_generation", "_inputs", "_outputs", "_recorder", "_start_ns", "_start_tick", "_token", "call",
        "op_id", "parent_id", "trajectory",
    )  # fmt: skip

    call: Call
    trajectory: Trajectory
    op_id: int
    parent_id: int
    _token: Token[scope.Place | None] | None

    def __init__(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.call = call
        self._outputs: bytes | Raw = NOTHING
        self._end_tick = 0
        self._token = None
        self._recorder: Recorder | None = None
        try:
            self._begin(scope.recorder, args, kwargs)
        except Exception:
            self._recorder = None
            caught("op start")

    def _begin(self, recorder: Recorder | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        place = scope.current.get()
        if recorder is None or place is scope.MUTED:
            return
        call = self.call
        if place is None:
            self.trajectory, self.parent_id = _without_coordinates(recorder), 0
        else:
            self.trajectory, self.parent_id = place.trajectory, place.op_id  # type: ignore[assignment]
        self._generation = recorder.generation
        inputs: Any = call.bind(args, kwargs)
        if call.select_inputs is not None:
            inputs = call.select_inputs(inputs)
        self._inputs = raw = Raw(recorder.snapshot(inputs))
        self.op_id = recorder.next_op_id()
        self._recorder = recorder
        self._start_ns = recorder.wall_ns()
        trajectory = self.trajectory
        record = OpStart(
            trajectory.trace_id,
            trajectory.coordinates,
            self.op_id,
            self.parent_id,
            call.name,
            call.kind,
            self._start_ns,
            raw if len(raw) <= _MOST_INPUT_BYTES_AT_START else NOTHING,  # type: ignore[arg-type]
        )
        recorder.append(encode_record(record), trajectory.step)
        self._start_tick = recorder.tick_ns()

    def __enter__(self) -> Span:
        if self._recorder is not None:
            self._token = scope.current.set(self)
        return self

    def returned(self, value: T) -> T:
        """Record what the function gave back, as it is now, and pass it on."""
        recorder = self._recorder
        if recorder is not None:
            self._end_tick = recorder.tick_ns()
            try:
                select = self.call.select_outputs
                self._outputs = Raw(recorder.snapshot(value if select is None else select(value)))
            except Exception:
                caught("op output")
        return value

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._token is not None:
            scope.leave(self._token)
        recorder = self._recorder
        if recorder is None or recorder.generation != self._generation:
            return
        try:
            self._end(recorder, failure)
        except Exception:
            caught("op end")

    def _end(self, recorder: Recorder, failure: BaseException | None) -> None:
        tick = self._end_tick or recorder.tick_ns()
        trajectory = self.trajectory
        thread = threading.get_ident()
        record = OpEnd(
            trajectory.trace_id,
            trajectory.coordinates,
            self.op_id,
            self.parent_id,
            self.call.name,
            self.call.kind,
            self._start_ns,
            self._start_ns + tick - self._start_tick,
            status_of(failure) if failure is not None else "ok",
            None if failure is None else describe(failure),
            self._inputs,
            self._outputs,  # type: ignore[arg-type]
            "" if thread == _main_thread else threading.current_thread().name,
        )
        recorder.append(encode_record(record), trajectory.step)


def _without_coordinates(recorder: Recorder) -> Trajectory:
    from rolltrace.capture.trajectory import Trajectory

    return Trajectory(recorder)
