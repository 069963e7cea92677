"""Processes that make rollouts. One that dies is replaced, and what it had not begun is given to the new one."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

import rolltrace
from rolltrace.demo.policy import Policy
from rolltrace.demo.rollout import RolloutResult, Task, rollout
from rolltrace.demo.tokenizer import Tokenizer


class Workers:
    """`with Workers(2) as workers: outcomes = list(workers.make(tasks, policy))`."""

    def __init__(self, count: int, pause: float = 0.0) -> None:
        self._pause = pause
        self._processes = multiprocessing.get_context("spawn")
        self._workers = [self._start() for _ in range(count)]
        self.killed: list[Task] = []
        """Rollouts that were cut off because their process died."""

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.connection.close()  # the process sees the end of its input, and ends
        for worker in self._workers:
            worker.process.join()

    def make(self, tasks: list[Task], policy: Policy) -> Iterator[RolloutResult]:
        """The outcomes of these tasks, as they come; which worker makes which does not change them."""
        for at, worker in enumerate(self._workers):
            worker.give(tasks[at :: len(self._workers)], policy)
        while busy := {worker.connection: worker for worker in self._workers if worker.waiting}:
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]  # wait gives back what it was given
                try:
                    outcome = worker.hear()
                except (EOFError, ConnectionError):
                    self._replace(worker, policy)
                else:
                    if outcome is not None:
                        yield outcome

    def _replace(self, dead: _Worker, policy: Policy) -> None:
        dead.process.join()
        self.killed += dead.begun.values()
        again = [task for at, task in dead.waiting.items() if at not in dead.begun]
        worker = self._start()
        self._workers[self._workers.index(dead)] = worker
        worker.give(again, policy)

    def _start(self) -> _Worker:
        ours, theirs = self._processes.Pipe()
        process = self._processes.Process(target=_work, args=(theirs, self._pause), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)


class _Worker:
    """One process as the trainer sees it."""

    def __init__(self, process: Any, connection: Connection) -> None:
        self.process = process
        self.connection = connection
        self.waiting: dict[int, Task] = {}
        """Tasks whose outcome is not here yet, by their place in the order."""
        self.begun: dict[int, Task] = {}

    def give(self, tasks: list[Task], policy: Policy) -> None:
        self.waiting = dict(enumerate(tasks))
        self.begun = {}
        if tasks:
            self.connection.send((tasks, policy))

    def hear(self) -> RolloutResult | None:
        at, outcome = self.connection.recv()
        if outcome is None:
            self.begun[at] = self.waiting[at]
        else:
            del self.waiting[at], self.begun[at]
        return outcome  # type: ignore[no-any-return]


def _work(connection: Connection, pause: float) -> None:
    tokenizer = Tokenizer()

    async def one(at: int, task: Task, policy: Policy) -> None:
        connection.send((at, None))
        connection.send((at, await rollout(task, policy, tokenizer, pause)))

    async def all_of(tasks: list[Task], policy: Policy) -> None:
        if pause:  # a model server has many at once
            await asyncio.gather(*(one(at, task, policy) for at, task in enumerate(tasks)))
        else:
            for at, task in enumerate(tasks):
                await one(at, task, policy)

    while True:
        try:
            tasks, policy = connection.recv()
        except EOFError:
            rolltrace.flush()
            return
        asyncio.run(all_of(tasks, policy))
