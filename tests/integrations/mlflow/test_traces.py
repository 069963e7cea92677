"""Everything that was recorded is in MLflow, once, as it was, and is found by its coordinates and from its run."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import AssessmentSource, Feedback
from mlflow.tracing.client import TracingClient

import rolltrace
from rolltrace.backends.mlflow import MlflowBackend
from rolltrace.query import Trajectory

ROLLOUTS = Path(__file__).with_name("rollouts.py")
Read = Callable[[Path], list[Trajectory]]


@rolltrace.rollout_trace_op
def give(value: Any) -> Any:
    return value


def test_what_worker_processes_recorded_is_there_op_by_op(
    mlflow: Any, backend: MlflowBackend, rollouts: Any, agree: Any, project: str
) -> None:
    trajectories = rollouts(workers=3, each=8)
    assert backend.send(trajectories) == []
    agree(trajectories, mlflow.traces(project))
    assert {op.status for each in trajectories for op in each.walk()} == {"ok", "error", "cancelled"}


def test_sent_twice_is_there_once(mlflow: Any, backend: MlflowBackend, rollouts: Any, agree: Any, project: str) -> None:
    trajectories = rollouts(each=6)
    backend.send(trajectories)
    once = {key: trace.to_json() for key, trace in mlflow.traces(project).items()}
    MlflowBackend().send(trajectories)  # as after a crash
    backend.send(trajectories[:2])
    agree(trajectories, mlflow.traces(project))
    assert {key: trace.to_json() for key, trace in mlflow.traces(project).items()} == once


def test_a_trace_carries_the_viewers_address_and_the_viewer_that_of_the_trace(
    mlflow: Any, backend: MlflowBackend, rollouts: Any, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLTRACE_VIEW_URL", "http://lab:7655/")
    (trajectory,) = rollouts(each=1)
    backend.send([trajectory])
    trace = mlflow.traces(project)[trajectory.trajectory_id]
    assert trace.info.tags["rolltrace.url"] == f"http://lab:7655/t/{trajectory.trajectory_id}"
    links = backend.links(trajectory)
    if mlflow.uri.startswith("sqlite"):
        assert links == {}
        return
    (run,) = mlflow.runs(project)
    experiment = f"{mlflow.uri}/#/experiments/{mlflow.experiment(project)}"
    assert links == {
        "MLflow run": f"{experiment}/runs/{run.info.run_id}",
        "MLflow trace": f"{experiment}/traces?selectedEvaluationId=tr-{{id}}&traceId=tr-{{id}}",
    }


FILTERS: dict[str, set[int]] = {
    "tags.step = '1'": {4, 5, 6, 7},
    "tags.sample_index = '样本-2'": {4, 5},
    "tags.rollout_n = '1'": {1, 3, 5, 7},
    "tags.validate = 'True'": {0, 5},
    "tags.experiment_name = 'exp'": set(range(8)),
    "tags.step = '1' AND tags.rollout_n = '0'": {4, 6},
    "tags.difficulty = '困难'": set(range(8)),
    "tags.flags LIKE '%tool_error%'": set(range(8)),
    "tags.`rolltrace.status` = 'error'": {6},
    "trace.status = 'ERROR'": {6},
    "feedback.reward = '0.5'": {4},
    "feedback.reward = '100.375'": {3},
    "feedback.`reward/correct` = '0.25'": {1},
    "span.name = 'wait_for_ever'": {1, 5},
    "span.type = 'TOOL'": set(range(8)),
    "span.attributes.rolltrace.policy_version LIKE '%7%'": set(range(8)),
}


def test_every_coordinate_can_be_filtered_by(mlflow: Any, backend: MlflowBackend, rollouts: Any, project: str) -> None:
    backend.send(rollouts(each=8))
    found = {where: {_number(trace) for trace in mlflow.traces(project, where).values()} for where in FILTERS}
    assert found == FILTERS


def _number(trace: Any) -> int:
    (span,) = trace.search_spans(name="agent")
    return int(span.inputs["number"])


def test_the_traces_are_found_from_their_run(
    mlflow: Any, backend: MlflowBackend, rollouts: Any, agree: Any, project: str
) -> None:
    trajectories = rollouts()
    backend.send(trajectories)
    (run,) = mlflow.runs(project)
    assert run.info.run_name == "exp"
    agree(trajectories, mlflow.traces(project, f"run_id = '{run.info.run_id}'"))


def test_tokens_and_previews_are_shown(mlflow: Any, backend: MlflowBackend, rollouts: Any, project: str) -> None:
    trajectories = rollouts(each=1)
    backend.send(trajectories)
    (trace,) = mlflow.traces(project).values()
    (trajectory,) = trajectories
    made = sum(len(tokens.response_ids or ()) for tokens in trajectory.tokens)
    assert trace.info.token_usage == {"input_tokens": 600, "output_tokens": made, "total_tokens": 600 + made}
    assert (trace.info.request_preview, trace.info.response_preview) == ("问题 0", "第 6 轮回答 🎉")
    first = trace.search_spans(name="generate")[0]
    assert first.span_type == "CHAT_MODEL"
    assert (first.attributes["rolltrace.policy_version"], first.attributes["rolltrace.finish_reason"]) == (7, "stop")


VALUES: list[Any] = [
    '{"a": 1}', '["b"]', '"c"', "1", "", "null", "行\n🎉\u2028", "lone \ud800", "\x00\x1b[31m", {}, [],
    {"": [None, {}]}, [0, -1, 2**53 + 1, 2**63 - 1], 2**63, [-(2**70)], True, None, 1e300, -0.0, math.nan,
    [1.0, -math.inf], {"a": "{}"},
]  # fmt: skip
SHOWN = {repr(math.nan): {"$float": "nan"}, repr([1.0, -math.inf]): [1.0, {"$float": "-inf"}]}
SHOWN |= {repr(2**63): {"$int": "0x8000000000000000"}, repr([-(2**70)]): [{"$int": "-0x400000000000000000"}]}


@pytest.mark.usefixtures("traced")
def test_values_come_back_as_they_were(
    mlflow: Any, backend: MlflowBackend, agree: Any, read: Read, store: Path, project: str
) -> None:
    with rolltrace.rollout_trace_attr(step=0):
        for value in VALUES:
            give(value)
    (trajectory,) = read(store)
    backend.send([trajectory])
    (trace,) = mlflow.traces(project).values()
    spans = sorted(trace.search_spans(name="give"), key=lambda span: span.start_time_ns)
    for op, span in zip(trajectory.ops, spans, strict=True):
        shown = SHOWN.get(repr(op.outputs), op.outputs)
        assert (span.inputs, span.outputs) == ({"value": shown}, shown)
    assert [span.outputs for span in spans[:6]] == VALUES[:6], "text that is JSON stays text"


@pytest.mark.usefixtures("traced")
def test_a_long_payload_is_kept_whole(
    mlflow: Any, backend: MlflowBackend, agree: Any, read: Read, store: Path, project: str
) -> None:
    with rolltrace.rollout_trace_attr(step=0, note="长" * 10_000):
        for letter in "长文本":
            give(letter * 700_000)  # more than a request, together
        give(list(range(20_000)))
    trajectories = read(store)
    backend.send(trajectories)
    agree(trajectories, mlflow.traces(project))
    (trace,) = mlflow.traces(project).values()
    assert trace.info.tags["note"] == "长" * 4093 + "..."
    assert len(trace.info.request_preview) == 1000


@pytest.mark.usefixtures("traced")
def test_a_users_tag_does_not_replace_ours(
    mlflow: Any, backend: MlflowBackend, read: Read, store: Path, project: str
) -> None:
    with rolltrace.rollout_trace_attr(step=3, worker="mine", **{"mlflow.traceName": "x", "score": 0.5}) as trajectory:
        give(1)
    backend.send(read(store))
    tags = mlflow.traces(project)[trajectory.id].info.tags
    assert (tags["tag.worker"], tags["tag.mlflow.traceName"], tags["score"]) == ("mine", "x", "0.5")
    assert (tags["step"], tags["mlflow.traceName"]) == ("3", "rollout_trace")


@pytest.mark.usefixtures("traced")
def test_notes_and_transitions_are_events_of_their_op(
    mlflow: Any, backend: MlflowBackend, read: Read, store: Path, project: str
) -> None:
    @rolltrace.rollout_trace_op
    def step() -> None:
        trajectory.note("里面")
        trajectory.transition({"prompt": "p"}, reward=0.5, episode_done=True)

    with rolltrace.rollout_trace_attr(step=3) as trajectory:
        trajectory.note("outside")
        step()
    backend.send(read(store))
    inner, root = sorted(mlflow.traces(project)[trajectory.id].data.spans, key=lambda span: span.parent_id is None)
    assert [(event.name, event.attributes.get("reward")) for event in inner.events] == [
        ("transition", 0.5),
        ("note", None),
    ]
    assert ["outside" in str(event.attributes["note"]) for event in root.events] == [True]


def test_a_worker_that_is_killed_loses_nothing(
    mlflow: Any, backend: MlflowBackend, agree: Any, read: Read, store: Path, project: str
) -> None:
    command = [sys.executable, ROLLOUTS, store, project, "0", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        left = [worker.stdout.readline().strip() for _ in range(10)]
        worker.kill()
        left += worker.stdout.read().split()
    trajectories = read(store)
    backend.send(trajectories)
    traces = mlflow.traces(project)
    agree(trajectories, traces)
    assert set(left) <= set(traces)


@pytest.mark.usefixtures("traced")
def test_what_was_interrupted_is_an_error_that_ends_with_the_last_that_is_known(
    mlflow: Any, backend: MlflowBackend, read: Read, store: Path, project: str
) -> None:
    open_for_ever = rolltrace.rollout_trace_attr(step=0)
    open_for_ever.__enter__()
    give(1)
    rolltrace.shutdown()
    (trajectory,) = read(store)
    assert trajectory.status == "interrupted"
    backend.send([trajectory])
    (trace,) = mlflow.traces(project).values()
    root = next(span for span in trace.data.spans if span.parent_id is None)
    assert (trace.info.state, root.status.description) == ("ERROR", "interrupted")
    assert root.end_time_ns == trajectory.ops[0].end_ns


@pytest.mark.usefixtures("traced")
def test_a_late_score_replaces_the_one_before(
    mlflow: Any, backend: MlflowBackend, read: Read, store: Path, project: str
) -> None:
    with rolltrace.rollout_trace_attr(step=0) as handle:
        give(1)
        handle.reward(0.25, terms={"format": 1.0, "length": 0.5})
    backend.send(read(store))
    assert {name: each.value for name, each in mlflow.feedback(handle.id).items()} == {
        "reward": 0.25,
        "reward/format": 1.0,
        "reward/length": 0.5,
    }
    human = Feedback(name="reward", value="nonsense", source=AssessmentSource("HUMAN", "someone"))
    TracingClient(mlflow.uri).log_assessment(f"tr-{handle.id}", human)
    handle.reward(0.75, terms={"format": 0.0})
    for _ in range(2):
        backend.update(read(store))
    given = TracingClient(mlflow.uri).get_trace_info(f"tr-{handle.id}").assessments
    assert sorted((each.name, each.value) for each in given if each.source.source_type == "CODE") == [
        ("reward", 0.75),
        ("reward/format", 0.0),
    ]
    assert [each.value for each in given if each.source.source_type == "HUMAN"] == ["nonsense"]


@pytest.mark.usefixtures("traced")
def test_scores_of_every_kind_are_feedback(
    mlflow: Any, backend: MlflowBackend, read: Read, store: Path, project: str
) -> None:
    with rolltrace.rollout_trace_attr(step=0) as handle:
        handle.reward(
            math.nan, terms={"nested": {"a": [1]}, "said": "不好", "words": "好", "is_right": True, "large": math.inf}
        )
    (trajectory,) = read(store)
    reward = trajectory.scores[0]
    trajectory.scores.append(replace(reward, name="fate", value=None, terms=None, label="filtered", reason="过长"))
    trajectory.scores.append(replace(reward, name="judge", value=3.0, terms=None, label="good"))
    trajectory.scores.append(replace(reward, name="reward/said", value=1.0, terms={"empty": None}))
    backend.send([trajectory])
    given = mlflow.feedback(handle.id)
    assert {name: each.value for name, each in given.items()} == {
        "reward": "nan",
        "reward/nested": '{"a": [1]}',
        "reward/said": 1.0,
        "reward/words": "好",
        "reward/is_right": True,
        "reward/large": "inf",
        "fate": "filtered",
        "judge": 3.0,
    }
    assert (given["fate"].rationale, given["judge"].metadata) == ("过长", {"label": "good"})


@pytest.mark.usefixtures("traced")
def test_an_update_does_not_bring_back_what_somebody_deleted(
    mlflow: Any, backend: MlflowBackend, read: Read, store: Path, project: str
) -> None:
    for number in range(2):
        with rolltrace.rollout_trace_attr(step=number):
            give(1)
    trajectories = read(store)
    backend.send(trajectories)
    gone, kept = (each.trajectory_id for each in trajectories)
    mlflow.client.delete_traces(mlflow.experiment(project), trace_ids=[f"tr-{gone}"])
    backend.update(trajectories)
    assert list(mlflow.traces(project)) == [kept]
