"""Real trajectories for tests of what reads them: traced into the journal of a store, and read back from there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolltrace.capture import Recorder, follow_threads, scope
from rolltrace.journal import JournalWriter
from rolltrace.settings import Settings

if TYPE_CHECKING:
    from rolltrace.query import Store, Trajectory


class Rollouts:
    """What is traced inside `with rollouts(store) as lab` can be read with `lab.read(trajectory_id)`."""

    def __init__(self, store: Path, journal: JournalWriter) -> None:
        self.store = store
        self._journal = journal
        self._opened: Store | None = None

    def read(self, trajectory_id: str) -> Trajectory:
        """The trajectory as a backend is given it, with all that was said of it so far."""
        if self._opened is None:
            from rolltrace.query import open_store

            self._opened = open_store(self.store)
        self._opened.refresh()
        return self._opened.trajectory(trajectory_id)

    def kill(self) -> None:
        """From here on it is as if the process had been killed: nothing more is recorded, and open ops stay open."""
        scope.recorder = None
        self._journal.close()


@contextmanager
def rollouts(
    store: str | os.PathLike[str], project: str = "contract", experiment: str = "run", **settings: Any
) -> Iterator[Rollouts]:
    """Trace into a store of its own: `with rollouts(tmp_path) as lab: ...`. Nothing is drained.

    Args:
        store: The store folder.
        project: Its name.
        experiment: Its name.
        **settings: As in `rolltrace.init`. The environment is not read.
    """
    folder = Path(store)
    journal = JournalWriter(folder, {"project": project, "experiment": experiment, "backends": ["rolltrace"]})
    recorder = Recorder(Settings(project_name=project, experiment_name=experiment, drain="off", **settings), journal)
    follow_threads()
    before, scope.recorder = scope.recorder, recorder
    lab = Rollouts(folder, journal)
    try:
        yield lab
    finally:
        scope.recorder = before
        journal.close()
        if lab._opened is not None:
            lab._opened.close()
