"""A trajectory that somebody else timed: its ops are recorded when they are over, with the times that they had."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.trajectory import UNTRACED, TrajectoryHandle
from rolltrace.record import (
    NOTHING,
    Coordinates,
    Error,
    OpEnd,
    OpKind,
    Status,
    TrajectoryEnd,
    TrajectoryStart,
    clean_text,
    encode_record,
)


class ToldTrajectory:
    """Begun now or in the past; nothing of it raises. While tracing is off it does nothing."""

    def __init__(
        self, trajectory_id: bytes, where: Coordinates, name: str, start_ns: int, tags: dict[str, Any] | None = None
    ) -> None:
        """The id is 16 bytes."""
        self.handle = UNTRACED
        self._name = clean_text(name)
        self._start_ns = start_ns
        recorder = scope.recorder
        if recorder is None:
            return
        try:
            handle = TrajectoryHandle(recorder, where, trajectory_id)
            if not recorder.admits(handle, where, None):
                return
            handle.tags.update((clean_text(key), Raw(recorder.snapshot(value))) for key, value in (tags or {}).items())
            body = TrajectoryStart(
                handle.trace_id, handle.coordinates, self._name, start_ns, None, 0, Raw(recorder.snapshot(handle.tags))
            )
            recorder.write(body, handle.step)
            self.handle = handle
        except Exception:
            caught("trajectory start")

    def reserve(self) -> int:
        """The id of an op that will be recorded later than those inside it; 0 if nothing is recorded."""
        recorder = scope.recorder
        return recorder.next_op_id() if recorder is not None and self.handle.traced else 0

    def op(
        self,
        name: str,
        kind: OpKind,
        start_ns: int,
        end_ns: int,
        inputs: Any = None,
        outputs: Any = None,
        *,
        status: Status = "ok",
        error: Error | None = None,
        op_id: int = 0,
        parent_id: int = 0,
    ) -> None:
        """Record an op that is over; its id is one of `reserve`, or its own."""
        recorder = scope.recorder
        if recorder is None or not self.handle.traced:
            return
        try:
            raw_inputs, raw_outputs = (
                NOTHING if value is None else Raw(recorder.snapshot(value)) for value in (inputs, outputs)
            )
            body = OpEnd(
                self.handle.trace_id,
                self.handle.coordinates,
                op_id or recorder.next_op_id(),
                parent_id,
                clean_text(name),
                kind,
                start_ns,
                end_ns,
                status,
                error,
                raw_inputs,
                raw_outputs,
            )
            recorder.append(encode_record(body), self.handle.step)
        except Exception:
            caught("op end")

    def end(self, end_ns: int, status: Status = "ok", error: Error | None = None) -> None:
        """The trajectory is over."""
        recorder = scope.recorder
        if recorder is None or not self.handle.traced:
            return
        try:
            body = TrajectoryEnd(
                self.handle.trace_id,
                self.handle.coordinates,
                self._name,
                self._start_ns,
                end_ns,
                status,
                error,
                None,
                0,
                Raw(recorder.snapshot(self.handle.tags)),
            )
            recorder.write(body, self.handle.step)
            recorder.trajectory_ended()
        except Exception:
            caught("trajectory end")
