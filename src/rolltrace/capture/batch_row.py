"""One row of a batched call as an op of its own trajectory.

A trainer that generates or scores a whole batch in one call has one trajectory per row, all of them open at once in the
same thread. Each lives in a context of its own, in which its ops begin and end, and user code that belongs to it runs.
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
from rolltrace.capture.span import Span
from rolltrace.capture.trajectory import rollout_trace_attr
from rolltrace.record import NOTHING, OpKind

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

    def begin(self, name: str, kind: OpKind, inputs: Any, owner: Any = None) -> RowSpan:
        """Begin an op of which the call is shared with other rows.

        Args:
            name: What to call it.
            kind: As of `rollout_trace_op`.
            inputs: What to record as its inputs.
            owner: An object whose `tokenizer` its tokens are of.
        """
        return self.run(RowSpan, _call(name, kind), (owner, inputs), {})

    def close(self, failure: BaseException | None = None) -> None:
        """The trajectory is over."""
        traceback: TracebackType | None = None if failure is None else failure.__traceback__
        self.run(self._entry.__exit__, None if failure is None else type(failure), failure, traceback)


class RowSpan(Span):
    """An op whose end and whose outputs are known at different times: what a batch gave is looked at afterwards."""

    __slots__ = ("_end_tick",)

    def stop(self) -> None:
        """The call is over."""
        if self._recorder is not None:
            self._end_tick = self._recorder.tick_ns()

    def gave(self, value: Any) -> None:
        """Record what the call gave back. Not before `stop`."""
        recorder = self._recorder
        if recorder is None:
            return
        try:
            outputs = Raw(recorder.snapshot(value))
        except Exception:
            outputs = NOTHING
            caught("op output")
        self._end(recorder, self._end_tick, outputs, "ok", None)


_calls: dict[tuple[str, OpKind], Call] = {}
_MOST_CALLS = 1000


def _call(name: str, kind: OpKind) -> Call:
    call = _calls.get((name, kind))
    if call is None:
        if len(_calls) >= _MOST_CALLS:  # names that a model made up
            _calls.clear()
        call = _calls[name, kind] = Call(_shape, name=name, kind=kind, inputs=lambda arguments: arguments["inputs"])
    return call


def _shape(self: Any, inputs: Any) -> None:
    """How a row's op is called: its tokenizer is that of `self`."""
