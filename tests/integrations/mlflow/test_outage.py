"""MLflow goes away and comes back, whoever sends is killed, many begin at once: nothing is lost, nothing is twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolltrace.backends.mlflow import MlflowBackend
from rolltrace.errors import BackendError
from rolltrace.query import Trajectory

pytestmark = pytest.mark.timeout(600)
SEND_ALL = Path(__file__).with_name("send_all.py")
Rollouts = Callable[..., list[Trajectory]]


def test_a_server_that_is_killed_and_comes_back_has_everything_once(
    server: Any, rollouts: Rollouts, agree: Any, ask: Any, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    trajectories = rollouts(workers=2, each=6)
    backend = MlflowBackend()
    backend.send(trajectories[:5])
    server.kill()
    for _ in range(2):
        with pytest.raises(Exception, match="refused") as caught:
            backend.send(trajectories[3:8])
        assert not isinstance(caught.value, BackendError), "an outage is nobody's task"
    server.start()
    backend.send(trajectories[3:])
    agree(trajectories, ask(server.url).traces(project))


def test_a_server_that_was_never_there_gets_everything_when_it_comes(
    server: Any, rollouts: Rollouts, agree: Any, ask: Any, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    server.kill()
    trajectories = rollouts()
    backend = MlflowBackend()
    with pytest.raises(Exception, match="refused"):
        backend.send(trajectories)
    server.start()
    backend.send(trajectories)
    agree(trajectories, ask(server.url).traces(project))


def test_a_sender_that_is_killed_and_starts_again_doubles_nothing(
    mlflow: Any, rollouts: Rollouts, agree: Any, store: Path, project: str
) -> None:
    trajectories = rollouts(workers=2, each=9)
    for batches in (1, 3):
        with subprocess.Popen([sys.executable, SEND_ALL, store], stdout=subprocess.PIPE) as sender:
            assert sender.stdout is not None
            for _ in range(1 + batches):
                sender.stdout.readline()
            sender.kill()
    subprocess.run([sys.executable, SEND_ALL, store], check=True)
    agree(trajectories, mlflow.traces(project))
    assert len(mlflow.runs(project)) == 1


def test_eight_processes_that_start_at_once_on_a_fresh_file_leave_one_good_database(
    rollouts: Rollouts, agree: Any, ask: Any, store: Path, project: str, tmp_path: Path
) -> None:
    trajectories = rollouts(workers=2, each=4)
    uri = f"sqlite:///{tmp_path}/new/mlflow.db"
    _send_together(8, store, uri)
    mlflow = ask(uri)
    agree(trajectories, mlflow.traces(project))
    assert [run.info.run_name for run in mlflow.runs(project)] == ["exp"]


def test_processes_that_start_at_once_agree_on_one_experiment_and_one_run(
    running_server: Any, rollouts: Rollouts, agree: Any, ask: Any, store: Path, project: str
) -> None:
    trajectories = rollouts(workers=2, each=4)
    _send_together(4, store, running_server.url)
    mlflow = ask(running_server.url)
    agree(trajectories, mlflow.traces(project))
    (run,) = mlflow.runs(project)
    assert sorted(mlflow.traces(project, f"run_id = '{run.info.run_id}'")) == sorted(mlflow.traces(project))


def _send_together(processes: int, store: Path, uri: str) -> None:
    """Each sends everything; all wait until all are there."""
    environment = {**os.environ, "MLFLOW_TRACKING_URI": uri}
    started = [
        subprocess.Popen(
            [sys.executable, SEND_ALL, store, "together"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(processes)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in started:
        process.communicate()
    assert [process.returncode for process in started] == [0] * processes
