"""Real verl and real Ray, one session of Ray for all tests; each test is an experiment of its own."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before anything of theirs is imported.
os.environ.update(HF_HUB_OFFLINE="1", RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")

import pytest
import ray
from ray import cloudpickle

import rolltrace
from rolltrace.query import Trajectory

with warnings.catch_warnings():  # much in verl and Ray is deprecated; none of it is ours
    warnings.simplefilter("ignore")
    from verl.utils.rollout_trace import RolloutTraceConfig

    from . import rig as rig_module
    from .rig import Rig
    from .tiny_model import make_model


def pytest_configure(config: pytest.Config) -> None:
    """As above, while the tests run."""
    config.addinivalue_line("filterwarnings", "default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Importing verl alone takes long on a busy machine, in every actor."""
    for item in items:
        item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def rig(store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("rig")
    # Workers inherit what the environment is now; a user gives them no more than this.
    given = {
        "ROLLTRACE_STORE": str(store_folder),
        "ROLLTRACE_DRAIN": "off",
        "ROLLTRACE_STRICT": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])),
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    sys.path.insert(0, str(folder))
    cloudpickle.register_pickle_by_value(rig_module)  # not on the workers' path, as a user's script is not
    with tempfile.TemporaryDirectory(prefix="ray") as sockets:
        ray.init(
            num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20, _temp_dir=sockets
        )
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        yield Rig(folder, make_model(folder / "model"))
        ray.shutdown()


@pytest.fixture(autouse=True)
def _from_the_beginning(store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ROLLTRACE_STORE", str(store_folder))
    RolloutTraceConfig.reset()
    yield
    RolloutTraceConfig.reset()


@pytest.fixture
def experiment(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name.replace("[", "-").replace("]", "")


@pytest.fixture
def recorded(store_folder: Path, experiment: str) -> Any:
    """The trajectories of this test, by sample and rollout."""

    def read(experiment: str = experiment, step: int | None = None) -> list[Trajectory]:
        store = rolltrace.open(store_folder)
        rows = store.trajectories(experiment=experiment, step=step)
        found = [store.trajectory(row["trajectory_id"]) for row in rows]
        return sorted(found, key=lambda each: (each.sample_index, each.rollout_n, each.start_ns))

    return read
