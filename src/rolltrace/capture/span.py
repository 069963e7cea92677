"""One op: all logic of its beginning and its every way to end.

The shells in `op` only make a `Span`, call the function, and say how that ended. Our own work is guarded
here, so that none of this can raise; the user's exceptions pass through untouched. No `with`, few calls, and
tuples that are encoded just as `OpStart` and `OpEnd` would be: each microsecond is paid by every op of every rollout.
"""

from __future__ import annotations

import threading
from contextvars import Token
from threading import get_ident
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.failure import describe_failure, status_of
from rolltrace.record import NOTHING, Error, Status, clean_text, encode_record

if TYPE_CHECKING:
    from rolltrace.capture.recorder import Recorder
    from rolltrace.capture.signature import Call
    from rolltrace.capture.tokenizers import KnownTokenizer
    from rolltrace.capture.trajectory import TrajectoryHandle

_MAX_INPUT_BYTES_AT_START = 4096
"""Inputs up to this size are also in the start record, so that they can be seen while the op runs."""
_main_thread = threading.main_thread().ident


class Span:
    """One traced call that is going on."""

    __slots__ = (
        "_end_tick",
        "_generation",
        "_inputs",
        "_recorder",
        "_start_ns",
        "_start_tick",
        "_token",
        "_trajectory",
        "call",
        "op_id",
        "parent_id",
        "tokenizer",
    )  # fmt: skip

    _trajectory: TrajectoryHandle
    op_id: int
    parent_id: int
    _inputs: Raw
    _recorder: Recorder | None
    """None when this call is not recorded, and once it has ended."""
    _token: Token[scope.Place | None] | None
    tokenizer: KnownTokenizer | None
    """Not set at all while tokens are not decoded."""

    def __init__(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.call = call
        self._recorder = self._token = None
        self._end_tick = 0
        try:
            recorder = scope.recorder
            place = scope.current.get()
            if recorder is None or place is scope.MUTED:
                return
            if place is None:
                self._trajectory = trajectory = _without_coordinates(recorder)
                self.parent_id = parent_id = 0
            else:
                self._trajectory = trajectory = place._trajectory  # type: ignore[assignment]
                self.parent_id = parent_id = place.op_id
            try:
                inputs: Any = call.bind(args, kwargs)
                if call.select_inputs is not None:
                    inputs = call.select_inputs(inputs)
                raw = recorder.snapshot(inputs)
                self._inputs = at_start = Raw(raw)
                if len(raw) > _MAX_INPUT_BYTES_AT_START:
                    at_start = NOTHING
            except Exception:
                self._inputs = at_start = NOTHING
                caught("op input")
            if recorder.tokenizers is not None:
                self.tokenizer = recorder.tokenizers.of(call, args, place)
            self.op_id = op_id = recorder.next_op_id()
            self._start_tick = start_tick = recorder.tick_ns()
            self._start_ns = start_ns = start_tick + trajectory.wall_offset_ns
            recorder.append(
                encode_record(
                    (
                        "op_start",
                        trajectory.trace_id,
                        trajectory.coordinates,
                        op_id,
                        parent_id,
                        call.name,
                        call.kind,
                        start_ns,
                        at_start,
                    )
                ),
                trajectory.step,
            )
            self._generation = recorder.generation
            self._recorder = recorder
        except Exception:
            self._recorder = None
            caught("op start")

    def enter(self) -> None:
        """What is called from here on is inside this op. Not done when the span is made, but where an exception that
        comes at any moment (a timeout, Ctrl-C) still leads to `failed`."""
        if self._recorder is not None:
            self._token = scope.current.set(self)

    def _leave(self) -> None:
        token, self._token = self._token, None
        if token is not None:
            scope.leave(token)
        elif scope.current.get() is self:  # interrupted before the token was kept
            scope.current.set(None)

    def stop(self) -> None:
        """The call is over, and what it gave is said later: a batch gives the outputs of many ops at once."""
        if self._recorder is not None:
            self._end_tick = self._recorder.tick_ns()

    def returned(self, value: Any) -> None:
        """The call is over: record what it gave back, as it is now."""
        recorder = self._recorder
        if recorder is None:
            return
        end_tick = self._end_tick or recorder.tick_ns()
        self._leave()
        try:
            select = self.call.select_outputs
            outputs = Raw(recorder.snapshot(value if select is None else select(value)))
        except Exception:
            outputs = NOTHING
            caught("op output")
        self._end(recorder, end_tick, outputs, "ok", None)

    def failed(self, failure: BaseException) -> None:
        """The call is over: record the exception that left it, or that came while we recorded its result."""
        self._leave()
        recorder = self._recorder
        if recorder is not None:
            self._end(recorder, recorder.tick_ns(), NOTHING, status_of(failure), describe_failure(failure))

    def _end(self, recorder: Recorder, end_tick: int, outputs: Raw, status: Status, error: Error | None) -> None:
        self._recorder = None
        inputs, self._inputs = self._inputs, NOTHING  # a task started inside may keep this span for long
        if recorder.generation != self._generation:
            return  # this is a forked child; the op is its parent's to end
        try:
            call, start_ns = self.call, self._start_ns
            end_ns = start_ns + end_tick - self._start_tick
            tokenizer = None if recorder.tokenizers is None else self.tokenizer
            thread = "" if get_ident() == _main_thread else _thread_name()
            write_op_end(
                recorder, self._trajectory, self.op_id, self.parent_id, call.name, call.kind, start_ns, end_ns,
                status, error, inputs, outputs, thread, "" if tokenizer is None else tokenizer.mark,
            )  # fmt: skip
            if tokenizer is not None and tokenizer.decode is not None and recorder.tokenizers is not None:
                recorder.tokenizers.decode(tokenizer.decode, self._trajectory, self.op_id, inputs, outputs)
        except Exception:
            caught("op end")


def write_op_end(
    recorder: Recorder,
    trajectory: TrajectoryHandle,
    op_id: int,
    parent_id: int,
    name: str,
    kind: str,
    start_ns: int,
    end_ns: int,
    status: str,
    error: Error | None,
    inputs: Raw,
    outputs: Raw,
    thread: str = "",
    tokenizer: str = "",
) -> bool:
    """Write the record of an op that is over: the one place that does. False if it was lost."""
    record = (
        "op_end", trajectory.trace_id, trajectory.coordinates, op_id, parent_id, name, kind, start_ns, end_ns,
        status, error, inputs, outputs, thread, tokenizer,
    )  # fmt: skip
    return recorder.append(encode_record(record), trajectory.step)


def _thread_name() -> str:
    name = threading.current_thread().name
    return name if name.isascii() else clean_text(name)


def _without_coordinates(recorder: Recorder) -> TrajectoryHandle:
    from rolltrace.capture.trajectory import TrajectoryHandle

    return TrajectoryHandle(recorder)
