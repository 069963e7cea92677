"""Real verl and real Ray, one session of Ray for all tests; each test is an experiment of its own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before anything of theirs is imported.
os.environ.update(HF_HUB_OFFLINE="1", RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")

import pytest

from rolltrace.query import Trajectory

with warnings.catch_warnings():  # much in verl and Ray is deprecated; none of it is ours
    warnings.simplefilter("ignore")
    import transfer_queue

    from . import parts, stand_ins
    from . import rig as rig_module
    from .rig import Rig
    from .session import (  # noqa: F401  (pytest looks for hooks and fixtures here)
        from_the_beginning,
        pytest_collection_modifyitems,
        pytest_configure,
        recorded_in,
        session,
        store_folder,
    )
    from .tiny_model import make_model


@pytest.fixture(scope="session")
def rig(store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("rig")
    with session(folder, store_folder, parts, rig_module, stand_ins):
        yield Rig(folder, make_model(folder / "model"))


@pytest.fixture
def queue(rig: Rig, experiment: str) -> Iterator[Any]:
    """That of the v1 trainer."""
    one = "transfer_queue.backend.SimpleStorage.num_data_storage_units=1"  # each takes a CPU of Ray's
    transfer_queue.init(rig.config(experiment, one).transfer_queue)
    yield transfer_queue
    transfer_queue.close()


@pytest.fixture
def experiment(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name.replace("[", "-").replace("]", "")


@pytest.fixture
def recorded(store_folder: Path, experiment: str) -> Any:
    """The trajectories of this test, by sample and rollout."""

    def read(experiment: str = experiment, step: int | None = None) -> list[Trajectory]:
        return recorded_in(store_folder, experiment, step)

    return read
