"""How requests are made up and what is done about refused ones; what Weave makes of them is in tests/integrations."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.backends.weave import WeaveBackend
from rolltrace.errors import BackendError
from rolltrace.query import Trajectory

Record = Callable[[Callable[[], None]], list[Trajectory]]
CALLS = "/traces/v2/me/maths/calls/complete"


@rolltrace.rollout_trace_op
def echo(text: str) -> str:
    return text


@pytest.fixture
def weave(service: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> WeaveBackend:
    """A backend, before a service that has nothing yet and takes everything."""
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("WANDB_BASE_URL", service.url)
    monkeypatch.setenv("WANDB_ENTITY", "me")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("WF_TRACE_SERVER_URL", raising=False)
    service.answers |= {
        "/graphql": lambda body: (200, {"data": {"project": {"name": "maths"}}}),
        "/traces/file/create": lambda body: (200, {"digest": "source"}),
        "/traces/obj/create": lambda body: (200, {"digest": "object"}),
        "/traces/calls/stream_query": lambda body: (200, {"id": "another"}),
        "/traces/feedback/query": lambda body: (200, {"result": []}),
        "/traces/feedback/batch/create": lambda body: (200, {}),
        CALLS: lambda body: (200, {}),
    }
    return WeaveBackend()


def rollouts(count: int, size: int) -> Callable[[], None]:
    def program() -> None:
        for number in range(count):
            with rolltrace.rollout_trace_attr(sample_index=number, step=1) as trajectory:
                echo("x" * size)
            trajectory.reward(number)

    return program


def sent(service: Any, path: str) -> list[list[dict[str, Any]]]:
    return [json.loads(body)["batch"] for asked, _, body in service.asked if asked == path]


def test_many_small_trajectories_go_in_one_request(weave: WeaveBackend, service: Any, recorded: Record) -> None:
    assert weave.send(recorded(rollouts(20, 10))) == []
    assert [len(batch) for batch in sent(service, CALLS)] == [40]
    assert [len(batch) for batch in sent(service, "/traces/feedback/batch/create")] == [20]


def test_large_ones_go_in_several(weave: WeaveBackend, service: Any, recorded: Record) -> None:
    weave.send(recorded(rollouts(9, 900_000)))
    sizes = [len(body) for path, _, body in service.asked if path == CALLS]
    assert sum(len(batch) for batch in sent(service, CALLS)) == 18
    assert len(sizes) == 3
    assert max(sizes) < 9_000_000


def test_calls_name_their_op_which_is_published_once(weave: WeaveBackend, service: Any, recorded: Record) -> None:
    weave.send(recorded(rollouts(2, 10)))
    names = [call["op_name"] for batch in sent(service, CALLS) for call in batch]
    assert names == ["weave:///me/maths/op/rollout_trace:object", "weave:///me/maths/op/echo:object"] * 2
    published = [json.loads(body)["obj"]["object_id"] for path, _, body in service.asked if path.endswith("obj/create")]
    assert published == ["rollout_trace", "echo", "reward"]


def test_a_refused_call_costs_its_own_trajectory_alone(weave: WeaveBackend, service: Any, recorded: Record) -> None:
    trajectories = recorded(rollouts(10, 10))
    culprit = trajectories[6].trajectory_id.encode()
    taken: list[Any] = []

    def answer(body: bytes) -> tuple[int, Any]:
        if culprit in body:
            return 422, {"detail": "no"}
        taken.extend(json.loads(body)["batch"])
        return 200, {}

    service.answers[CALLS] = answer
    (refused,) = weave.send(trajectories)
    assert refused.trajectory_id == trajectories[6].trajectory_id
    assert refused.reason == 'Weave answered 422: {"detail": "no"}'
    assert {call["attributes"]["sample_index"] for call in taken} == set(range(10)) - {6}
    assert len(taken) == 18


def test_a_request_that_is_too_large_for_a_proxy_is_halved(weave: WeaveBackend, service: Any, recorded: Record) -> None:
    service.answers[CALLS] = lambda body: (413 if len(body) > 60_000 else 200, {})
    assert weave.send(recorded(rollouts(10, 10_000))) == []
    taken = [batch for batch in sent(service, CALLS) if len(json.dumps(batch)) < 60_000]
    assert sum(len(batch) for batch in taken) == 20


def test_an_outage_is_raised(weave: WeaveBackend, service: Any, recorded: Record) -> None:
    service.answers[CALLS] = lambda body: (503, {})
    with pytest.raises(ConnectionError, match="503"):
        weave.send(recorded(rollouts(1, 10)))


def test_a_score_that_is_refused_later_is_told(
    weave: WeaveBackend, service: Any, recorded: Record, caplog: pytest.LogCaptureFixture
) -> None:
    service.answers["/traces/feedback/batch/create"] = lambda body: (400, {"reason": "no"})
    (trajectory,) = recorded(rollouts(1, 10))
    with caplog.at_level(logging.WARNING):
        weave.update([trajectory])
    assert trajectory.trajectory_id in caplog.text


def test_a_weave_that_takes_no_batches_of_scores_gets_them_one_by_one(
    weave: WeaveBackend, service: Any, recorded: Record
) -> None:
    del service.answers["/traces/feedback/batch/create"]
    taken: list[Any] = []

    def answer(body: bytes) -> tuple[int, Any]:
        taken.append(json.loads(body))
        return (
            (422, {"reason": "no"}) if taken[-1]["payload"]["output"]["value"] == 2 else (200, {"id": taken[-1]["id"]})
        )

    service.answers["/traces/feedback/create"] = answer
    trajectories = recorded(rollouts(5, 10))
    refused = weave.send(trajectories[:4])
    assert [each.trajectory_id for each in refused] == [trajectories[2].trajectory_id]
    assert weave.send(trajectories[4:]) == []
    assert [each["payload"]["output"]["value"] for each in taken] == [0, 1, 2, 3, 4], "each once"
    assert [asked for asked, _, _ in service.asked].count("/traces/feedback/batch/create") == 1, "asked for once"


@pytest.mark.parametrize(
    ("missing", "without"),
    [
        (["feedback/batch/create", "feedback/create"], "without scores"),
        (["feedback/query"], "without scores"),
        (["file/create"], "without a list of ops"),
        (["obj/create"], "without a list of ops"),
        (["calls/stream_query"], "without asking what is there"),
    ],
)
def test_an_endpoint_that_is_missing_costs_its_feature_and_not_the_traces(
    weave: WeaveBackend,
    service: Any,
    recorded: Record,
    caplog: pytest.LogCaptureFixture,
    missing: list[str],
    without: str,
) -> None:
    for name in missing:
        service.answers.pop(f"/traces/{name}", None)
    trajectories = recorded(rollouts(4, 10))
    with caplog.at_level(logging.WARNING):
        for some in (trajectories[:2], trajectories[2:]):
            assert weave.send(some) == []
    assert sum(len(batch) for batch in sent(service, CALLS)) == 8
    assert len([line for line in caplog.messages if without in line]) == 1, "told once"


def test_where_no_calls_are_taken_it_is_no_weave(weave: WeaveBackend, service: Any, recorded: Record) -> None:
    del service.answers[CALLS]
    with pytest.raises(BackendError, match=r"404.* check WANDB_BASE_URL"):
        weave.send(recorded(rollouts(1, 10)))
