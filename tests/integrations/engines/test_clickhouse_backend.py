"""The backend `clickhouse` on the real engine: the contract of all backends, whole runs, kills, lost answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import clickhouse_connect
import pytest

import rolltrace
from rolltrace.backends.clickhouse import ClickHouseBackend
from rolltrace.errors import BackendError
from rolltrace.testing import BackendContract, Seen, SeenOp, rollouts
from tests.background import eventually
from tests.integrations.runs import Run

from .conftest import ClickHouse


def rows(server: ClickHouse, sql: str, **parameters: Any) -> list[dict[str, Any]]:
    client = clickhouse_connect.get_client(host="127.0.0.1", port=server.port, autogenerate_session_id=False)
    try:
        return list(client.query(sql, parameters=parameters or None).named_results())
    finally:
        client.close()


class ClickHouseContract(BackendContract):
    time_resolution_ns: ClassVar[int] = 1
    server: ClickHouse

    def make_backend(self) -> ClickHouseBackend:
        return ClickHouseBackend()

    def read_back(self, trajectory_id: str) -> Seen | None:
        found = rows(
            self.server, "SELECT * FROM rolltrace.trajectories WHERE trajectory_id = {id:String}", id=trajectory_id
        )
        if not found:
            return None
        (row,) = found  # one, not two
        ops = rows(
            self.server,
            "SELECT * FROM rolltrace.spans WHERE trajectory_id = {id:String} ORDER BY start_ns, op_id",
            id=trajectory_id,
        )
        coordinates = ("project", "experiment", "step", "sample_index", "rollout_n", "validate")
        return Seen(
            [
                SeenOp(
                    str(op["op_id"]),
                    None if op["parent_id"] is None else str(op["parent_id"]),
                    op["name"],
                    op["status"] != "ok",
                    json.loads(op["inputs"]),
                    json.loads(op["outputs"]),
                    op["error"],
                    op["start_ns"],
                    op["end_ns"],
                )
                for op in ops
            ],
            {
                name: value
                for name, value in zip(row["score_names"], row["score_values"], strict=True)
                if value is not None
            },
            {name: str(row[name]) for name in coordinates},
            row["status"] != "ok",
        )


class TestClickHouse(ClickHouseContract):
    """All tests of the contract."""

    @pytest.fixture(autouse=True)
    def _with_server(self, clickhouse: ClickHouse) -> None:
        self.server = clickhouse


@pytest.fixture
def contract(clickhouse: ClickHouse) -> ClickHouseContract:
    seen = ClickHouseContract()
    seen.server = clickhouse
    return seen


def sent(server: ClickHouse, project: str) -> list[str]:
    """The trajectories that a reader sees, each as often as it is there."""
    found = rows(
        server, "SELECT trajectory_id FROM rolltrace.trajectories WHERE project = {project:String}", project=project
    )
    return sorted(row["trajectory_id"] for row in found)


def sent_ops(server: ClickHouse, project: str) -> list[int]:
    found = rows(server, "SELECT op_id FROM rolltrace.spans WHERE project = {project:String}", project=project)
    return sorted(row["op_id"] for row in found)


def recorded_ops(run: Run) -> list[int]:
    return sorted(row["op_id"] for row in run.store.sql("select op_id from spans").rows())


def test_a_run_of_several_processes_arrives_whole(
    run: Run, clickhouse: ClickHouse, contract: ClickHouseContract
) -> None:
    ids = run.trace(range(3), 8)
    run.wait_until_sent(24)
    assert sent(clickhouse, run.project) == sorted(ids)
    assert sent_ops(clickhouse, run.project) == recorded_ops(run)
    assert run.problems(ids, contract) == []


def test_kills_of_the_senders_lose_nothing_and_double_nothing(run: Run, clickhouse: ClickHouse) -> None:
    ids = run.trace_with_kills(40)
    run.wait_until_sent(40)
    assert sent(clickhouse, run.project) == sorted(ids)
    assert sent_ops(clickhouse, run.project) == recorded_ops(run)


def test_lost_answers_double_nothing(run: Run, clickhouse: ClickHouse) -> None:
    clickhouse.lose_answers(6)
    ids = run.trace([0], 8)
    run.wait_until_sent(8)
    assert sent(clickhouse, run.project) == sorted(ids)
    assert sent_ops(clickhouse, run.project) == recorded_ops(run)


def test_an_outage_delays_and_loses_nothing(run: Run, clickhouse: ClickHouse) -> None:
    clickhouse.kill()
    try:
        ids = run.trace([0], 4)
        eventually(lambda: run.state.last_error is not None)
    finally:
        clickhouse.start()
    run.wait_until_sent(4)
    assert sent(clickhouse, run.project) == sorted(ids)


def test_sync_sends_what_was_recorded_without_it_and_once(tmp_path: Path, project: str, clickhouse: ClickHouse) -> None:
    rolltrace.init(project, "late", "rolltrace", store=tmp_path, drain="off")
    for sample in range(3):
        with rolltrace.rollout_trace_attr(sample, step=1) as trajectory:
            trajectory.reward(sample / 2, terms={"format": 1.0})
    rolltrace.shutdown()
    sync = [sys.executable, "-m", "rolltrace", "sync", "--to", "clickhouse", str(tmp_path)]
    for options in ([], [], ["--again"]):
        subprocess.run([*sync, *options], check=True, capture_output=True)
    (row,) = rows(
        clickhouse,
        "SELECT count() AS n, sum(reward) AS reward FROM rolltrace.trajectories WHERE project = {project:String}",
        project=project,
    )
    assert (row["n"], row["reward"]) == (3, 1.5)
    terms = rows(
        clickhouse,
        "SELECT name, terms FROM rolltrace.latest_scores WHERE project = {project:String}",
        project=project,
    )
    assert [(each["name"], json.loads(each["terms"])) for each in terms] == [("reward", {"format": 1.0})] * 3


def test_a_wrong_password_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = ClickHouse(tmp_path / "server")
    guarded.password = "right"
    with guarded, rollouts(tmp_path / "store") as lab:
        with rolltrace.rollout_trace_attr(step=1) as trajectory:
            pass
        monkeypatch.setenv("CLICKHOUSE_URL", guarded.url)
        monkeypatch.setenv("CLICKHOUSE_PASSWORD", "wrong")
        with pytest.raises(BackendError, match="CLICKHOUSE_PASSWORD"):
            ClickHouseBackend().send([lab.read(trajectory.id)])
        monkeypatch.setenv("CLICKHOUSE_PASSWORD", "right")
        assert ClickHouseBackend().send([lab.read(trajectory.id)]) == []


def test_a_database_that_is_no_name_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKHOUSE_DATABASE", "a; DROP DATABASE x")
    with pytest.raises(BackendError, match="plain name"):
        ClickHouseBackend()
