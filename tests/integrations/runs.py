"""Whole runs: rollout processes that trace, and beside them the drainer and the sender of a backend."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rolltrace.journal import start_drainer
from rolltrace.keeper.outbox import Outbox, State
from rolltrace.query import Store, open_store
from rolltrace.testing import BackendContract
from rolltrace.testing.contract import differences
from tests.background import eventually, kill_keepers

EXPERIMENT = "试验 1"  # as the worker names it
_WORKER = Path(__file__).with_name("worker.py")


@dataclass
class Run:
    """What is traced goes to one store and from there to one backend."""

    path: Path
    project: str
    backend: str

    @property
    def store(self) -> Store:
        return open_store(self.path)

    @property
    def state(self) -> State:
        """How sending goes."""
        return Outbox(self.path, self.backend).state

    def trace(self, workers: Iterable[int], count: int) -> list[str]:
        """Let worker processes with these numbers trace at the same time, so many each. Returns the trajectories."""
        started = [self._start(number, str(count)) for number in workers]
        said = [worker.communicate(timeout=110)[0].split() for worker in started]
        assert [worker.returncode for worker in started] == [0] * len(started)
        return [trajectory_id for ids in said for trajectory_id in ids]

    def trace_with_kills(self, count: int) -> list[str]:
        """Let a worker trace so many; the keepers are killed after each ten, in the end it is killed too."""
        worker = self._start(0, "asked")
        assert worker.stdin is not None
        assert worker.stdout is not None
        ids = []
        for number in range(1, count + 1):
            worker.stdin.write("\n")
            worker.stdin.flush()
            ids.append(worker.stdout.readline().strip())
            if number % 10 == 0:
                kill_keepers(self.path)
        worker.kill()
        worker.communicate()
        kill_keepers(self.path)
        return ids

    def wait_until_sent(self, count: int) -> None:
        def sent() -> bool:
            start_drainer(self.path)  # as the next writer would
            return self.state.sent == count

        eventually(sent)

    def problems(self, ids: Iterable[str], contract: BackendContract) -> list[str]:
        """How what the backend has of these trajectories differs from what was recorded."""
        asked, found = self.store, []
        for each in ids:
            seen, trajectory = contract.read_back(each), asked.trajectory(each)
            if seen is None:
                found.append(f"{each} is missing")
                continue
            found += differences(trajectory, seen, contract)
            if seen.scores != {"reward": trajectory.reward}:
                found.append(f"{each} has {seen.scores}, not {trajectory.reward}")
        return found

    def _start(self, number: int, count: str) -> subprocess.Popen[str]:
        words = [sys.executable, str(_WORKER), str(self.path), self.project, self.backend, str(number), count]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
