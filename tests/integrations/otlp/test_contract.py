"""What every backend promises, with MLflow's OTLP endpoint and with Phoenix."""

from __future__ import annotations

import pytest

from tests.integrations.servers import MlflowServer

from .contracts import MlflowContract, PhoenixContract
from .phoenix import PhoenixServer


class TestMlflow(MlflowContract):
    @pytest.fixture(autouse=True)
    def _server(self, mlflow_server: MlflowServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.point_to(mlflow_server, "contract", monkeypatch)


class TestPhoenix(PhoenixContract):
    @pytest.fixture(autouse=True)
    def _server(self, phoenix_server: PhoenixServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.point_to(phoenix_server, "contract", monkeypatch)
