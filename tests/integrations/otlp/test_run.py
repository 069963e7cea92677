"""Whole runs: several rollout processes, the drainer and the sender, a receiver that goes away, kills, filters."""

from __future__ import annotations

import subprocess
import sys
import urllib.parse
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rolltrace._launch import start_drainer
from rolltrace.backends.otlp.spans import root_id
from rolltrace.keeper.outbox import Outbox
from rolltrace.query import open_store
from rolltrace.testing.contract import differences
from tests.background import eventually, kill_keepers
from tests.integrations.servers import MlflowServer

from . import reading
from .contracts import MlflowContract, PhoenixContract
from .phoenix import PhoenixServer

WORKER = Path(__file__).parents[1] / "worker.py"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "store"
    yield path
    kill_keepers(path)


@pytest.fixture
def project() -> str:
    return f"数学-{uuid.uuid4().hex[:8]}"


def start(store: Path, project: str, number: int, count: int | str) -> subprocess.Popen[str]:
    words = [sys.executable, str(WORKER), str(store), project, "otlp", str(number), str(count)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ended(workers: list[subprocess.Popen[str]]) -> list[str]:
    """The trajectories of these workers, when they are done."""
    found: list[str] = []
    for worker in workers:
        said, _ = worker.communicate(timeout=110)
        assert worker.returncode == 0
        found += said.split()
    return found


def sent(store: Path, count: int) -> bool:
    start_drainer(store)  # as the next writer would
    return Outbox(store, "otlp").state.sent == count


def problems(store: Path, ids: list[str], contract: Any) -> list[str]:
    """How what the receiver has differs from what was recorded."""
    asked = open_store(store)
    found = []
    for each in ids:
        seen, trajectory = contract.read_back(each), asked.trajectory(each)
        if seen is None:
            found.append(f"{each} is missing")
        else:
            found += differences(trajectory, seen, contract)
            if seen.scores != {"reward": trajectory.reward}:
                found.append(f"{each} has {seen.scores}, not {trajectory.reward}")
    return found


@pytest.fixture
def mlflow(mlflow_server: MlflowServer, project: str, monkeypatch: pytest.MonkeyPatch) -> MlflowContract:
    contract = MlflowContract()
    contract.point_to(mlflow_server, project, monkeypatch)
    return contract


def test_a_run_of_several_processes_arrives_in_mlflow_and_can_be_searched(
    mlflow: MlflowContract, store: Path, project: str
) -> None:
    ids = ended([start(store, project, number, 8) for number in range(3)])
    eventually(lambda: sent(store, 24))
    assert problems(store, ids, mlflow) == []
    assert mlflow.search() == set(ids)
    asked = open_store(store)
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
    tmp_path: Path, store: Path, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MlflowServer(tmp_path / "server") as server:
        contract = MlflowContract()
        contract.point_to(server, project, monkeypatch)
        first = ended([start(store, project, 0, 6)])
        eventually(lambda: sent(store, 6))
        server.kill()
        second = ended([start(store, project, number, 6) for number in (1, 2)])
        eventually(lambda: Outbox(store, "otlp").state.last_error)
        assert "cannot be reached" in str(Outbox(store, "otlp").state.last_error)
        server.start()
        eventually(lambda: sent(store, 18))
        assert contract.search() == {*first, *second}
        assert problems(store, [*first, *second], contract) == []


def test_kills_of_a_worker_and_of_the_senders_lose_and_double_nothing(
    mlflow: MlflowContract, store: Path, project: str
) -> None:
    worker = start(store, project, 0, "asked")
    assert worker.stdin is not None
    assert worker.stdout is not None
    ids = []
    for number in range(30):
        worker.stdin.write("\n")
        worker.stdin.flush()
        ids.append(worker.stdout.readline().strip())
        if number % 10 == 9:
            kill_keepers(store)
    worker.kill()
    worker.communicate()
    kill_keepers(store)
    eventually(lambda: sent(store, 30))
    assert mlflow.search() == set(ids)
    assert problems(store, ids, mlflow) == []


def test_a_run_arrives_in_phoenix_and_can_be_searched(
    phoenix_server: PhoenixServer, store: Path, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = PhoenixContract()
    contract.point_to(phoenix_server, project, monkeypatch)
    ids = ended([start(store, project, number, 8) for number in range(2)])
    eventually(lambda: sent(store, 16))
    assert problems(store, ids, contract) == []
    asked = open_store(store)
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
        spans = reading.phoenix_search(phoenix_server.url, project, searched)
        roots = {root_id(each).hex(): each for each in ids}
        scores = {span["context"]["span_id"]: span["context"]["trace_id"] for span in named(contract, "score reward")}
        assert {{**roots, **scores}[span] for span in spans if span in roots or span in scores} == expected, searched
    traces = f"{phoenix_server.url}/v1/projects/{urllib.parse.quote(project)}/traces"
    failed = reading.get(traces, limit=1000, filter="error_count > 0")["data"]
    wanted = {row["trajectory_id"] for row in asked.trajectories(where="tool_errors > 0")}
    assert {trace["trace_id"] for trace in failed} == wanted


def named(contract: PhoenixContract, name: str) -> list[dict[str, Any]]:
    return reading.phoenix_spans(contract.url, contract.project, name=name)
