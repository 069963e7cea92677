"""Trajectories that are no `with` block of the code they happen in.

Rows of a batch: a trainer that generates or scores a whole batch in one call has one trajectory per row, all of them
open at once in the same thread. Each lives in a context of its own, in which its ops begin and end, and user code that
belongs to it runs. And trajectories that somebody else timed: their ops are recorded when they are over.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.signature import Call
from rolltrace.capture.span import Span, write_op_end
from rolltrace.capture.trajectory import (
    UNTRACED,
    TrajectoryHandle,
    rollout_trace_attr,
    write_trajectory_end,
    write_trajectory_start,
)
from rolltrace.record import NOTHING, Coordinates, Error, OpKind, Status, clean_text

T = TypeVar("T")


class BatchRow:
    """A trajectory that is open beside others, until `close`."""

    def __init__(self, entry: rollout_trace_attr) -> None:
        self._entry = entry
        self._context = contextvars.copy_context()
        self.handle = self._context.run(entry.__enter__)

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function inside the trajectory."""
        return self._context.run(function, *args, **kwargs)

    def enter(self) -> None:
        """Go inside the trajectory in the context of the caller, such as a task of another thread, for good."""
        scope.current.set(self._context.get(scope.current, None))

    def begin(self, name: str, kind: OpKind, inputs: Any, owner: Any = None) -> Span:
        """Begin an op of which the call is shared with other rows.

        Args:
            name: What to call it.
            kind: As of `rollout_trace_op`.
            inputs: What to record as its inputs.
            owner: An object whose `tokenizer` its tokens are of.
        """
        return self.run(Span, _call(name, kind), (owner, inputs), {})

    def close(self, failure: BaseException | None = None) -> None:
        """The trajectory is over."""
        traceback: TracebackType | None = None if failure is None else failure.__traceback__
        self.run(self._entry.__exit__, None if failure is None else type(failure), failure, traceback)


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
            write_trajectory_start(recorder, handle, self._name, start_ns)
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
            write_op_end(
                recorder, self.handle, op_id or recorder.next_op_id(), parent_id, clean_text(name), kind, start_ns,
                end_ns, status, error, raw_inputs, raw_outputs,
            )  # fmt: skip
        except Exception:
            caught("op end")

    def end(self, end_ns: int, status: Status = "ok", error: Error | None = None) -> None:
        """The trajectory is over."""
        recorder = scope.recorder
        if recorder is None or not self.handle.traced:
            return
        try:
            write_trajectory_end(recorder, self.handle, self._name, self._start_ns, end_ns, status, error)
            recorder.trajectory_ended()
        except Exception:
            caught("trajectory end")


_calls: dict[tuple[str, OpKind], Call] = {}
_MAX_CALLS = 1000


def _call(name: str, kind: OpKind) -> Call:
    call = _calls.get((name, kind))
    if call is None:
        if len(_calls) >= _MAX_CALLS:  # names that a model made up
            _calls.clear()
        call = _calls[name, kind] = Call(_shape, name=name, kind=kind, inputs=lambda arguments: arguments["inputs"])
    return call


def _shape(self: Any, inputs: Any) -> None:
    """How a row's op is called: its tokenizer is that of `self`."""
