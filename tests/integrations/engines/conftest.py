"""The store of the demo, recorded once and settled; ClickHouse's engine behind its HTTP interface."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.engines.answers import Rows, answer_ours
from tests.background import kill_keepers
from tests.integrations.runs import Run
from tests.integrations.servers import Server


def pytest_configure(config: pytest.Config) -> None:
    for kind in ("DeprecationWarning", "FutureWarning", "UserWarning", "ResourceWarning"):  # of what it imports
        config.addinivalue_line("filterwarnings", f"ignore::{kind}")


class ClickHouse(Server):
    """The real engine; see clickhouse_server.py."""

    health = "/ping"
    password = ""

    def command(self) -> list[str]:
        script = Path(__file__).with_name("clickhouse_server.py")
        return [sys.executable, str(script), str(self.folder), str(self.port)]

    def environment(self) -> dict[str, str]:
        return {"SERVER_PASSWORD": self.password}

    def lose_answers(self, count: int) -> None:
        """Take the next inserts and do not say so."""
        urllib.request.urlopen(f"{self.url}/lose?answers={count}", data=b"").close()


@pytest.fixture(scope="session")
def demo_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ROLLTRACE_")}
    demo = [sys.executable, "-m", "rolltrace", "demo", "--no-view"]
    subprocess.run(demo, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=plain)
    store = folder / "rolltrace-demo"
    kill_keepers(store)
    subprocess.run(
        [sys.executable, "-m", "rolltrace", "store", "compact", str(store)], check=True, stdout=subprocess.DEVNULL
    )
    return store


@pytest.fixture(scope="session")
def ours(demo_store: Path) -> list[Rows]:
    """What rolltrace answers."""
    return answer_ours(demo_store)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouse]:
    with ClickHouse(tmp_path_factory.mktemp("clickhouse")) as started:
        yield started


@pytest.fixture
def clickhouse(server: ClickHouse, monkeypatch: pytest.MonkeyPatch) -> ClickHouse:
    """The server, to which the backend is pointed."""
    monkeypatch.setenv("CLICKHOUSE_URL", server.url)
    monkeypatch.setenv("ROLLTRACE_DRAIN", "process")
    monkeypatch.setenv("ROLLTRACE_STRICT", "")  # a launcher may be killed too
    return server


@pytest.fixture
def run(tmp_path: Path, project: str, clickhouse: ClickHouse) -> Iterator[Run]:
    traced = Run(tmp_path / "store", project, "clickhouse")
    yield traced
    kill_keepers(traced.path)
