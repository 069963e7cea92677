"""Real receivers on this machine, shared by the tests that do not kill them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.background import kill_keepers
from tests.integrations.runs import Run
from tests.integrations.servers import MlflowServer

from .phoenix import PhoenixServer


def pytest_configure(config: pytest.Config) -> None:
    for kind in ("DeprecationWarning", "FutureWarning", "UserWarning", "ResourceWarning"):  # MLflow's
        config.addinivalue_line("filterwarnings", f"ignore::{kind}")
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with MlflowServer(tmp_path_factory.mktemp("mlflow")) as server:
        yield server


@pytest.fixture(scope="session")
def phoenix_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PhoenixServer]:
    with PhoenixServer(tmp_path_factory.mktemp("phoenix")) as server:
        yield server


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("ROLLTRACE_DRAIN", "process")
    monkeypatch.setenv("ROLLTRACE_STRICT", "")  # a launcher may be killed too


@pytest.fixture
def run(tmp_path: Path, project: str) -> Iterator[Run]:
    made = Run(tmp_path / "store", project, "otlp")
    yield made
    kill_keepers(made.path)
