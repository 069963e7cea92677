"""The stores that a server shows, which of them a request is about, and how they are asked.

One store needs no name. Of several, `/s/NAME/...` is the page of one, and `/s/NAME/api/...` asks it; an address without
a name still means a trajectory, or an experiment that only one of them has, so links stay right when a store is added.

Questions are asked in worker threads: with limits, and stopped when the client goes away. A store answers one at a
time. So that a search through all text does not hold up a page, there are two of it: one for what is quick, one for
what reads payloads.

`rolltrace.query` is loaded in a worker thread too, by the first question: that takes longer than all else at the start,
and the files of the pages are asked for meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rolltrace.errors import NotFoundError, QueryError, StoreError
from rolltrace.view.limits import QUERY_MEMORY, QUICK_SEC, SLOW_SEC

if TYPE_CHECKING:
    from rolltrace.query import Store
    from rolltrace.view.cache import Cache, Loaded

T = TypeVar("T")
PREFIX = "/s/{store}"
"""Before the address of a page or an endpoint: that of one store."""
_MAX_THREADS = 32
"""More than run at once: those that ask the same wait for one answer."""


class Opened(NamedTuple):
    """A store, and what was read of it."""

    store: Store
    loaded: Loaded
    answers: Cache


class Lane:
    """One of the two: a store of its own, opened when it is needed first."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path = path
        self.seconds = seconds
        self._lock = threading.Lock()
        self._opened: Opened | None = None
        self._query: ModuleType | None = None
        self._threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="rolltrace-view")

    def opened(self) -> Opened:
        """The store.

        Raises:
            StoreError: its folder is gone.
        """
        from rolltrace.query import open_store
        from rolltrace.view.cache import MAX_ANSWER_BYTES, Cache, Loaded

        with self._lock:
            if not self._path.is_dir():
                self._opened = None
                raise StoreError(f"the store {str(self._path)!r} no longer exists")
            if self._opened is None:
                store = open_store(self._path, memory_limit=QUERY_MEMORY)
                self._opened = Opened(store, Loaded(store), Cache(MAX_ANSWER_BYTES, MAX_ANSWER_BYTES // 8))
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


class Home(NamedTuple):
    """One store, and the two ways to ask it."""

    name: str
    quick: Lane
    slow: Lane

    def opened(self, *, slow: bool = False) -> Opened:
        """Raises StoreError if its folder is gone."""
        return (self.slow if slow else self.quick).opened()


class Stores:
    """All of them, in the order in which they were named."""

    def __init__(self, paths: Sequence[Path]) -> None:
        names = names_of(paths)
        self.homes = [
            Home(name, Lane(path, QUICK_SEC), Lane(path, SLOW_SEC)) for name, path in zip(names, paths, strict=True)
        ]

    @property
    def several(self) -> bool:
        return len(self.homes) > 1

    def named(self, name: str) -> Home:
        """Raises NotFoundError if there is no store of this name."""
        for home in self.homes:
            if home.name == name:
                return home
        raise NotFoundError(f"there is no store {name[:100]!r}; there are: {', '.join(h.name for h in self.homes)}")

    def with_trajectory(self, trajectory_id: str) -> Home:
        """The first that has it; `NAME:ID` is that of a store.

        Raises:
            NotFoundError: none has it.
            QueryError: in one of them, several begin with these letters.
        """
        name, colon, rest = trajectory_id.rpartition(":")
        if colon:
            return self.named(name)
        missing = NotFoundError(f"no store has a trajectory {rest[:100]!r}")
        for home in self.homes:
            try:
                home.opened().loaded.place(rest)
                return home
            except NotFoundError as error:
                missing = error
        raise missing

    def with_experiment(self, project: str, experiment: str) -> Home:
        """The one that has it.

        Raises:
            NotFoundError: none has it.
            QueryError: several have it.
        """
        from rolltrace.query import experiment_states

        homes = [home for home in self.homes if (project, experiment) in experiment_states(home.opened().store)]
        if len(homes) > 1:
            places = " or ".join(f"/s/{home.name}/" for home in homes)
            raise QueryError(f"several stores have an experiment {experiment!r:.100}; its address begins with {places}")
        if not homes:
            raise NotFoundError(f"no store has an experiment {experiment!r:.100} of the project {project!r:.100}")
        return homes[0]

    def close(self) -> None:
        for home in self.homes:
            home.quick.close()
            home.slow.close()


def names_of(paths: Sequence[Path]) -> list[str]:
    """A short name for each: the last part of its path, and of those before it as many as tell them apart."""
    deepest = max(len(path.parts) for path in paths)
    for count in range(1, deepest + 1):
        names = ["-".join(part.strip("/") for part in path.parts[-count:]) or "store" for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name}-{index}" for index, path in enumerate(paths, 1)]
