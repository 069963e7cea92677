"""Carry the scope where contextvars do not go by themselves: threads, pools, processes.

asyncio tasks and `to_thread` copy their context already. Threads, executors, pools and spawned processes are patched
when tracing is first turned on; only our own scope travels, the rest of the context stays as Python has it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from rolltrace._guard import caught
from rolltrace.capture import scope
from rolltrace.capture.context import current_context, use_context

_patched = False
_POOL_METHODS = ("apply_async", "_map_async", "imap", "imap_unordered")
"""All that give work to a pool go through these; the function is their first argument."""


def follow_threads() -> None:
    """Make threads and pools follow the scope of whoever starts or submits. Done once per process."""
    global _patched
    if _patched:
        return
    _patched = True
    # Not needed while tracing is off.
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from multiprocessing.pool import Pool
    from multiprocessing.process import BaseProcess

    threading.Thread.start = _following_start(threading.Thread.start)  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = _following_submit(ThreadPoolExecutor.submit, _in_thread)  # type: ignore[method-assign]
    ProcessPoolExecutor.submit = _following_submit(ProcessPoolExecutor.submit, _in_process)  # type: ignore[method-assign]
    Pool.__init__ = _outside(Pool.__init__)  # type: ignore[method-assign]
    for name in _POOL_METHODS:
        setattr(Pool, name, _following_pool(getattr(Pool, name)))
    BaseProcess.start = _following_process(BaseProcess.start)  # type: ignore[method-assign]


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


def _following_submit(submit_work: Any, wrap: Callable[[Any], Any]) -> Any:
    outside = _outside(submit_work)

    @functools.wraps(submit_work)
    def submit(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        return outside(self, wrap(fn), *args, **kwargs)

    return submit


def _following_pool(give_work: Any) -> Any:
    @functools.wraps(give_work)
    def give(self: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
        from multiprocessing.pool import ThreadPool

        return give_work(self, _in_thread(func) if isinstance(self, ThreadPool) else _in_process(func), *args, **kwargs)

    return give


def _following_process(start_process: Any) -> Any:
    """A forked child has the scope already; one that begins as a new interpreter gets it with what it is to run."""

    @functools.wraps(start_process)
    def start(self: Any) -> None:
        context = "" if scope.recorder is None or "run" in self.__dict__ or _forks(self) else _context()
        if not context:
            start_process(self)
            return
        # On the instance, because a subclass may have a `run` of its own. It travels as a part of the process object.
        self.run = functools.partial(_run_process, context, self)
        try:
            start_process(self)
        finally:
            self.__dict__.pop("run", None)

    return start


def _forks(process: Any) -> bool:
    import multiprocessing

    return (getattr(process, "_start_method", None) or multiprocessing.get_start_method()) == "fork"


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


def _in_thread(fn: Any) -> Any:
    place = scope.current.get()
    return fn if place is None else functools.partial(_run_in, place, fn)


def _in_process(fn: Any) -> Any:
    context = _context()
    return functools.partial(_run_with_context, context, fn) if context else fn


def _context() -> str:
    try:
        return current_context()
    except Exception:
        caught("context of a process")
        return ""


def _run_process(text: str, process: Any) -> None:
    process.__dict__.pop("run", None)
    with use_context(text):
        process.run()


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
