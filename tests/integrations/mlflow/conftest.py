"""The real MLflow: a server, and a SQLite file. What it holds is asked through its own API."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Trace
from mlflow.tracing.client import TracingClient

import rolltrace
from rolltrace.backends.mlflow import MlflowBackend
from rolltrace.query import Op, Trajectory
from rolltrace.record import to_json
from tests.draining import drain
from tests.integrations.servers import QUIET, MlflowServer

ROLLOUTS = Path(__file__).with_name("rollouts.py")
os.environ.update(QUIET)


def pytest_configure(config: pytest.Config) -> None:
    for kind in ("DeprecationWarning", "FutureWarning"):  # MLflow's own
        config.addinivalue_line("filterwarnings", f"ignore::{kind}")


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that MLflow has made its tables in, which takes it ten seconds."""
    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    subprocess.run([sys.executable, "-m", "mlflow", "db", "upgrade", f"sqlite:///{path}"], check=True)
    return path


def server_with(database: Path, folder: Path) -> MlflowServer:
    server = MlflowServer(folder)
    shutil.copy(database, folder / "mlflow.db")
    return server


@pytest.fixture(scope="session")
def running_server(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[MlflowServer]:
    with server_with(empty_database, tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def server(tmp_path: Path, empty_database: Path) -> Iterator[MlflowServer]:
    """A server for this test alone, to be killed."""
    with server_with(empty_database, tmp_path / "server") as server:
        yield server


class Mlflow:
    """What MLflow holds, asked as a user would."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.client = MlflowClient(uri)

    def experiment(self, project: str) -> str:
        return str(self.client.get_experiment_by_name(project).experiment_id)

    def traces(self, project: str, where: str | None = None, **more: Any) -> dict[str, Trace]:
        """Those that a search finds, by the id of the trajectory."""
        found = self.client.search_traces(
            locations=[self.experiment(project)], filter_string=where, max_results=500, **more
        )
        by_id = {trace.info.client_request_id: trace for trace in found}
        assert len(by_id) == len(found), "twice"
        return by_id

    def runs(self, project: str) -> list[Any]:
        return list(self.client.search_runs([self.experiment(project)]))

    def feedback(self, trajectory_id: str) -> dict[str, Any]:
        given = TracingClient(self.uri).get_trace_info(f"tr-{trajectory_id}").assessments
        assert len({each.name for each in given}) == len(given), "twice"
        return {each.name: each for each in given}


@pytest.fixture(params=["http", "sqlite"])
def mlflow(
    request: pytest.FixtureRequest, tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> Mlflow:
    """A server, and a SQLite file."""
    if request.param == "http":
        uri = request.getfixturevalue("running_server").url
    else:
        shutil.copy(empty_database, tmp_path / "mlflow.db")
        uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return Mlflow(uri)


@pytest.fixture
def backend(mlflow: Mlflow) -> MlflowBackend:
    return MlflowBackend()


@pytest.fixture
def project() -> str:
    """A name that no other test has on the same server."""
    return f"p-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def read(store: Path) -> list[Trajectory]:
    """Everything in a store, drained first."""
    drain(store)
    opened = rolltrace.open(store)
    return [opened.trajectory(row["trajectory_id"]) for row in opened.trajectories().rows()]


@pytest.fixture
def rollouts(store: Path, project: str) -> Callable[..., list[Trajectory]]:
    """Call it to let worker processes make rollouts at the same time, and to read them from the store."""

    def make(workers: int = 1, each: int = 4) -> list[Trajectory]:
        started = [
            subprocess.Popen([sys.executable, ROLLOUTS, store, project, str(n * each), str(each)])
            for n in range(workers)
        ]
        assert [worker.wait() for worker in started] == [0] * workers
        trajectories = read(store)
        assert len(trajectories) == workers * each
        return trajectories

    return make


@pytest.fixture
def traced(store: Path, project: str) -> Iterator[None]:
    """Tracing is on in this process."""
    rolltrace.init(project, "exp", "rolltrace", store=store)
    yield
    rolltrace.shutdown()


def agree(trajectories: list[Trajectory], traces: dict[str, Trace]) -> None:
    """MLflow has all of these, op by op, once, and nothing else."""
    assert sorted(traces) == sorted(each.trajectory_id for each in trajectories)
    for trajectory in trajectories:
        _agrees(trajectory, traces[trajectory.trajectory_id])


def _agrees(trajectory: Trajectory, trace: Trace) -> None:
    spans = {span.span_id: span for span in trace.data.spans}
    assert len(spans) == len(trace.data.spans)
    (root,) = [span for span in trace.data.spans if span.parent_id is None]
    assert (trace.info.trace_id, trace.info.state) == (
        f"tr-{trajectory.trajectory_id}",
        "OK" if trajectory.status == "ok" else "ERROR",
    )
    assert (root.name, root.start_time_ns, trace.info.request_time) == (
        trajectory.name,
        trajectory.start_ns,
        trajectory.start_ns // 1_000_000,
    )
    if trajectory.end_ns is not None:
        assert root.end_time_ns == trajectory.end_ns
    told = trajectory.conversation
    shown = [*((root.inputs or {}).get("messages") or []), *([root.outputs] if root.outputs else [])]
    assert shown == told
    assert len(spans) == 1 + len(list(trajectory.walk()))
    for op, parent in _with_parents(trajectory.ops, root.span_id):
        _same(op, spans[f"{op.op_id:016x}"], parent)
    rewards = {score["name"]: score["value"] for score in trajectory.scores}
    given = {each.name: each.value for each in trace.info.assessments}
    assert {name: given[name] for name in rewards} == rewards


def _same(op: Op, span: Any, parent: str) -> None:
    assert (span.name, span.parent_id, span.start_time_ns) == (op.name, parent, op.start_ns)
    assert (span.inputs, span.outputs) == (to_json(op.inputs), to_json(op.outputs))
    assert span.status.status_code.value == ("OK" if op.status == "ok" else "ERROR")
    if op.end_ns is not None:
        assert span.end_time_ns == op.end_ns
    thrown = [event.attributes for event in span.events if event.name == "exception"]
    if op.error is None:
        assert thrown == []
    else:
        (said,) = thrown
        assert f"{said['exception.type']}: {said['exception.message']}" in (op.error, f"{op.error}: ")
        assert said["exception.stacktrace"] == op.traceback


def _with_parents(ops: list[Op], parent: str) -> Iterator[tuple[Op, str]]:
    for op in ops:
        yield op, parent
        yield from _with_parents(op.children, f"{op.op_id:016x}")


@pytest.fixture(name="agree")
def _agree() -> Callable[[list[Trajectory], dict[str, Trace]], None]:
    return agree


@pytest.fixture(name="read")
def _read() -> Callable[[Path], list[Trajectory]]:
    return read


@pytest.fixture
def ask() -> Callable[[str], Mlflow]:
    """What the MLflow at an address holds."""
    return Mlflow
