"""Carry the scope where contextvars do not go by themselves: threads, executors, other processes.

asyncio tasks and `to_thread` copy their context already. Threads and executors are patched when tracing
is first turned on; only our own scope travels, the rest of the context stays as Python has it.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable
from contextvars import Token
from types import TracebackType
from typing import Any

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.trajectory import Trajectory
from rolltrace.errors import ContextError
from rolltrace.record import Coordinates, coordinate, decode_coordinates, whole

_patched = False
_CONTEXT = re.compile(r"00-([0-9a-f]{32})-([0-7][0-9a-f]{15})-0([01])(?:;(\{.*\}))?", re.DOTALL)


def follow_threads() -> None:
    """Make threads and pools follow the scope of whoever starts or submits. Done once per process."""
    global _patched
    if _patched:
        return
    _patched = True
    # Not needed while tracing is off.
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from multiprocessing.pool import Pool

    threading.Thread.start = _following_start(threading.Thread.start)  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = _following_submit(ThreadPoolExecutor.submit, _in_thread)  # type: ignore[method-assign]
    ProcessPoolExecutor.submit = _following_submit(ProcessPoolExecutor.submit, _in_process)  # type: ignore[method-assign]
    Pool.__init__ = _outside(Pool.__init__)  # type: ignore[method-assign]


def _following_start(start_thread: Any) -> Any:
    @functools.wraps(start_thread)
    def start(self: threading.Thread) -> None:
        place = scope.current.get()
        if place is None:
            start_thread(self)
            return
        # On the instance, because a subclass may have a `run` of its own.
        self.run = functools.partial(_run_thread, self, self.run, place)  # type: ignore[method-assign]
        try:
            start_thread(self)
        except BaseException:
            self.__dict__.pop("run", None)
            raise

    return start


def _following_submit(submit_work: Any, wrap: Callable[[scope.Place, Any], Any]) -> Any:
    outside = _outside(submit_work)

    @functools.wraps(submit_work)
    def submit(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        place = scope.current.get()
        return (
            submit_work(self, fn, *args, **kwargs) if place is None else outside(self, wrap(place, fn), *args, **kwargs)
        )

    return submit


def _outside(start_workers: Any) -> Any:
    """A worker that is started by this very call outlives the trajectory, and must not inherit it."""

    @functools.wraps(start_workers)
    def started(*args: Any, **kwargs: Any) -> Any:
        token = scope.current.set(None)
        try:
            return start_workers(*args, **kwargs)
        finally:
            scope.leave(token)

    return started


def _in_thread(place: scope.Place, fn: Any) -> Any:
    return functools.partial(_run_in, place, fn)


def _in_process(place: scope.Place, fn: Any) -> Any:
    return functools.partial(_run_with_context, current_context(), fn)


def _run_with_context(text: str, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    with use_context(text):
        return fn(*args, **kwargs)


def _run_thread(thread: threading.Thread, run: Any, place: scope.Place) -> None:
    thread.__dict__.pop("run", None)  # it refers to the thread itself: a cycle
    _run_in(place, run)


def _run_in(place: scope.Place, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    token = scope.current.set(place)
    try:
        return fn(*args, **kwargs)
    finally:
        scope.leave(token)


def current_context() -> str:
    """The current trajectory and op as a small string, for `use_context` in another process.

    A W3C traceparent, then the coordinates as JSON. Empty when there is nothing to carry.
    """
    place = scope.current.get()
    if scope.recorder is None or place is None:
        return ""
    if place.trajectory is None:
        return f"00-{'0' * 32}-{'0' * 16}-00"
    where = decode_coordinates(place.trajectory.coordinates)._asdict()
    import json

    given = {name: value for name, value in where.items() if value is not None and value is not False}
    return f"00-{place.trajectory.id}-{place.op_id:016x}-01;{json.dumps(given, separators=(',', ':'))}"


class use_context:
    """Continue a trajectory of another process or actor: `with use_context(text): ...`.

    Ops inside become children of the op that called `current_context()`. An empty string changes nothing.
    """

    def __init__(self, text: str | None) -> None:
        self._text = text
        self._token: Token[scope.Place | None] | None = None

    def __enter__(self) -> None:
        if scope.recorder is None or not self._text:
            return
        try:
            self._token = scope.current.set(_read_context(self._text))
        except Exception:
            caught("use_context")

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, tb: TracebackType | None
    ) -> None:
        token, self._token = self._token, None
        if token is not None:
            scope.leave(token)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.__exit__(kind, failure, tb)


def _read_context(text: str) -> scope.Place:
    match = _CONTEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ContextError(f"use_context needs the string that current_context() gave, not {text!r:.200}")
    trace_id, op_id, sampled, given = match.groups()
    if sampled == "0":
        return scope.MUTED
    import json

    try:
        where = json.loads(given or "{}")
        coordinates = Coordinates(
            step=whole(where.get("step")),
            sample_index=coordinate(where.get("sample_index")),
            rollout_n=whole(where.get("rollout_n")),
            validate=bool(where.get("validate", False)),
        )
    except (ValueError, AttributeError):
        raise ContextError(f"the coordinates in the context {text!r:.200} cannot be read") from None
    return Trajectory(scope.recorder, coordinates, bytes.fromhex(trace_id), int(op_id, 16))
