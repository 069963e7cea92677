"""Work of a library that does not look for signals, so that Ctrl-C ends it at once.

Python runs signal handlers in the main thread, between two bytecodes. DuckDB looks for them between two of its tasks,
and one task can take a minute. So the work is done in another thread, and the main thread waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def interruptible(work: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """The result of the work, or its exception; on Ctrl-C the work is interrupted, and KeyboardInterrupt is raised.

    Args:
        work: What takes long. It runs in another thread, unless this is one already.
        interrupt: Makes the work stop soon; called from this thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # Not `join`: when it is interrupted, Python up to 3.12 takes the thread for ended, and a program that exits aborts.
    ended = threading.Event()
    threading.Thread(target=run, name="rolltrace-query", daemon=True).start()
    try:
        ended.wait()
    except KeyboardInterrupt:
        interrupt()
        ended.wait()
        raise
    if errors:
        raise errors[0]
    return results[0]
