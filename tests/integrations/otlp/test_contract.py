"""The contract of all backends, with MLflow's OTLP endpoint and with Phoenix."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rolltrace.backends.otlp import OtlpBackend
from rolltrace.testing import BackendContract, Seen
from rolltrace.testing.contract import as_json

sys.path.insert(0, str(Path(__file__).parent))
import reading  # noqa: E402


def same(recorded: Any, seen: Any) -> bool:
    """As it was, or cut with a mark."""
    if isinstance(seen, str) and "[cut by rolltrace" in seen:
        return as_json(recorded).startswith(seen.partition("... [cut")[0])
    return as_json(recorded) == as_json(seen)


class TestMlflow(BackendContract):
    time_resolution_ns: ClassVar[int] = 0
    client: Any

    @pytest.fixture(autouse=True)
    def _server(self, mlflow_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        import mlflow

        self.client = mlflow.MlflowClient(mlflow_server.url)
        found = self.client.get_experiment_by_name("contract")
        number = found.experiment_id if found else self.client.create_experiment("contract")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", mlflow_server.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-mlflow-experiment-id={number}")
        yield

    def make_backend(self) -> OtlpBackend:
        return OtlpBackend()

    def read_back(self, trajectory_id: str) -> Seen | None:
        return reading.from_mlflow(self.client, trajectory_id)

    def same_value(self, recorded: Any, seen: Any) -> bool:
        return same(recorded, seen)


class TestPhoenix(BackendContract):
    url: str

    @pytest.fixture(autouse=True)
    def _server(self, phoenix_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", phoenix_server.url + "/v1/traces")
        self.url = phoenix_server.url

    def make_backend(self) -> OtlpBackend:
        return OtlpBackend()

    def read_back(self, trajectory_id: str) -> Seen | None:
        """It answers before it has written: we look until nothing more comes."""
        before, found = None, reading.from_phoenix(self.url, "contract", trajectory_id)
        deadline = time.monotonic() + 30
        while (found is None or found != before) and time.monotonic() < deadline:
            time.sleep(1.0)
            before, found = found, reading.from_phoenix(self.url, "contract", trajectory_id)
        return found

    def same_value(self, recorded: Any, seen: Any) -> bool:
        return same(recorded, seen)
