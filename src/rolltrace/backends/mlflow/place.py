"""Where a trajectory belongs in MLflow: the experiment named as its project, the run named as its experiment.

Many processes, on many hosts, may look for the same run at once and find none; only one run may come of it. MLflow has
no lock and lets any number of runs share a name, but a run's parameter can be set only once. So every process that made
a run sets the fate of all that it sees: the first by id is kept, the others are dropped, and none counts before it is
kept. Whoever sees fewer runs than another has its choice dropped by the other, or has been faster and is followed.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from rolltrace.errors import BackendError

if TYPE_CHECKING:
    from rolltrace.query import Trajectory

_FRESH_SEC = 30.0
"""How long a run is taken for the newest of its name: a training run that is started again makes another."""
_MADE = "rolltrace.made"
_FATE = "rolltrace.fate"
_KEPT, _DROPPED = "kept", "dropped"
_MAX_TRIES = 20


class MlflowPlace(NamedTuple):
    """An MLflow experiment and a run in it."""

    experiment_id: str
    run_id: str


class _LookedUp(NamedTuple):
    until: float
    experiment_id: str
    runs: list[Any]
    """The oldest first."""


class Places:
    """Finds the place of each trajectory, and makes what is not there."""

    def __init__(self, tracking_uri: str) -> None:
        self._client = MlflowClient(tracking_uri)
        self._looked_up: dict[tuple[str, str], _LookedUp] = {}

    def of(self, trajectory: Trajectory) -> MlflowPlace:
        """The newest run that was there when the trajectory began, whenever this is asked; else the oldest."""
        names = trajectory.project, trajectory.experiment
        looked_up = self._looked_up.get(names)
        if looked_up is None or looked_up.until < time.monotonic():
            looked_up = self._looked_up[names] = self._look_up(trajectory)
        began_ms = trajectory.start_ns // 1_000_000
        before = [run for run in looked_up.runs if run.info.start_time <= began_ms]
        return MlflowPlace(looked_up.experiment_id, (before[-1] if before else looked_up.runs[0]).info.run_id)

    def forget(self) -> None:
        """Look everything up again: something there has changed."""
        self._looked_up.clear()

    def _look_up(self, trajectory: Trajectory) -> _LookedUp:
        run_id = os.environ.get("MLFLOW_RUN_ID")
        if run_id:
            runs = [self._run(run_id)]
            experiment_id = runs[0].info.experiment_id  # wherever that is: a trace shows from a run beside it
        else:
            experiment_id = self._experiment(trajectory.project)
            runs = self._runs(experiment_id, trajectory)
        return _LookedUp(time.monotonic() + _FRESH_SEC, experiment_id, runs)

    def _run(self, run_id: str) -> Any:
        try:
            run = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise
            run = None
        if run is None or run.info.lifecycle_stage != "active":
            raise BackendError(
                f"MLFLOW_RUN_ID={run_id!r}: MLflow has no such run; unset it, or set it to the id of an existing run"
            )
        return run

    def _experiment(self, name: str) -> str:
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            experiment = self._client.get_experiment_by_name(name)  # somebody was faster
        if experiment.lifecycle_stage != "active":
            raise BackendError(
                f"the MLflow experiment {name!r} was deleted; "
                f"mlflow experiments restore --experiment-id {experiment.experiment_id}"
            )
        return str(experiment.experiment_id)

    def _runs(self, experiment_id: str, trajectory: Trajectory) -> list[Any]:
        """Those of the experiment's name, the oldest first, at least one."""
        for _ in range(_MAX_TRIES):
            runs = self._named(experiment_id, trajectory.experiment)
            settled = [run for run in runs if _MADE not in run.data.tags or run.data.params.get(_FATE) == _KEPT]
            loose = [run for run in runs if run not in settled]
            if settled and not loose:
                return settled
            if loose:
                undecided = min((run.info.run_id for run in loose if _FATE not in run.data.params), default=None)
                self._decide(None if settled else undecided, [run.info.run_id for run in loose])
            else:
                self._client.create_run(
                    experiment_id,
                    start_time=trajectory.start_ns // 1_000_000,
                    run_name=trajectory.experiment,
                    tags={_MADE: "true", "mlflow.source.name": "rolltrace"},
                )
        raise ConnectionError(f"no MLflow run {trajectory.experiment!r} could be agreed on")

    def _decide(self, winner: str | None, loose: list[str]) -> None:
        try:
            for other in loose:
                if other != winner:
                    self._client.log_param(other, _FATE, _DROPPED, synchronous=True)
                    self._client.delete_run(other)
            if winner is not None:
                self._client.log_param(winner, _FATE, _KEPT, synchronous=True)
                self._client.update_run(winner, status="FINISHED")  # nothing runs in it
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE":  # that one says: decided by somebody else
                raise

    def _named(self, experiment_id: str, name: str) -> list[Any]:
        # The filter has no way to write a quote; `_` is any character.
        like = name.replace("'", "_")
        runs = self._client.search_runs(
            [experiment_id], f"attributes.run_name LIKE '{like}'", order_by=["attributes.start_time ASC"]
        )
        return [run for run in runs if run.info.run_name == name]
