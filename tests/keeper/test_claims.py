"""What one host is about to send, no other host sends: whoever is suspended, dead or late."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import rolltrace
from rolltrace.keeper.claims import Claims, Overtaken
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import Item, asked_for, routed, unsent
from rolltrace.keeper.position import SENT, Entry, Position
from rolltrace.keeper.sender import Sender
from rolltrace.query import open_store
from rolltrace.store import note_routes

OTHER = "other-01234567"
HOUR_SEC = 3600


@rolltrace.rollout_trace_op
def op(number: int) -> int:
    return number


class Recorder:
    name = "recorder"

    def __init__(self) -> None:
        self.got: list[str] = []

    def send(self, trajectories: list[rolltrace.Trajectory]) -> list[object]:
        self.got += [each.trajectory_id for each in trajectories]
        return []

    def update(self, trajectories: list[rolltrace.Trajectory]) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def outbox(store: Path) -> Outbox:
    """Three trajectories that wait to be sent."""
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off")
    for number in range(3):
        with rolltrace.rollout_trace_attr(step=1, sample_index=number):
            op(number)
    note_routes(store, {"project": "p", "experiment": "e", "backends": ["recorder"]})
    return Outbox(store, "recorder")


def claim(outbox: Outbox, number: int, items: list[Item], age_sec: float = 0.0) -> None:
    """What another host has claimed."""
    folder = outbox.folder / "claims"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [[item.trajectory_id, item.records, item.scored_ns] for item in items]
    path = folder / f"{number:08d}.json"
    path.write_text(json.dumps({"host": OTHER, "epoch": 1, "items": rows}))
    os.utime(path, (path.stat().st_mtime - age_sec,) * 2)


def pending_ids(outbox: Outbox) -> set[str]:
    pending = routed(open_store(outbox.store), outbox, quiet_sec=0.0)
    return {item.trajectory_id for item in pending.send}


def test_what_another_host_has_claimed_is_left_to_it(outbox: Outbox) -> None:
    store, backend = open_store(outbox.store), Recorder()
    first, *rest = routed(store, outbox, quiet_sec=0.0).send
    claim(outbox, 1, [first])
    with outbox.sending():
        pending = routed(store, outbox, quiet_sec=0.0)
        Sender(store, outbox, backend).send(pending)
    assert pending.in_doubt == {first.trajectory_id}
    assert set(backend.got) == {item.trajectory_id for item in rest}
    assert asked_for(store, outbox).in_doubt == {first.trajectory_id}
    assert unsent(store) == {first.trajectory_id}, "its payload must not be pruned meanwhile"


def test_what_the_other_host_has_noted_as_sent_is_in_doubt_no_more(outbox: Outbox) -> None:
    store = open_store(outbox.store)
    first, *rest = routed(store, outbox, quiet_sec=0.0).send
    claim(outbox, 1, [first])
    Position(outbox.folder / OTHER / "sent.jsonl").add([Entry(SENT, first.trajectory_id, first.records)])
    pending = routed(store, outbox, quiet_sec=0.0)
    assert not pending.in_doubt
    assert {item.trajectory_id for item in pending.send} == {item.trajectory_id for item in rest}


def test_only_the_newest_claim_of_a_host_counts(outbox: Outbox) -> None:
    first, second, third = routed(open_store(outbox.store), outbox, quiet_sec=0.0).send
    claim(outbox, 1, [first])
    claim(outbox, 2, [second])
    assert pending_ids(outbox) == {first.trajectory_id, third.trajectory_id}
    claim(outbox, 3, [])
    assert len(pending_ids(outbox)) == 3, "it has given back what it had claimed"


def test_nothing_is_sent_when_another_host_has_claimed_something_since_we_looked(outbox: Outbox) -> None:
    store, backend = open_store(outbox.store), Recorder()
    with outbox.sending():
        sender = Sender(store, outbox, backend)
        pending = routed(store, outbox, quiet_sec=0.0)
        claim(outbox, 1, pending.send)
        sender.send(pending)
    assert not backend.got
    assert sender.left.total == 3


def test_claims_of_a_host_that_was_not_heard_of_for_an_hour_are_given_up(outbox: Outbox) -> None:
    items = routed(open_store(outbox.store), outbox, quiet_sec=0.0).send
    claim(outbox, 1, items, age_sec=HOUR_SEC + 60)
    assert not pending_ids(outbox), "an hour by the times of claims: no clock of a host is asked"
    Claims(outbox.folder / "claims").release()
    ours = Claims(outbox.folder / "claims")
    ours.look()
    ours.take([])
    assert len(pending_ids(outbox)) == 3


def test_a_claim_of_our_own_does_not_stand_in_our_way(outbox: Outbox) -> None:
    """A sender that was killed has left it; the next one on this host sends the batch again, under the same ids."""
    items = routed(open_store(outbox.store), outbox, quiet_sec=0.0).send
    outbox.claims.take(items)
    assert len(pending_ids(Outbox(outbox.store, "recorder"))) == 3


def test_a_claim_that_is_late_is_refused(tmp_path: Path) -> None:
    early, late = Claims(tmp_path), Claims(tmp_path)
    early.look()
    late.look()
    for _ in range(3):  # and tidies up its own older ones
        early.take([Item("a", 1, 1, 0)])
    with pytest.raises(Overtaken):
        late.take([Item("a", 1, 1, 0)])
    assert [path.name for path in tmp_path.iterdir()] == ["00000003.json"]


def test_of_what_several_hosts_have_sent_the_most_counts(tmp_path: Path) -> None:
    ours, theirs = Position(tmp_path / "a", lambda: [tmp_path / "b"]), Position(tmp_path / "b")
    ours.add([Entry(SENT, "x", 5, 1), Entry(SENT, "y", 9, 1)])
    theirs.add([Entry(SENT, "x", 8, 1), Entry(SENT, "y", 7, 1), Entry(SENT, "z", 1, 1)])
    ours.load()
    known = {row["trajectory_id"]: row["records"] for row in ours._all_entries().to_pylist()}
    assert known == {"x": 8, "y": 9, "z": 1}
