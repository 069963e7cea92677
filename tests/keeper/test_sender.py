"""Batches, budgets, and trajectories that a backend chokes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import rolltrace
from rolltrace import backends
from rolltrace.backends.backend import Refused
from rolltrace.errors import BackendError
from rolltrace.keeper import sender
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import Pending, asked_for
from rolltrace.keeper.position import HELD, REFUSED, SENT
from rolltrace.keeper.sender import Sender
from rolltrace.query import Trajectory
from tests.keeper.conftest import asked


@rolltrace.rollout_trace_op
def op(text: str) -> None:
    pass


class Recorder:
    """A backend that keeps what it was given, in this process."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.updates: list[str] = []
        self.down = False

    def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
        if self.down:
            raise ConnectionError("down")
        for each in trajectories:
            if each.name == "poison":
                raise TypeError("cannot take poison")
        self.batches.append([each.trajectory_id for each in trajectories])
        return [Refused(each.trajectory_id, "contraband") for each in trajectories if each.name == "contraband"]

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        self.updates += [each.trajectory_id for each in trajectories]

    def close(self) -> None:
        pass

    @property
    def arrived(self) -> list[str]:
        return [each for batch in self.batches for each in batch]


@pytest.fixture
def outbox(store: Path) -> Outbox:
    rolltrace.init("p", "e", "rolltrace", store=store)
    found = Outbox(store, "shipping")
    found.folder.mkdir(parents=True)
    return found


def trace(count: int, name: str = "rollout", size: int = 1, step: int = 1) -> list[rolltrace.capture.TrajectoryHandle]:
    made = []
    for number in range(count):
        with rolltrace.rollout_trace_attr(step=step, sample_index=number, name=name) as trajectory:
            op("x" * size)
        made.append(trajectory)
    return made


def pending(outbox: Outbox) -> Pending:
    outbox.position.load()
    return asked_for(asked(outbox.store), outbox)


def sender_of(outbox: Outbox, backend: Recorder) -> Sender:
    return Sender(asked(outbox.store), outbox, backend)


def test_batches_are_bounded_in_count(outbox: Outbox) -> None:
    made, backend = trace(100), Recorder()
    sender_of(outbox, backend).send(pending(outbox))
    assert max(map(len, backend.batches)) <= sender.MAX_TRAJECTORIES
    assert sorted(backend.arrived) == sorted(each.id for each in made)
    assert len(backend.batches) < 20, "and are no smaller than needed"


def test_batches_are_bounded_in_bytes(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "MAX_BYTES", 50_000)
    made, backend = [*trace(10, size=20_000), *trace(2, size=100_000), *trace(5, size=10)], Recorder()
    sizes = {made[n].id: size for n, size in enumerate([20_000] * 10 + [100_000] * 2 + [10] * 5)}
    sender_of(outbox, backend).send(pending(outbox))
    assert sorted(backend.arrived) == sorted(sizes)
    assert all(sum(sizes[each] for each in batch) <= 50_000 or len(batch) == 1 for batch in backend.batches)


def test_each_batch_is_remembered_before_the_next(outbox: Outbox) -> None:
    trace(40)
    path = outbox.position.path

    class Watching(Recorder):
        def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
            lines = path.read_text().splitlines() if path.exists() else []
            assert [json.loads(line)[1] for line in lines] == self.arrived
            return super().send(trajectories)

    backend = Watching()
    sender_of(outbox, backend).send(pending(outbox))
    assert len(backend.batches) > 1


def test_steps_come_in_their_order(outbox: Outbox) -> None:
    steps = {each.id: step for step in (3, 1, 2) for each in trace(3, step=step)}
    backend = Recorder()
    sender_of(outbox, backend).send(pending(outbox))
    assert [steps[each] for each in backend.arrived] == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_what_is_refused_is_remembered_with_its_reason(outbox: Outbox) -> None:
    trace(2)
    trace(1, name="contraband")
    working = sender_of(outbox, Recorder())
    working.send(pending(outbox))
    assert (working.sent, working.refused) == (2, 1)
    assert outbox.position.reasons == {"contraband": 1}
    assert (outbox.position.count(SENT), outbox.position.count(REFUSED)) == (2, 1)


