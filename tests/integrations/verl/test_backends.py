"""Backends: ours beside the store, and verl's own, which the plug-in must leave as they are."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Trace

import rolltrace

from .compared import returned
from .parts import batch_of
from .rig import Rig

ENOUGH_SEC = 300
"""MLflow makes its tables first."""


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    found = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", found)
    monkeypatch.setenv("ROLLTRACE_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("ROLLTRACE_DRAIN", raising=False)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(found)
    yield found
    mlflow.set_tracking_uri(before)


def traces(project: str = "maths") -> list[Trace]:
    experiment = mlflow.get_experiment_by_name(project)
    if experiment is None:
        return []
    found: Any = mlflow.search_traces(locations=[experiment.experiment_id], return_type="list")
    return list(found)


def test_what_is_traced_goes_to_mlflow_too(rig: Rig, experiment: str, uri: str) -> None:
    output = rig.in_process(rig.config(experiment, backend="rolltrace+mlflow"), batch_of(["add", "hi"], n=2))
    rolltrace.shutdown()
    deadline = time.monotonic() + ENOUGH_SEC
    while len(found := traces()) < len(output):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
    by_place = {(each.info.tags["sample_index"], each.info.tags["rollout_n"]): each for each in found}
    assert sorted(by_place) == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]
    feedback = [
        next(each.value for each in by_place[place].info.assessments if each.name == "reward")
        for place in sorted(by_place)
    ]
    assert feedback == pytest.approx([row["reward"] for row in returned(output)])
    assert {each.info.tags["step"] for each in found} == {"3"}
    names = {span.name for span in by_place["0", "0"].data.spans}
    assert {"ToolAgentLoop.run", "LLMServerClient.generate", "add", "compute_score"} <= names


def test_verls_own_backend_does_what_it_does_without_us(rig: Rig, experiment: str, uri: str) -> None:
    output = rig.in_process(rig.config(experiment, backend="mlflow"), batch_of(["add"]))
    mlflow.flush_trace_async_logging()
    (found,) = traces()
    assert Counter(span.name for span in found.data.spans) == {
        "agent_loop": 1,
        "ToolAgentLoop.run": 1,
        "LLMServerClient.generate": 2,
        "HermesToolParser.extract_tool_calls": 2,
    }
    assert (found.info.tags["step"], found.info.tags["sample_index"]) == ("3", "0")
    assert "rolltrace" not in output.non_tensor_batch
    assert not os.path.exists(os.environ["ROLLTRACE_STORE"])
