"""What is still to be sent: nothing too early, nothing forgotten, nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from rolltrace.keeper.outbox import Outbox, SendingPolicy
from rolltrace.keeper.pending import Item, Pending, asked_for, routed
from rolltrace.keeper.position import HELD, REFUSED, SENT, Entry, SendState
from rolltrace.tables import note_routes
from tests.draining import drain
from tests.keeper.conftest import asked

BACKENDS = ["rolltrace", "shipping"]


@rolltrace.rollout_trace_op
def op(number: int) -> int:
    return number


@pytest.fixture
def outbox(harbour: object, store: Path) -> Outbox:
    """Tracing is on, and its experiment goes to `shipping`."""
    rolltrace.init("p", "e", BACKENDS, store=store)
    note_routes(store, {"project": "p", "experiment": "e", "backends": BACKENDS})
    return Outbox(store, "shipping")


def trace(number: int, reward: float | None = None) -> rolltrace.capture.TrajectoryHandle:
    with rolltrace.rollout_trace_attr(step=1, sample_index=number) as trajectory:
        op(number)
    if reward is not None:
        trajectory.reward(reward)
    return trajectory


def look(outbox: Outbox, quiet_sec: float = 0.0) -> Pending:
    drain(outbox.store)
    return routed(asked(outbox.store), outbox, quiet_sec=quiet_sec)


def ids(items: list[Item]) -> set[str]:
    return {item.trajectory_id for item in items}


def note(outbox: Outbox, item: Item, state: SendState = SENT) -> None:
    outbox.position.add([Entry(state, item.trajectory_id, item.records, item.scored_ns)])


def test_finished_trajectories_are_pending_and_running_ones_are_not(outbox: Outbox) -> None:
    first = trace(1)
    with rolltrace.rollout_trace_attr(step=1, sample_index=2):
        op(2)
        found = look(outbox)
    assert ids(found.send) == {first.id}
    assert (found.update, found.held_back, found.unsettled) == ([], 0, 0)


def test_what_was_sent_is_not_pending(outbox: Outbox) -> None:
    trace(1, reward=1.0)
    note(outbox, look(outbox).send[0])
    assert look(outbox).total == 0


def test_a_trajectory_that_ended_a_moment_ago_waits_for_what_others_may_write(outbox: Outbox) -> None:
    trace(1)
    found = look(outbox, quiet_sec=1000)
    assert (found.total, found.unsettled) == (0, 1)


def test_a_trajectory_with_an_op_that_still_runs_waits(outbox: Outbox) -> None:
    with rolltrace.rollout_trace_attr(step=1):
        context = rolltrace.current_context()
    with rolltrace.use_context(context):
        running = rolltrace.rollout_trace_op(lambda: (yield 1))()
        next(running)
    assert (look(outbox).total, look(outbox).unsettled) == (0, 1)
    assert look(outbox, quiet_sec=-61).total == 1, "but not for ever"
    running.close()
    assert look(outbox).total == 1


def test_ops_that_come_after_it_was_sent_send_it_again(outbox: Outbox) -> None:
    with rolltrace.rollout_trace_attr(step=1) as trajectory:
        op(1)
        context = rolltrace.current_context()
    note(outbox, look(outbox).send[0])
    with rolltrace.use_context(context):
        op(2)
    assert ids(look(outbox).send) == {trajectory.id}


def test_newer_scores_of_what_was_sent_are_an_update(outbox: Outbox) -> None:
    trajectory = trace(1, reward=1.0)
    note(outbox, look(outbox).send[0])
    trajectory.reward(2.0)
    found = look(outbox)
    assert (found.send, ids(found.update)) == ([], {trajectory.id})
    note(outbox, found.update[0])
    assert look(outbox).total == 0


def test_an_experiment_that_was_not_routed_is_not_pending_unless_asked_for(outbox: Outbox) -> None:
    rolltrace.shutdown()
    rolltrace.init("p", "other", "rolltrace", store=outbox.store)
    trajectory = trace(1)
    assert look(outbox).total == 0
    assert ids(asked_for(asked(outbox.store), outbox).send) == {trajectory.id}
    assert ids(asked_for(asked(outbox.store), outbox, experiment="e").send) == set()


def test_a_filter_holds_back_until_it_is_met(outbox: Outbox) -> None:
    outbox.policy = SendingPolicy.of("reward < 0.5", None)
    good, bad, unknown = trace(1, reward=1.0), trace(2, reward=0.0), trace(3)
    found = look(outbox)
    assert (ids(found.send), found.held_back) == ({bad.id}, 2)
    unknown.reward(0.1)
    found = look(outbox)
    assert (ids(found.send), found.held_back) == ({bad.id, unknown.id}, 1)
    assert ids(asked_for(asked(outbox.store), outbox).send) == {good.id, bad.id, unknown.id}


def test_scores_of_what_was_sent_are_updated_whatever_the_filter_says(outbox: Outbox) -> None:
    trajectory = trace(1, reward=0.0)
    note(outbox, look(outbox).send[0])
    outbox.policy = SendingPolicy.of("reward < 0.5", None)
    trajectory.reward(1.0)
    assert ids(look(outbox).update) == {trajectory.id}


@pytest.mark.parametrize(("state", "held_back"), [(HELD, 1), (REFUSED, 0)])
def test_what_was_held_back_or_refused_is_sent_only_when_asked_for(
    outbox: Outbox, state: SendState, held_back: int
) -> None:
    trajectory = trace(1)
    note(outbox, look(outbox).send[0], state)
    trajectory.reward(1.0)
    found = look(outbox)
    assert (found.total, found.held_back) == (0, held_back)
    assert ids(asked_for(asked(outbox.store), outbox).send) == {trajectory.id}


def test_again_means_all(outbox: Outbox) -> None:
    trajectory = trace(1)
    note(outbox, look(outbox).send[0])
    store = asked(outbox.store)
    assert asked_for(store, outbox).total == 0
    assert ids(asked_for(store, outbox, again=True).send) == {trajectory.id}
    assert asked_for(store, outbox, again=True, where="reward > 5").total == 0


def test_what_lost_ops_by_pruning_is_not_sent_again(outbox: Outbox) -> None:
    trace(1)
    item = look(outbox).send[0]
    note(outbox, item._replace(records=item.records + 5))
    assert look(outbox).total == 0