def test_an_outage_leaves_what_went_through_before_it(outbox: Outbox) -> None:
    trace(100)

    class Failing(Recorder):
        def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
            self.down = len(self.batches) == 2
            return super().send(trajectories)

    backend = Failing()
    working = sender_of(outbox, backend)
    with pytest.raises(ConnectionError):
        working.send(pending(outbox))
    assert outbox.position.count(SENT) == len(backend.arrived) == 100 - working.left.total
    healthy = Recorder()
    sender_of(outbox, healthy).send(pending(outbox))
    assert len({*backend.arrived, *healthy.arrived}) == len(backend.arrived) + len(healthy.arrived) == 100


def test_one_that_the_backend_chokes_on_does_not_stop_the_others(outbox: Outbox) -> None:
    (poison,) = trace(1, name="poison")
    backend = Recorder()
    store = asked(outbox.store)
    working = Sender(store, outbox, backend)
    for _ in range(20):
        made = trace(2)
        store.refresh()
        try:
            working.send(asked_for(store, outbox))
        except TypeError:
            pass
        if outbox.position.count(REFUSED):
            break
    assert outbox.position.count(REFUSED) == 1, "it is tried for ever"
    assert next(iter(outbox.position.reasons)).endswith("TypeError: cannot take poison")
    assert made[0].id in backend.arrived
    assert poison.id not in backend.arrived


def test_during_an_outage_nothing_counts_as_refused(outbox: Outbox) -> None:
    trace(3)
    backend = Recorder()
    backend.down = True
    working = sender_of(outbox, backend)
    found = pending(outbox)
    for _ in range(30):
        with pytest.raises(ConnectionError):
            working.send(found)
    backend.down = False
    working.send(pending(outbox))
    assert (working.sent, working.refused, outbox.position.count(REFUSED)) == (3, 0, 0)


def test_after_an_outage_batches_grow_again(outbox: Outbox) -> None:
    trace(80)
    backend = Recorder()
    backend.down = True
    working = sender_of(outbox, backend)
    with pytest.raises(ConnectionError):
        working.send(pending(outbox))
    backend.down = False
    working.send(pending(outbox))
    assert [len(batch) for batch in backend.batches][:4] == [1, 2, 4, 8]


def test_a_budget_holds_back_what_is_over_it(outbox: Outbox) -> None:
    trace(20, size=1000)
    backend = Recorder()
    working = sender_of(outbox, backend)
    working.send(pending(outbox), max_bytes_per_day=8_000)
    assert 8 <= len(backend.arrived) < 20
    assert working.held_back == outbox.position.count(HELD) == 20 - len(backend.arrived)
    sender_of(outbox, backend).send(pending(outbox))
    assert len(set(backend.arrived)) == 20, "sent when asked for"


def test_a_wrong_key_is_raised_at_once(outbox: Outbox) -> None:
    trace(3)

    class WrongKey(Recorder):
        def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
            raise BackendError("the key is wrong")

    with pytest.raises(BackendError, match="the key is wrong"):
        sender_of(outbox, WrongKey()).send(pending(outbox))


def test_updates_go_to_update(outbox: Outbox) -> None:
    (trajectory,) = trace(1)
    backend = Recorder()
    sender_of(outbox, backend).send(pending(outbox))
    trajectory.reward(1.0)
    working = sender_of(outbox, backend)
    working.send(pending(outbox))
    assert (backend.updates, len(backend.batches), working.updated) == ([trajectory.id], 1, 1)
    assert pending(outbox).total == 0


def test_a_trajectory_that_was_removed_meanwhile_is_passed_over(outbox: Outbox) -> None:
    trace(2)
    found = pending(outbox)
    gone = found.send[0]._replace(trajectory_id="f" * 32)
    backend = Recorder()
    sender_of(outbox, backend).send(found._replace(send=[gone, *found.send]))
    assert len(backend.arrived) == 2


def test_a_deadline_leaves_the_rest(outbox: Outbox) -> None:
    trace(3)
    working = sender_of(outbox, Recorder())
    working.send(pending(outbox), deadline=0.0)
    assert (working.sent, working.left.total) == (0, 3)


def test_a_third_partys_backend_is_loaded_by_its_name(harbour: object) -> None:
    made = backends.load("shipping")
    assert type(made).__module__ == "shipping_backend"
