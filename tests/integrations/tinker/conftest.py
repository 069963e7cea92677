"""Real tinker-cookbook, no network. All of it is imported first, and rolltrace installed after that."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

# Before anything of theirs is imported.
os.environ.update(HF_HUB_OFFLINE="1", TINKER_API_KEY="tml-none", TINKER_TELEMETRY="0")

import pytest

import rolltrace
from rolltrace.integrations import tinker
from rolltrace.query import Store, Trajectory, open_store

with warnings.catch_warnings():  # some of what they use is deprecated; none of it is ours
    warnings.simplefilter("ignore")
    from . import kinds  # noqa: F401

tinker.install_when_imported()


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_STRICT", "1")


@pytest.fixture(scope="module")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def tracing(store_folder: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """On, each test as an experiment of its own."""
    rolltrace.init("tinker", request.node.name, store=store_folder, drain="off", quiet=True)
    yield
    rolltrace.shutdown()


@pytest.fixture
def store(tracing: None, store_folder: Path) -> Callable[[], Store]:
    return lambda: open_store(store_folder)


@pytest.fixture
def recorded(store: Callable[[], Store], request: pytest.FixtureRequest) -> Callable[[], list[Trajectory]]:
    """The rollouts of this test, in the order in which they began."""

    def read() -> list[Trajectory]:
        opened = store()
        rows = opened.trajectories(experiment=request.node.name, limit=None)
        return sorted((opened.trajectory(row["trajectory_id"]) for row in rows), key=lambda each: each.start_ns)

    return read
