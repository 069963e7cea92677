"""The whole way: workers trace, rolltrace's own processes send, MLflow has it; whatever is killed on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rolltrace.query import Trajectory
from tests.background import eventually, kill_keepers

pytestmark = pytest.mark.timeout(600)
ROLLOUTS = Path(__file__).with_name("rollouts.py")
Read = Callable[[Path], list[Trajectory]]


@pytest.fixture
def worker(store: Path, project: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Call it to start a worker process whose trajectories go to MLflow."""
    monkeypatch.setenv("ROLLTRACE_DRAIN", "process")
    started: list[subprocess.Popen[bytes]] = []

    def start(first: int, count: int, *more: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, ROLLOUTS, store, project, str(first), str(count), "mlflow", *more]
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    kill_keepers(store)


def sync(store: Path) -> Any:
    words = [sys.executable, "-m", "rolltrace.cli", "sync", store, "--to", "mlflow", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_workers_trace_is_sent_by_itself(
    mlflow: Any, worker: Any, agree: Any, read: Read, store: Path, project: str
) -> None:
    workers = [worker(first, 6) for first in (0, 6)]
    assert [each.wait() for each in workers] == [0, 0]

    def arrived() -> bool:
        there = mlflow.client.get_experiment_by_name(project) is not None
        return there and len(mlflow.traces(project)) == 12

    eventually(arrived)
    kill_keepers(store)
    sync(store)  # a score that came last of all
    agree(read(store), mlflow.traces(project))
    assert len(mlflow.runs(project)) == 1


def test_nothing_is_lost_or_doubled_when_worker_keeper_and_server_are_killed(
    server: Any,
    worker: Any,
    agree: Any,
    ask: Any,
    read: Read,
    store: Path,
    project: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    mlflow = ask(server.url)
    doomed, finite = worker(100, 8, "hang"), worker(0, 12)
    eventually(lambda: mlflow.client.get_experiment_by_name(project) is not None and mlflow.traces(project))
    assert kill_keepers(store) >= 1
    more = worker(20, 4)  # its start brings the keeper back
    assert more.wait() == 0
    server.kill()
    doomed.kill()
    left = doomed.communicate()[0].split()
    assert finite.wait() == 0
    kill_keepers(store)
    server.start()
    sync(store)
    trajectories = read(store)
    agree(trajectories, mlflow.traces(project))
    assert {each.decode() for each in left} <= {each.trajectory_id for each in trajectories}
    assert [each.step for each in trajectories if each.status == "interrupted"] == [99]
    assert len(mlflow.runs(project)) == 1
    told = sync(store)
    assert (told["sent"], told["updated"], told["refused"]) == (0, 0, 0)
