"""What is carried from batch to batch: small, bounded, and forgotten when a trajectory ends."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from rolltrace.drain.checks import Checks, Past
from rolltrace.drain.checks.check import PastTurn, TrajectoryPast
from rolltrace.drain.drain_state import load_states
from rolltrace.journal import journal_folder
from tests.draining import drain

from .conftest import findings_of, generate, names, turn


def test_what_is_saved_comes_back() -> None:
    past = Past()
    known = TrajectoryPast(
        turns={"generate": [PastTurn(1, 2, 3, 4, 5, (1 << 64) - 1)]}, policy_version=7, placeholder="<image>"
    )
    past.keep("a", known)
    assert Past.load(past.dump()).of("a") == known
    assert Past.load(past.dump()).of("b") == TrajectoryPast()


def test_nothing_takes_no_room() -> None:
    past = Past()
    past.keep("a", TrajectoryPast())
    assert (len(past), past.dump()) == (0, b"")


@pytest.mark.parametrize("saved", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x81\xa1a\x91\xa1x"])
def test_what_cannot_be_read_is_forgotten(saved: bytes) -> None:
    assert len(Past.load(saved)) == 0


def test_the_oldest_make_room() -> None:
    past = Past()
    for number in range(10_000):
        past.keep(str(number), TrajectoryPast(policy_version=number))
        past.keep("used all the time", TrajectoryPast(policy_version=1))
    assert len(past) == 8192
    assert past.of("used all the time").policy_version == 1
    assert past.of("0") == TrajectoryPast()
    assert past.of("9999").policy_version == 9999


def test_a_trajectory_that_ended_is_forgotten() -> None:
    past = Past()
    checks = Checks("all", past)
    past.keep("a", TrajectoryPast(policy_version=1))
    for status, left in (("running", 1), ("interrupted", 1), ("ok", 0)):
        assert len(list(checks.of_trajectory({"trajectory_id": "a", "status": status}))) == (status == "interrupted")
        assert len(past) == left


def test_only_what_is_open_is_carried(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for sample in range(5):
        with rolltrace.rollout_trace_attr(step=1, sample_index=sample):
            turn([1], [2])
    with rolltrace.rollout_trace_attr(step=1, sample_index=9) as trajectory:
        turn([1], [2])
        rolltrace._runtime.active().recorder.sink.turn_over()  # type: ignore[attr-defined, union-attr]
        drain(tmp_path)
        (journal,) = load_states(journal_folder(tmp_path))[0].journals.values()
        past = Past.load(journal.past)
        assert len(past) == 1
        assert list(past.of(trajectory.id).turns) == ["generate"]
        assert len(past.dump()) < 200


def test_readers_that_look_again_and_again_change_nothing(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    store = rolltrace.open(tmp_path)
    with rolltrace.rollout_trace_attr(step=1, sample_index=1) as trajectory:

        @rolltrace.rollout_trace_op(kind="llm", name="generate")
        def looking(prompt_ids: list[int]) -> dict[str, object]:
            for _ in range(3):
                store.refresh()
                assert store.trajectory(trajectory.id).findings == []
            return {"token_ids": [2], "policy_version": 1}

        looking([1])
        store.refresh()
        assert store.trajectory(trajectory.id).findings == []
        generate([9], output={"token_ids": [3], "policy_version": 2})
        store.refresh()
        assert sorted(names(store.trajectory(trajectory.id).findings)) == ["mixed_policy", "prefix_break"]
    rolltrace.shutdown()
    drain(tmp_path)
    assert sorted(names(findings_of(tmp_path, trajectory.id))) == ["mixed_policy", "prefix_break"]
