"""MLflow keeps the promises that every backend makes."""

from __future__ import annotations

from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracing.client import TracingClient

from rolltrace.backends.mlflow import MlflowBackend
from rolltrace.testing import BackendContract, Seen, SeenOp


class TestMlflow(BackendContract):
    time_resolution_ns = 0

    @pytest.fixture(autouse=True)
    def _vendor(self, mlflow: Any) -> None:
        self.client = TracingClient(mlflow.uri)

    def make_backend(self) -> MlflowBackend:
        return MlflowBackend()

    def read_back(self, trajectory_id: str) -> Seen | None:
        try:
            trace = self.client.get_trace(f"tr-{trajectory_id}")
        except MlflowException:
            return None
        tags = {**trace.info.tags, "experiment": trace.info.tags["experiment_name"]}
        return Seen(
            ops=[_op(span) for span in trace.data.spans if span.parent_id is not None],
            scores={each.name: each.value for each in trace.info.assessments},
            coordinates=tags,
            failed=trace.info.state == "ERROR",
        )


def _op(span: Any) -> SeenOp:
    return SeenOp(
        id=span.span_id,
        parent=span.parent_id,
        name=span.name,
        failed=span.status.status_code == "ERROR",
        inputs=span.inputs,
        outputs=span.outputs,
        error=span.status.description,
        start_ns=span.start_time_ns,
        end_ns=span.end_time_ns,
    )
