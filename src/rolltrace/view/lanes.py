"""Questions in worker threads: with limits, and stopped when the client goes away.

A store answers one question at a time. So that a search through all text does not hold up a page, there are two of it:
one for what is quick, one for what reads payloads.

`rolltrace.query` is loaded in a worker thread too, by the first question: that takes longer than all else at the start,
and the files of the pages are asked for meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rolltrace.errors import StoreError
from rolltrace.view.answers import Answers
from rolltrace.view.limits import QUERY_MEMORY

if TYPE_CHECKING:
    from rolltrace.query import Store
    from rolltrace.view.loaded import Loaded

T = TypeVar("T")
_THREADS = 32
"""More than run at once: those that ask the same wait for one answer."""


class Opened(NamedTuple):
    """A store, and what was read of it."""

    store: Store
    loaded: Loaded
    answers: Answers


class Lane:
    """One of the two: a store of its own, opened when it is needed first."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self.seconds = seconds
        self._lock = threading.Lock()
        self._opened: Opened | None = None
        self._query: ModuleType | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="rolltrace-view")

    def opened(self) -> Opened:
        """The store.

        Raises:
            StoreError: its folder is gone.
        """
        from rolltrace.query import open_store
        from rolltrace.view.loaded import Loaded

        with self._lock:
            if not self._path.is_dir():
                self._opened = None
                raise StoreError(f"the store {str(self._path)!r} no longer exists")
            if self._opened is None:
                store = open_store(self._path, memory_limit=QUERY_MEMORY)
                self._opened = Opened(store, Loaded(store), Answers())
            return self._opened

    async def ask(self, question: Callable[[Opened], T], gone: Callable[[], Awaitable[object]]) -> T:
        """The answer to a question about the store: see `work`."""
        return await self.work(lambda: question(self.opened()), gone)

    async def work(self, question: Callable[[], T], gone: Callable[[], Awaitable[object]]) -> T:
        """The answer to a question, about whatever stores; it is stopped when `gone` returns first, or after some time.

        Raises:
            StoppedError: it was stopped.
        """
        loop = asyncio.get_running_loop()
        if self._query is None:
            self._query = await loop.run_in_executor(self._threads, import_module, "rolltrace.query")
        limit = self._query.Limit(self.seconds)

        def work() -> T:
            with limit:
                return question()

        answering = loop.run_in_executor(self._threads, work)
        leaving = asyncio.ensure_future(gone())
        try:
            waited: set[asyncio.Future[Any]] = {answering, leaving}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                limit.stop("the client went away")
            return await answering
        finally:
            leaving.cancel()
            limit.stop("the server stops")  # if we were cancelled while it runs

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
