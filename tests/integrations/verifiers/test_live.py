"""Rollouts recorded while they run, by the hooks of `run_slot`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rolltrace.capture import scope
from rolltrace.integrations.verifiers import Live

from .conftest import ROLLOUTS, STEP, Ran
from .told import check_rollout


def test_every_rollout_is_what_its_trace_says(ran: Ran) -> None:
    traces = [episode.traces[0] for episode in ran.episodes]
    assert [each.trajectory_id for each in ran.trajectories] == [trace.id for trace in traces]
    for trajectory, trace in zip(ran.trajectories, traces):
        check_rollout(trajectory, trace, decimals=None)


def test_tokens_and_logprobs_are_those_that_the_server_gave(ran: Ran) -> None:
    recorded = [kept for each in ran.trajectories for kept in each.tokens]
    assert len(recorded) == len(ran.said)
    for kept, (asked, answered, logprobs) in zip(recorded, ran.said):
        assert (kept.prompt_ids, kept.response_ids) == (asked, answered)
        assert kept.logprobs == pytest.approx(logprobs)


def test_samples_and_numbers_are_those_of_the_slots(ran: Ran) -> None:
    where = [(each.step, each.sample_index, each.rollout_n, each.validate) for each in ran.trajectories]
    assert where == [(STEP, f"sums/{at}", n, False) for at in range(3) for n in range(ROLLOUTS)]


def test_branches_are_told_apart(ran: Ran) -> None:
    first = ran.trajectories[0]
    assert first.tags["branches"] == 2
    assert [op.inputs.get("branch") for op in first.walk() if op.kind == "llm"][-1] == 1
    assert first.turns == 3


def test_a_crash_and_a_refusal_are_recorded_as_what_they_are(ran: Ran) -> None:
    crashed, refused = ran.trajectories[ROLLOUTS], ran.trajectories[2 * ROLLOUTS]
    assert crashed.status == refused.status == "error"
    assert "the agent crashed" in (crashed.error or "")
    assert crashed.turns == 2
    assert "this model is broken" in (next(op.error for op in refused.walk() if op.kind == "llm") or "")


def test_nothing_is_watched_while_tracing_is_off() -> None:
    assert scope.recorder is None
    watched: list[Any] = []
    Live(step=1).on_trace(SimpleNamespace(watch=watched.append))
    assert watched == []
