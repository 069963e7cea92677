"""Which experiment and which run of MLflow a trajectory goes to."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.backends.mlflow import MlflowBackend
from rolltrace.backends.mlflow.place import Places
from rolltrace.errors import BackendError
from rolltrace.query import Trajectory


@pytest.fixture
def trajectory(store: Path, project: str, read: Callable[[Path], list[Trajectory]]) -> Trajectory:
    rolltrace.init(project, "exp", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(step=0):
        pass
    rolltrace.shutdown()
    (made,) = read(store)
    return made


def test_many_that_look_at_once_find_one_experiment_and_one_run(mlflow: Any, trajectory: Trajectory) -> None:
    for experiment in ("one", "two", "three"):
        wanted = replace(trajectory, experiment=experiment)
        barrier, found = threading.Barrier(6), []

        def look(wanted: Trajectory = wanted, barrier: threading.Barrier = barrier, found: list[Any] = found) -> None:
            places = Places(mlflow.uri)
            barrier.wait()
            found.append(places.of(wanted))

        threads = [threading.Thread(target=look) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 6
        assert len(set(found)) == 1
        assert {run.info.run_name for run in mlflow.runs(trajectory.project)} >= {experiment}
    assert len(mlflow.runs(trajectory.project)) == 3


def test_a_run_that_its_maker_left_undecided_is_used(mlflow: Any, trajectory: Trajectory) -> None:
    experiment_id = mlflow.client.create_experiment(trajectory.project)
    left = mlflow.client.create_run(experiment_id, run_name="exp", tags={"rolltrace.made": "true"})
    assert Places(mlflow.uri).of(trajectory).run_id == left.info.run_id


def test_the_trainers_own_run_is_found_by_its_name(mlflow: Any, backend: MlflowBackend, trajectory: Trajectory) -> None:
    experiment_id = mlflow.client.create_experiment(trajectory.project)
    run = mlflow.client.create_run(experiment_id, run_name="exp")
    mlflow.client.create_run(experiment_id, run_name="exp-2")
    backend.send([trajectory])
    assert list(mlflow.traces(trajectory.project, f"run_id = '{run.info.run_id}'")) == [trajectory.trajectory_id]
    assert len(mlflow.runs(trajectory.project)) == 2


def test_of_runs_with_the_same_name_the_one_that_the_trajectory_began_in_is_taken(
    mlflow: Any, trajectory: Trajectory
) -> None:
    experiment_id = mlflow.client.create_experiment(trajectory.project)
    first, second, third = (
        mlflow.client.create_run(experiment_id, run_name="exp", start_time=start).info.run_id
        for start in (1000, 2000, 3000)
    )
    places = Places(mlflow.uri)
    chosen = [
        places.of(replace(trajectory, start_ns=start_ms * 1_000_000)).run_id for start_ms in (5, 1000, 2999, 10_000)
    ]
    assert chosen == [first, first, second, third]


def test_a_run_that_is_named_by_its_id_is_taken_in_its_own_experiment(
    mlflow: Any, backend: MlflowBackend, trajectory: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = f"elsewhere-{uuid.uuid4().hex[:8]}"
    run = mlflow.client.create_run(mlflow.client.create_experiment(elsewhere), run_name="a trainer's")
    monkeypatch.setenv("MLFLOW_RUN_ID", run.info.run_id)
    backend.send([trajectory])
    assert list(mlflow.traces(elsewhere, f"run_id = '{run.info.run_id}'")) == [trajectory.trajectory_id]
    assert mlflow.client.get_experiment_by_name(trajectory.project) is None


def test_an_update_leaves_a_trace_where_it_is(
    mlflow: Any, backend: MlflowBackend, trajectory: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.send([trajectory])
    (run,) = mlflow.runs(trajectory.project)
    elsewhere = mlflow.client.create_experiment(f"elsewhere-{uuid.uuid4().hex[:8]}")
    monkeypatch.setenv("MLFLOW_RUN_ID", mlflow.client.create_run(elsewhere).info.run_id)
    MlflowBackend().update([trajectory])
    assert list(mlflow.traces(trajectory.project, f"run_id = '{run.info.run_id}'")) == [trajectory.trajectory_id]


@pytest.mark.parametrize("run_id", [uuid.uuid4().hex, "no id at all/"])
def test_a_run_id_that_is_wrong_is_named(
    mlflow: Any, backend: MlflowBackend, trajectory: Trajectory, monkeypatch: pytest.MonkeyPatch, run_id: str
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", run_id)
    with pytest.raises(BackendError, match="MLFLOW_RUN_ID"):
        backend.send([trajectory])


@pytest.mark.parametrize(
    "name", ["it's", 'say "hi"', "both ' and \"", "100%_off", "a\\b", "实验 🎉", "x; DROP--", "`b`"]
)
def test_a_name_may_hold_any_sign(mlflow: Any, trajectory: Trajectory, name: str) -> None:
    first, second = (Places(mlflow.uri).of(replace(trajectory, experiment=name)) for _ in range(2))
    assert first == second
    assert [run.info.run_name for run in mlflow.runs(trajectory.project)] == [name]


def test_an_experiment_that_was_deleted_is_named_with_the_way_to_bring_it_back(
    mlflow: Any, backend: MlflowBackend, trajectory: Trajectory
) -> None:
    backend.send([trajectory])
    experiment_id = mlflow.experiment(trajectory.project)
    mlflow.client.delete_experiment(experiment_id)
    for sender in (backend, MlflowBackend()):  # one that knew it, and one that looks for it now
        with pytest.raises(BackendError, match=f"mlflow experiments restore --experiment-id {experiment_id}"):
            sender.send([trajectory])
