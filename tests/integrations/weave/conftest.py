"""The real Weave on this machine: its own server process, read by its own client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.servers import Server

HERE = Path(__file__).parent
SERVER_PYTHON = os.environ.get("WEAVE_SERVER_PYTHON") or str(HERE.parents[2] / ".venvs/weave-server/bin/python")
KEY = "0123456789abcdef0123456789abcdef01234567"
ENTITY = "somebody"


def pytest_configure(config: pytest.Config) -> None:
    """Weave's client leaves connections open and calls what is deprecated."""
    for kind in ("DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
        config.addinivalue_line("filterwarnings", f"ignore::{kind}")


class WeaveServer(Server):
    """Weave's trace server."""

    _batches_to_live = -1

    def command(self) -> list[str]:
        database, port, batches = str(self.folder / "weave.db"), str(self.port), str(self._batches_to_live)
        return [SERVER_PYTHON, str(HERE / "server.py"), database, port, KEY, batches]

    def start(self, batches_to_live: int = -1) -> None:
        """Start it. With a number, it dies when it has taken that many batches of calls, the last one not answered."""
        self._batches_to_live = batches_to_live
        super().start()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WeaveServer]:
    with WeaveServer(tmp_path_factory.mktemp("weave")) as server:
        yield server


@pytest.fixture
def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WeaveServer]:
    """One that the test may kill."""
    with WeaveServer(tmp_path) as server:
        point_to(server, monkeypatch)
        yield server


@pytest.fixture
def server(shared_server: WeaveServer, monkeypatch: pytest.MonkeyPatch) -> WeaveServer:
    point_to(shared_server, monkeypatch)
    return shared_server


def point_to(server: WeaveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "WANDB_API_KEY": KEY,
        "WANDB_BASE_URL": server.url,
        "WF_TRACE_SERVER_URL": server.url,
        "NO_PROXY": "127.0.0.1",
        "WANDB_ERROR_REPORTING": "false",
        "WEAVE_PRINT_CALL_LINK": "false",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WANDB_ENTITY", raising=False)


@pytest.fixture
def project(project: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The worker takes it from the environment."""
    monkeypatch.setenv("PROJECT", project)
    return project


@pytest.fixture
def client(project: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Weave's own client, in the project of the test."""
    request.getfixturevalue("own_server" if "own_server" in request.fixturenames else "server")
    import weave

    yield weave.init(f"{ENTITY}/{project}")
    weave.finish()


def start_worker(store: Path, number: int, count: int, *more: str) -> subprocess.Popen[str]:
    words = [sys.executable, str(HERE / "worker.py"), str(store), str(number), str(count), *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def start_hanging(store: Path, count: int) -> tuple[subprocess.Popen[str], list[str]]:
    """A worker that has ended so many trajectories and hangs in one more, and all of these."""
    worker = start_worker(store, 9, count, "hang")
    assert worker.stdout is not None
    return worker, [worker.stdout.readline().strip() for _ in range(count + 1)]


def run_workers(store: Path, workers: int, count: int) -> list[str]:
    """Run several at once to their end; gives the trajectories that they ended."""
    started = [start_worker(store, number, count) for number in range(workers)]
    said = [worker.communicate()[0].split() for worker in started]
    assert [worker.returncode for worker in started] == [0] * workers
    return [trajectory_id for ids in said for trajectory_id in ids]
