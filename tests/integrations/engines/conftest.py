"""The store of the demo, recorded once, as a lake too; ClickHouse's engine behind its HTTP interface; S3 (moto)."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from benchmarks.engines import answers as engines
from rolltrace.store import remove_replaced
from tests.background import kill_keepers
from tests.integrations.engines.comparing import record_what_is_rare
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


class S3(Server):
    """S3 as moto has it."""

    health = "/moto-api/"
    bucket = "traces"
    client: Any

    def command(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]

    @property
    def address(self) -> str:
        """Of the bucket, for those to whom a bucket of a server of one's own is a URL."""
        return f"{self.url}/{self.bucket}"


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROLLTRACE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def demo_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("ROLLTRACE_")}
    demo = [sys.executable, "-m", "rolltrace", "demo", "--no-view"]
    subprocess.run(demo, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=plain)
    store = folder / "rolltrace-demo"
    # Engines that know nothing of rolltrace see the parts as they are: nothing must merge them meanwhile.
    kill_keepers(store)
    remove_replaced(store, grace_sec=0)
    return store


@pytest.fixture(scope="session")
def demo_lake(demo_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, shipped to a folder."""
    lake = tmp_path_factory.mktemp("lakes") / "it's a lake"
    ship(demo_store, str(lake))
    return lake


@pytest.fixture(scope="session")
def ours(demo_store: Path) -> list[engines.Rows]:
    """What rolltrace answers."""
    with engines.rolltrace(demo_store) as ask:
        return engines.answers(ask, "duckdb")


@pytest.fixture(scope="session")
def odd_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("odd") / "it's a store"
    record_what_is_rare(store)
    return store


def ship(store: Path, lake: str) -> None:
    ship_to = [sys.executable, "-m", "rolltrace", "ship", str(store), "--to", lake]
    subprocess.run(ship_to, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with pytest.MonkeyPatch.context() as patch, S3(tmp_path_factory.mktemp("s3")) as started:
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
        for name, value in {**keys, "AWS_ENDPOINT_URL": started.url, "AWS_ALLOW_HTTP": "true"}.items():
            patch.setenv(name, value)
        started.client = boto3.client("s3", region_name="us-east-1")
        started.client.create_bucket(Bucket=started.bucket)
        yield started


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
