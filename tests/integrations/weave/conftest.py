"""The real Weave on this machine: its own server process, read by its own client."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SERVER_PYTHON = os.environ.get("WEAVE_SERVER_PYTHON") or str(HERE.parents[2] / ".venvs/weave-server/bin/python")
KEY = "0123456789abcdef0123456789abcdef01234567"
ENTITY = "somebody"
_UP_SEC = 120


def pytest_configure(config: pytest.Config) -> None:
    """Weave's client leaves connections open and calls what is deprecated."""
    for kind in ("DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
        config.addinivalue_line("filterwarnings", f"ignore::{kind}")


class Server:
    """Weave's trace server as a process that can be killed and started again with the same data."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / "server.log"
        self._command = [SERVER_PYTHON, str(HERE / "server.py"), str(folder / "weave.db"), str(self.port), KEY]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, batches_to_live: int = -1) -> None:
        """Start it. With a number, it dies when it has taken that many batches of calls, the last one not answered."""
        self.kill()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*self._command, str(batches_to_live)], stdout=log, stderr=log)
        until = time.monotonic() + _UP_SEC
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the server did not start: {self._log.read_text()}") from None
                time.sleep(0.2)

    def is_dead(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("weave"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """One that the test may kill."""
    server = Server(tmp_path)
    point_to(server, monkeypatch)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def server(shared_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    point_to(shared_server, monkeypatch)
    return shared_server


def point_to(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
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
def project(monkeypatch: pytest.MonkeyPatch) -> str:
    """A name of its own for each test, so that they can share a server."""
    name = f"数学-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("PROJECT", name)
    return name


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
