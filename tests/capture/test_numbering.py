"""next_rollout_n: numbers that go on when a sample is drawn again."""

from __future__ import annotations

import pytest

from rolltrace import _guard
from rolltrace.capture import next_rollout_n, numbering
from rolltrace.testing import Recording, recording


def test_a_sample_that_is_drawn_again_in_a_step_goes_on(traced: Recording) -> None:
    assert [next_rollout_n(7, 1, count=4), next_rollout_n(8, 1), next_rollout_n(7, 1, count=2)] == [0, 0, 4]
    assert next_rollout_n("7", 1) == 6  # 7 and "7" are the same sample


def test_steps_and_validation_are_apart(traced: Recording) -> None:
    assert [next_rollout_n(7, 1), next_rollout_n(7, 2), next_rollout_n(7, 1, validate=True)] == [0, 0, 0]
    assert [next_rollout_n(7), next_rollout_n(7), next_rollout_n(None)] == [0, 1, 0]


def test_another_run_begins_anew() -> None:
    with recording():
        assert [next_rollout_n(7, 1), next_rollout_n(7, 1)] == [0, 1]
    with recording():
        assert next_rollout_n(7, 1) == 0


def test_off_it_is_zero() -> None:
    assert [next_rollout_n(7, 1), next_rollout_n(7, 1)] == [0, 0]


def test_old_steps_are_forgotten(traced: Recording) -> None:
    for step in range(numbering._MAX_STEPS + 1):
        next_rollout_n(7, step)
    assert next_rollout_n(7, numbering._MAX_STEPS) == 1
    assert next_rollout_n(7, 0) == 0


def test_a_step_that_makes_no_sense_costs_nothing_but_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROLLTRACE_STRICT", raising=False)
    with recording():
        assert next_rollout_n(7, "first") == 0  # type: ignore[arg-type]
    assert sum(_guard.internal_errors.values()) == 1


def test_a_forked_child_goes_on(traced: Recording) -> None:
    next_rollout_n(7, 1, count=3)
    traced.recorder.start_over_in_child()
    assert next_rollout_n(7, 1) == 3
