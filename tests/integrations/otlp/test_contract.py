"""What every backend promises, with MLflow's OTLP endpoint and with Phoenix."""

from __future__ import annotations

import pytest
from contracts import MlflowContract, PhoenixContract
from servers import Mlflow, Phoenix


class TestMlflow(MlflowContract):
    @pytest.fixture(autouse=True)
    def _server(self, mlflow_server: Mlflow, monkeypatch: pytest.MonkeyPatch) -> None:
        self.point_to(mlflow_server, "contract", monkeypatch)


class TestPhoenix(PhoenixContract):
    @pytest.fixture(autouse=True)
    def _server(self, phoenix_server: Phoenix, monkeypatch: pytest.MonkeyPatch) -> None:
        self.point_to(phoenix_server, "contract", monkeypatch)
