"""Whole runs: several rollout processes, the drainer and the sender, a receiver that goes away, kills, filters."""

from __future__ import annotations

import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from rolltrace._own_spans import root_id
from tests.background import eventually
from tests.integrations.runs import Run
from tests.integrations.servers import MlflowServer

from . import reading
from .contracts import MlflowContract, PhoenixContract
from .phoenix import PhoenixServer


@pytest.fixture
def mlflow(mlflow_server: MlflowServer, project: str, monkeypatch: pytest.MonkeyPatch) -> MlflowContract:
    contract = MlflowContract()
    contract.point_to(mlflow_server, project, monkeypatch)
    return contract


def test_a_run_of_several_processes_arrives_in_mlflow_and_can_be_searched(run: Run, mlflow: MlflowContract) -> None:
    ids = run.trace(range(3), 8)
    run.wait_until_sent(24)
    assert run.problems(ids, mlflow) == []
    assert mlflow.search() == set(ids)
    asked = run.store
    for tag, condition in {
        "tags.step = '1'": "step = 1",
        "tags.sample_index = '样本-2'": "sample_index = '样本-2'",
        "tags.sample_index = '3'": "sample_index = 3",
        "tags.rollout_n = '2'": "rollout_n = 2",
        "tags.validate = 'true'": "validate = true",
        "tags.experiment_name = '试验 1'": "experiment = '试验 1'",
    }.items():
        expected = {row["trajectory_id"] for row in asked.trajectories(where=condition)}
        assert expected
        assert mlflow.search(tag) == expected, tag


def test_mlflow_stopped_in_the_middle_gets_everything_when_it_is_back(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MlflowServer(tmp_path / "server") as server:
        contract = MlflowContract()
        contract.point_to(server, run.project, monkeypatch)
        first = run.trace([0], 6)
        run.wait_until_sent(6)
        server.kill()
        second = run.trace([1, 2], 6)
        eventually(lambda: run.state.last_error)
        assert "cannot be reached" in str(run.state.last_error)
        server.start()
        run.wait_until_sent(18)
        assert contract.search() == {*first, *second}
        assert run.problems([*first, *second], contract) == []


def test_kills_of_a_worker_and_of_the_senders_lose_and_double_nothing(run: Run, mlflow: MlflowContract) -> None:
    ids = run.trace_with_kills(30)
    run.wait_until_sent(30)
    assert mlflow.search() == set(ids)
    assert run.problems(ids, mlflow) == []


def test_a_run_arrives_in_phoenix_and_can_be_searched(
    run: Run, phoenix_server: PhoenixServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = PhoenixContract()
    contract.point_to(phoenix_server, run.project, monkeypatch)
    ids = run.trace(range(2), 8)
    run.wait_until_sent(16)
    assert run.problems(ids, contract) == []
    asked = run.store
    for searched, condition in {
        "attributes['rl']['step'] == 1": "step = 1",
        "attributes['rl']['rollout_n'] == 1": "rollout_n = 1",
        "attributes['rl']['sample_index'] == '样本-2'": "sample_index = '样本-2'",
        "attributes['rl']['sample_index'] == '3'": "sample_index = 3",
        "attributes['rl']['validate'] == True": "validate = true",
        "attributes['rl']['experiment'] == '试验 1'": "experiment = '试验 1'",
        "attributes['rl']['reward'] > 0.35": "reward > 0.35",
    }.items():
        expected = {row["trajectory_id"] for row in asked.trajectories(where=condition)}
        assert expected
        spans = reading.phoenix_search(phoenix_server.url, run.project, searched)
        roots = {root_id(each).hex(): each for each in ids}
        scores = {span["context"]["span_id"]: span["context"]["trace_id"] for span in named(contract, "score reward")}
        assert {{**roots, **scores}[span] for span in spans if span in roots or span in scores} == expected, searched
    traces = f"{phoenix_server.url}/v1/projects/{urllib.parse.quote(run.project)}/traces"
    failed = reading.get(traces, limit=1000, filter="error_count > 0")["data"]
    wanted = {row["trajectory_id"] for row in asked.trajectories(where="tool_errors > 0")}
    assert {trace["trace_id"] for trace in failed} == wanted


def named(contract: PhoenixContract, name: str) -> list[dict[str, Any]]:
    return reading.phoenix_spans(contract.url, contract.project, name=name)
