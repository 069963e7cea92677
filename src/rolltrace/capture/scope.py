"""Where am I: the recorder in use, and the op or trajectory that encloses this point of the program.

`recorder` is None while tracing is off. `current` holds the innermost open `Span` or `TrajectoryHandle`, `MUTED`
inside `rollout_trace_attr(trace=False)`, or None. Both are read as attributes of this module, so that a
decorated function pickled by value refers to the module and not to a copy of its state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar, Token
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from rolltrace.capture.recorder import Recorder
    from rolltrace.capture.trajectory import TrajectoryHandle


class Place(Protocol):
    """What encloses an op: it belongs to a trajectory and is itself an op, or 0 if it is none."""

    @property
    def _trajectory(self) -> TrajectoryHandle | None: ...
    @property
    def op_id(self) -> int: ...


class _Muted:
    _trajectory = None
    op_id = 0


MUTED: Final = _Muted()

recorder: Recorder | None = None


def _load_and_turn_on(settings: dict[str, Any]) -> bool:
    """A worker that was sent a call may have loaded nothing but what reads the call. Whoever owns the decision is then
    loaded, and puts a function of its own in the place of this one."""
    import_module("rolltrace._entry")
    return turn_on(settings)


turn_on: Callable[[dict[str, Any]], bool] = _load_and_turn_on
"""Turns tracing on as another process has it, if nobody has decided in this one; whether it is on then."""
current: ContextVar[Place | None] = ContextVar("rolltrace_scope", default=None)


def leave(token: Token[Place | None] | None) -> None:
    """Go back to the place before. A context that was never entered here is left as it is."""
    if token is None:
        return
    try:
        current.reset(token)
    except ValueError:
        pass  # closed from another task, as an event loop does with forgotten async generators


def start_outside(thread: threading.Thread) -> None:
    """Start a thread of our own: whatever op it is started in, it does not belong to it."""
    token = current.set(None)
    try:
        thread.start()
    finally:
        leave(token)
