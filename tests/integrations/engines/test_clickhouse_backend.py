"""The backend `clickhouse` on the real engine: the contract of all backends, whole runs, kills, lost answers."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
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


def command(server: ClickHouse, sql: str) -> None:
    client = clickhouse_connect.get_client(host="127.0.0.1", port=server.port, autogenerate_session_id=False)
    try:
        client.command(sql)
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


def steps_and_notes(server: ClickHouse, trajectory_id: str) -> tuple[list[Any], list[Any]]:
    """What a reader sees of them, in their order."""
    columns = "reward, episode_done, stop_reason, trace, fields, earlier, op_id"
    of_it = "WHERE trajectory_id = {id:String} ORDER BY position"
    steps = rows(server, f"SELECT {columns} FROM rolltrace.transitions {of_it}", id=trajectory_id)
    notes = rows(server, f"SELECT event, text, body FROM rolltrace.notes {of_it}", id=trajectory_id)
    for row in steps:
        row.update({name: json.loads(row[name]) for name in ("trace", "fields", "earlier")})
    return steps, [(row["event"], row["text"], json.loads(row["body"])) for row in notes]


def test_steps_and_notes_arrive_with_their_amendments(tmp_path: Path, clickhouse: ClickHouse) -> None:
    with rollouts(tmp_path) as lab:
        with rolltrace.rollout_trace_attr(1, step=1) as trajectory:
            trajectory.note("looks odd", author="judge")
            trajectory.transition({"prompt": "p", "env_state": {"seed": 7}}, reward=0.5, metrics={"hit": 1})
            trajectory.transition({"prompt": "q"}, episode_done=True, stop_reason="won")
            trajectory.amend_transition(turn=0, reward=1.5, metrics={"late": 2})
            trajectory.tag(level="hard")
        read = lab.read(trajectory.id)
    ClickHouseBackend().send([read])
    (first, last), notes = steps_and_notes(clickhouse, trajectory.id)
    assert (first["reward"], first["episode_done"], last["reward"]) == (1.5, None, None)
    assert first["trace"] == {"prompt": "p", "env_state": {"seed": 7}}
    assert first["fields"]["metrics"] == {"hit": 1, "late": 2}
    assert first["earlier"][0]["reward"] == 0.5
    assert (last["episode_done"], last["stop_reason"]) == (True, "won")
    assert [row["op_id"] for row in (first, last)] == [step.op_id for step in read.transitions]
    assert notes == [
        ("note", "looks odd", {"text": "looks odd", "fields": {"author": "judge"}}),
        ("tag", None, {"level": "hard"}),
    ]


def test_steps_that_are_sent_again_replace_all_that_were_there(tmp_path: Path, clickhouse: ClickHouse) -> None:
    with rollouts(tmp_path) as lab:
        with rolltrace.rollout_trace_attr(1, step=1) as trajectory:
            for turn in range(3):
                trajectory.transition({"prompt": str(turn)}, reward=float(turn))
                trajectory.note(str(turn))
        read = lab.read(trajectory.id)
    backend = ClickHouseBackend()
    backend.send([read])
    backend.send([read])
    steps, notes = steps_and_notes(clickhouse, trajectory.id)
    assert [row["reward"] for row in steps] == [0.0, 1.0, 2.0]
    assert [text for _, text, _ in notes] == ["0", "1", "2"]
    backend.send([replace(read, transitions=read.transitions[1:], notes=read.notes[:1])])
    steps, notes = steps_and_notes(clickhouse, trajectory.id)
    assert [row["reward"] for row in steps] == [1.0, 2.0]
    assert [text for _, text, _ in notes] == ["0"]


def test_lost_answers_double_no_steps_and_no_notes(tmp_path: Path, project: str, clickhouse: ClickHouse) -> None:
    rolltrace.init(project, "late", "rolltrace", store=tmp_path, drain="off")
    for sample in range(3):
        with rolltrace.rollout_trace_attr(sample, step=1) as trajectory:
            for turn in range(2):
                trajectory.transition({"prompt": "p"}, reward=float(turn))
            trajectory.note("odd")
    rolltrace.shutdown()
    clickhouse.lose_answers(5)
    sync = [sys.executable, "-m", "rolltrace", "sync", "--to", "clickhouse", str(tmp_path)]
    eventually(lambda: subprocess.run(sync, capture_output=True).returncode == 0)
    of_project = "WHERE project = {project:String}"
    for view, count in (("transitions", 6), ("notes", 3), ("trajectories", 3)):
        (row,) = rows(clickhouse, f"SELECT count() AS n FROM rolltrace.{view} {of_project}", project=project)
        assert row["n"] == count, view


@rolltrace.rollout_trace_op(kind="llm")
def answer() -> str:
    return "4"


def test_a_late_label_has_its_op_and_a_late_fate_its_reason(
    tmp_path: Path, project: str, clickhouse: ClickHouse
) -> None:
    rolltrace.init(project, "late", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(1, step=1) as trajectory:
        answer()
        trajectory.transition({"prompt": "p"}, reward=0.5)
    rolltrace.shutdown()
    sync = [sys.executable, "-m", "rolltrace", "sync", "--to", "clickhouse", str(tmp_path)]
    subprocess.run(sync, check=True, capture_output=True)
    with rolltrace.open(tmp_path) as store:
        (op,) = store.trajectory(trajectory.id).ops
        store.label(trajectory.id, "verdict", "wrong", author="ann", op_id=op.op_id)
        store.score(trajectory.id, "fate", "filtered", reason="too long")
    subprocess.run(sync, check=True, capture_output=True)
    scores = rows(
        clickhouse, "SELECT * FROM rolltrace.latest_scores WHERE trajectory_id = {id:String}", id=trajectory.id
    )
    assert {(row["name"], row["label"], row["author"], row["op_id"], row["reason"]) for row in scores} == {
        ("verdict", "wrong", "ann", op.op_id, None),
        ("fate", "filtered", None, None, "too long"),
    }
    assert len(steps_and_notes(clickhouse, trajectory.id)[0]) == 1


def test_tables_of_an_older_release_get_the_new_columns(
    tmp_path: Path, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLICKHOUSE_DATABASE", "older")
    ids = []
    with rollouts(tmp_path) as lab:
        for reward in (0.25, 0.75):
            with rolltrace.rollout_trace_attr(1, step=1) as trajectory:
                trajectory.reward(reward)
            ids.append(trajectory.id)
        old, new = (lab.read(each) for each in ids)
    ClickHouseBackend().send([old])
    command(clickhouse, "DROP VIEW older.latest_scores")
    command(clickhouse, "ALTER TABLE older.trajectory_rows DROP COLUMN score_reasons, DROP COLUMN score_op_ids")
    ClickHouseBackend().send([new])
    scores = rows(clickhouse, "SELECT value, reason, op_id FROM older.latest_scores ORDER BY value")
    assert [tuple(row.values()) for row in scores] == [(0.25, None, None), (0.75, None, None)]


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
