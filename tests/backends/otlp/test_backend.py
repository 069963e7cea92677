"""Requests: how large, how often, and what becomes of what is not taken."""

from __future__ import annotations

from typing import Any

import pytest

from rolltrace import rollout_trace_attr, rollout_trace_op
from rolltrace.backends.otlp import OtlpBackend, backend
from rolltrace.backends.otlp.receiver import Rejected
from rolltrace.errors import BackendError
from rolltrace.query import Trajectory
from rolltrace.testing import rollouts

PARTIAL = b"\x0a\x0d\x08\x03\x12\x09too many!"
"""A response in which three spans are rejected, with a message."""


@rollout_trace_op
def op(text: str) -> None:
    pass


@pytest.fixture(scope="module")
def trajectories(tmp_path_factory: pytest.TempPathFactory) -> list[Trajectory]:
    with rollouts(tmp_path_factory.mktemp("store")) as lab:
        made = []
        for _ in range(3):
            with rollout_trace_attr(step=1) as each:
                for _ in range(10):
                    op("x" * 10_000)
            made.append(each.id)
        return [lab.read(each) for each in made]


def names(requests: list[tuple[str, dict[str, str], bytes]]) -> int:
    """How many ops there are in all requests."""
    return sum(body.count(b"openinference.span.kind") for _, _, body in requests) - sum(
        body.count(b"invoke_agent") for _, _, body in requests
    )


def test_requests_are_bounded_in_size(
    answers: Any, trajectories: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "MAX_BYTES", 50_000)
    assert OtlpBackend().send(trajectories) == []
    assert max(len(body) for _, _, body in answers.requests) < 52_000
    assert names(answers.requests) == 30


def test_a_receiver_that_takes_less_gets_less(answers: Any, trajectories: list[Trajectory]) -> None:
    answers.most_bytes = 60_000
    made = OtlpBackend()
    assert made.send(trajectories) == []
    assert names(answers.requests) == 30
    before = len(answers.requests)
    made.send(trajectories)
    assert names(answers.requests[before:]) == 30


def test_a_span_that_is_too_large_is_refused(answers: Any, trajectories: list[Trajectory]) -> None:
    answers.most_bytes = 5_000
    (refused,) = OtlpBackend().send(trajectories[:1])
    assert refused.trajectory_id == trajectories[0].trajectory_id
    assert "too large for the receiver" in refused.reason


def test_what_the_receiver_drops_is_refused(answers: Any, trajectories: list[Trajectory]) -> None:
    answers.next = [(200, {}, PARTIAL)]
    (refused,) = OtlpBackend().send(trajectories[:1])
    assert refused.reason == "the receiver dropped 3 spans: too many!"


def test_of_several_each_has_to_be_tried_alone(answers: Any, trajectories: list[Trajectory]) -> None:
    answers.next = [(200, {}, PARTIAL)]
    with pytest.raises(Rejected, match="too many!"):
        OtlpBackend().send(trajectories)


def test_an_update_sends_no_ops(answers: Any, trajectories: list[Trajectory]) -> None:
    OtlpBackend().update(trajectories)
    assert names(answers.requests) == 0
    assert sum(body.count(b"invoke_agent") for _, _, body in answers.requests) == 3


def test_the_resource_is_the_project_unless_named(
    answers: Any, trajectories: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    OtlpBackend().update(trajectories)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "my-service")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "cluster=a1,service.name=other")
    OtlpBackend().update(trajectories)
    first, second = (body for _, _, body in answers.requests)
    assert b"my-service" in second
    assert b"cluster" in second
    assert b"other" not in second
    assert b"my-service" not in first


def test_the_limit_of_attributes_is_opentelemetrys(
    answers: Any, trajectories: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "100")
    OtlpBackend().send(trajectories)
    assert b"x" * 101 not in answers.requests[0][2]
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "many")
    with pytest.raises(BackendError, match="OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT must be a number"):
        OtlpBackend()
