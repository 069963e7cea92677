"""The contract of all backends, with the receivers' own ways of being read."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import pytest

from rolltrace.backends.otlp import OtlpBackend
from rolltrace.testing import BackendContract, Seen
from rolltrace.testing.contract import as_json
from tests.integrations.servers import MlflowServer

from . import reading
from .phoenix import PhoenixServer


class OtlpContract(BackendContract):
    def make_backend(self) -> OtlpBackend:
        return OtlpBackend()

    def same_value(self, recorded: Any, seen: Any) -> bool:
        """As it was, or cut with a mark."""
        if isinstance(seen, str) and "[cut by rolltrace" in seen:
            return as_json(recorded).startswith(seen.partition("... [cut")[0])
        return as_json(recorded) == as_json(seen)


class MlflowContract(OtlpContract):
    time_resolution_ns: ClassVar[int] = 0
    client: Any
    experiment_id: str

    def point_to(self, server: MlflowServer, experiment: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Send to an experiment of this server, and read from there."""
        import mlflow

        self.client = mlflow.MlflowClient(server.url)
        found = self.client.get_experiment_by_name(experiment)
        self.experiment_id = found.experiment_id if found else self.client.create_experiment(experiment)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-mlflow-experiment-id={self.experiment_id}")

    def read_back(self, trajectory_id: str) -> Seen | None:
        return reading.from_mlflow(self.client, trajectory_id)

    def search(self, filter_string: str | None = None) -> set[str]:
        """The trajectories that MLflow's search finds; none twice."""
        traces = self.client.search_traces([self.experiment_id], filter_string, max_results=400)
        ids = [trace.info.trace_id.removeprefix("tr-") for trace in traces]
        assert len(ids) == len(set(ids))
        return set(ids)


class PhoenixContract(OtlpContract):
    url: str
    project: str

    def point_to(self, server: PhoenixServer, project: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.url + "/v1/traces")
        self.url, self.project = server.url, project

    def read_back(self, trajectory_id: str) -> Seen | None:
        """It answers before it has written: we look until nothing more comes."""
        before, found = None, reading.from_phoenix(self.url, self.project, trajectory_id)
        deadline = time.monotonic() + 30
        while (found is None or found != before) and time.monotonic() < deadline:
            time.sleep(1.0)
            before, found = found, reading.from_phoenix(self.url, self.project, trajectory_id)
        return found
