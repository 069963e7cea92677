"""One release of verl per run: that of the environment, or of a folder before it in PYTHONPATH (see the Makefile)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rolltrace.integrations.releases import numbers
from rolltrace.integrations.verl.framework import MODULES, PLUGIN, PLUGINS_SINCE, RELEASES

# Before anything of theirs is imported; the second is what a user of such a release does.
os.environ.update(HF_HUB_OFFLINE="1", RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")
if numbers(RELEASES.version() or "") < numbers(PLUGINS_SINCE):
    os.environ[MODULES] = PLUGIN

import pytest

from rolltrace.query import Trajectory

with warnings.catch_warnings():  # much in verl and Ray is deprecated; none of it is ours
    warnings.simplefilter("ignore")
    from tests.integrations.verl import parts
    from tests.integrations.verl.session import (  # noqa: F401  (pytest looks for hooks and fixtures here)
        from_the_beginning,
        pytest_collection_modifyitems,
        pytest_configure,
        recorded_in,
        session,
        store_folder,
    )
    from tests.integrations.verl.tiny_model import make_model

    from . import rig as rig_module
    from .rig import Rig


def pytest_report_header() -> str:
    return f"verl: {RELEASES.version()}"


@pytest.fixture(scope="session")
def rig(store_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("rig")
    with session(folder, store_folder, parts, rig_module):
        yield Rig(folder, make_model(folder / "model"))


@pytest.fixture
def recorded(store_folder: Path) -> Any:
    """The trajectories of an experiment, by sample and rollout."""

    def read(experiment: str, step: int | None = None) -> list[Trajectory]:
        return recorded_in(store_folder, experiment, step)

    return read
