"""The real Trackio: the contract of all backends, whole runs, kills, a database that is taken, searching."""

from __future__ import annotations

import fcntl
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trackio
from trackio.sqlite_storage import SQLiteStorage

from rolltrace.backends.trackio import TrackioBackend
from rolltrace.errors import BackendError
from rolltrace.testing import BackendContract, Seen, SeenOp, rollouts
from rolltrace.testing.contract import as_json
from tests.background import eventually
from tests.integrations.runs import EXPERIMENT, Run

COORDINATES = ("step", "sample_index", "rollout_n", "validate")


def traces(project: str, run: str, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = SQLiteStorage.get_traces(project, run=run, **query)
    return found


def ids_of(found: list[dict[str, Any]]) -> list[str]:
    return sorted(trace["metadata"]["trajectory_id"] for trace in found)


def ns(text: str) -> int:
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


class TrackioContract(BackendContract):
    time_resolution_ns: ClassVar[int] = 1_000
    project, run = "contract", "run"

    def make_backend(self) -> TrackioBackend:
        return TrackioBackend()

    def read_back(self, trajectory_id: str) -> Seen | None:
        found = [
            trace for trace in traces(self.project, self.run) if trace["metadata"]["trajectory_id"] == trajectory_id
        ]
        if not found:
            return None
        (trace,) = found  # one, not two
        known = trace["metadata"]
        return Seen(
            [
                SeenOp(
                    span["id"],
                    span.get("parent_id"),
                    span["name"],
                    span["status"] == "error",
                    span.get("input"),
                    span.get("output"),
                    span.get("error"),
                    ns(span["start_time"]),
                    ns(span["end_time"]) if "end_time" in span else None,
                )
                for span in trace["spans"]
            ],
            {"reward": known["reward"]} if "reward" in known else {},
            {**{name: str(known.get(name)) for name in COORDINATES}, "experiment": known["experiment_name"]},
            known["status"] == "error",
        )


class TestTrackio(TrackioContract):
    """All tests of the contract."""


@pytest.fixture
def contract(project: str) -> TrackioContract:
    made = TrackioContract()
    made.project, made.run = project, EXPERIMENT
    return made


def test_a_run_of_several_processes_arrives_and_can_be_searched(run: Run, contract: TrackioContract) -> None:
    ids = run.trace(range(3), 8)
    run.wait_until_sent(24)
    assert ids_of(traces(run.project, EXPERIMENT)) == sorted(ids)
    assert run.problems(ids, contract) == []
    asked = run.store
    for query, condition in (
        ({"step": 1}, "step = 1"),
        ({"search": "[step=1]"}, "step = 1"),
        ({"search": "[sample_index=样本-2]"}, "sample_index = '样本-2'"),
        ({"search": "[sample_index=3]"}, "sample_index = 3"),
        ({"search": "[rollout_n=2]"}, "rollout_n = 2"),
        ({"search": "[validate=true]"}, "validate = true"),
        ({"search": "问题 5"}, "text ~ '问题 5'"),
    ):
        expected = sorted(row["trajectory_id"] for row in asked.trajectories(where=condition))
        assert expected
        assert ids_of(traces(run.project, EXPERIMENT, **query)) == expected, query


def test_messages_are_those_of_the_conversation(run: Run) -> None:
    run.trace([0], 2)
    run.wait_until_sent(2)
    for trace in traces(run.project, EXPERIMENT):
        trajectory = run.store.trajectory(trace["metadata"]["trajectory_id"])
        assert as_json(trace["messages"]) == as_json(trajectory.conversation)
        assert [message["role"] for message in trace["messages"]][:2] == ["user", "assistant"]
        usage = [span["usage"] for span in trace["spans"] if span["kind"] == "generation"]
        assert usage == [{"input_tokens": 10, "output_tokens": 8}, {"input_tokens": 20, "output_tokens": 8}]


def test_a_trace_carries_the_viewers_address(tmp_path: Path, project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_VIEW_URL", "http://lab:7655")
    with rollouts(tmp_path, project, "run-1") as lab:
        from rolltrace import rollout_trace_attr

        with rollout_trace_attr(step=1) as made:
            pass
        TrackioBackend().send([lab.read(made.id)])
    (trace,) = traces(project, "run-1")
    assert trace["metadata"]["url"] == f"http://lab:7655/t/{made.id}"


def test_a_database_that_is_taken_delays_and_loses_nothing(run: Run, contract: TrackioContract) -> None:
    first = run.trace([0], 3)
    run.wait_until_sent(3)
    with open(SQLiteStorage.get_project_db_path(run.project).with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a process of Trackio's that hangs
        second = run.trace([1, 2], 3)
        eventually(lambda: "database lock" in str(run.state.last_error))
    run.wait_until_sent(9)
    assert ids_of(traces(run.project, EXPERIMENT)) == sorted([*first, *second])
    assert run.problems([*first, *second], contract) == []


def test_kills_of_a_worker_and_of_the_senders_lose_and_double_nothing(run: Run, contract: TrackioContract) -> None:
    ids = run.trace_with_kills(30)
    run.wait_until_sent(30)
    assert ids_of(traces(run.project, EXPERIMENT)) == sorted(ids)
    assert run.problems(ids, contract) == []


def test_traces_join_the_run_that_the_trainer_logs_to(tmp_path: Path, project: str) -> None:
    run = trackio.init(project=project, name="run-1", auto_log_gpu=False, auto_log_cpu=False)
    trackio.log({"loss": 0.5}, step=1)
    trackio.finish()
    with rollouts(tmp_path, project, "run-1") as lab:
        from rolltrace import rollout_trace_attr

        with rollout_trace_attr(step=1) as made:
            pass
        TrackioBackend().send([lab.read(made.id)])
    (trace,) = traces(project, "run-1")
    assert trace["run_id"] == run.id
    assert SQLiteStorage.get_runs(project) == ["run-1"]
    assert [log["loss"] for log in SQLiteStorage.get_logs(project, "run-1") if "loss" in log] == [0.5]


def test_values_that_trackios_json_does_not_have_are_taken(tmp_path: Path, project: str) -> None:
    from rolltrace import rollout_trace_attr, rollout_trace_op

    deep: Any = "bottom"
    for _ in range(300):
        deep = [deep]
    with rollouts(tmp_path, project, "run-1") as lab:
        with rollout_trace_attr(step=1) as made:
            rollout_trace_op(lambda value: value, name="echo")({"huge": 1 << 70, "nan": float("nan"), "deep": deep})
        TrackioBackend().send([lab.read(made.id)])
    (trace,) = traces(project, "run-1")
    (span,) = trace["spans"]
    assert span["output"]["huge"] == str(1 << 70)
    assert span["output"]["nan"] == "NaN"


@pytest.mark.parametrize("variable", ["TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"])
def test_a_trackio_elsewhere_is_a_message(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "somewhere")
    with pytest.raises(BackendError, match="trackio sync"):
        TrackioBackend()


def test_a_project_name_that_trackio_refuses_is_a_message(tmp_path: Path) -> None:
    from rolltrace import rollout_trace_attr

    with rollouts(tmp_path, "registry-x", "run-1") as lab:
        with rollout_trace_attr() as made:
            pass
        with pytest.raises(BackendError, match="does not accept this project name"):
            TrackioBackend().send([lab.read(made.id)])
