"""One session of Ray for all tests of a run, and what their rollouts have left in the store.

The hooks and fixtures here are those of every folder with tests of verl: its conftest imports them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
import ray
from ray import cloudpickle
from verl.utils.rollout_trace import RolloutTraceConfig

import rolltrace
from rolltrace.query import Trajectory


def pytest_configure(config: pytest.Config) -> None:
    """Much in verl and Ray is deprecated; none of it is ours."""
    config.addinivalue_line("filterwarnings", "default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Importing verl alone takes long on a busy machine, in every actor."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(autouse=True)
def from_the_beginning(store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ROLLTRACE_STORE", str(store_folder))
    RolloutTraceConfig.reset()
    yield
    RolloutTraceConfig.reset()


@contextmanager
def session(folder: Path, store: Path, *modules: ModuleType) -> Iterator[None]:
    """Ray, whose workers import what is in the folder, get these modules by value, and trace into the store."""
    # Workers inherit what the environment is now; a user gives them no more than this.
    given = {
        "ROLLTRACE_STORE": str(store),
        "ROLLTRACE_DRAIN": "off",
        "ROLLTRACE_STRICT": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])),
    }
    sys.path.insert(0, str(folder))
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # not on the workers' path, as a user's script is not
    with tempfile.TemporaryDirectory(prefix="ray") as sockets:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in given.items():
                environment.setenv(name, value)
            ray.init(
                num_cpus=4,
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=200 << 20,
                _temp_dir=sockets,
            )
        yield
        ray.shutdown()


def recorded_in(store_folder: Path, experiment: str, step: int | None = None) -> list[Trajectory]:
    """The trajectories of an experiment, by sample and rollout."""
    store = rolltrace.open(store_folder)
    rows = store.trajectories(experiment=experiment, step=step)
    found = [store.trajectory(row["trajectory_id"]) for row in rows]
    return sorted(found, key=lambda each: (each.sample_index, each.rollout_n, each.start_ns))
