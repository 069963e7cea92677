"""Each host sends what it recorded; for one that is gone, another one does, until it comes back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import rolltrace
from rolltrace._address import StoreAddress
from rolltrace.files import host, host_name, host_tag, tag_of
from rolltrace.keeper import outbox as outbox_module
from rolltrace.keeper.outbox import NO_HOST, Outbox
from rolltrace.keeper.pending import asked_for, routed, unsent
from rolltrace.keeper.position import SENT, Entry, Position
from rolltrace.query import open_store
from rolltrace.tables import note_routes
from tests.draining import drain

OTHER, THIRD = "other-01234567", "third-89abcdef"
HOUR_SEC = 3600


@rolltrace.rollout_trace_op
def op(number: int) -> int:
    return number


@pytest.fixture
def outbox(store: Path) -> Outbox:
    """Three trajectories that wait to be sent."""
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off")
    for number in range(3):
        with rolltrace.rollout_trace_attr(step=1, sample_index=number):
            op(number)
    drain(store)
    note_routes(store, {"project": "p", "experiment": "e", "backends": ["recorder"]})
    return Outbox(store, "recorder")


@pytest.fixture
def as_host(monkeypatch: pytest.MonkeyPatch) -> object:
    """Call it to go on as another host."""

    def become(name: str) -> None:
        node, _, machine = name.partition("-")
        monkeypatch.setattr(host, "_machine", lambda: machine)
        monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", node, "", "", "")))
        assert host_name() == name

    return become


def ago_ns(seconds: float) -> int:
    return time.time_ns() - round(seconds * 1e9)


def was_at_work(folder: Path, name: str, seconds: float) -> None:
    """A host wrote about its sending so long ago."""
    state = folder / name / "state.json"
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text("{}")
    os.utime(state, (time.time() - seconds,) * 2)


def test_a_host_sends_what_it_recorded(outbox: Outbox, as_host: object) -> None:
    store, mine = open_store(outbox.store), host_name()
    as_host(OTHER)  # type: ignore[operator]
    other = Outbox(outbox.store, "recorder")
    assert routed(store, other, quiet_sec=0.0).total == 0
    assert routed(store, other, quiet_sec=0.0, any_host=True).total == 3
    as_host(mine)  # type: ignore[operator]
    assert routed(store, outbox, quiet_sec=0.0).total == 3
    assert len(unsent(store)) == 3, "no payload is pruned before it is sent"


def test_what_another_host_has_sent_is_sent(outbox: Outbox) -> None:
    store = open_store(outbox.store)
    first, *rest = routed(store, outbox, quiet_sec=0.0).send
    Position(outbox.folder / OTHER / "sent.jsonl").add([Entry(SENT, first.trajectory_id, first.records)])
    assert routed(store, outbox, quiet_sec=0.0).send == rest


def test_for_a_host_that_was_silent_for_an_hour_another_one_sends(tmp_path: Path, as_host: object) -> None:
    outbox, other = Outbox(tmp_path, "recorder"), tag_of(OTHER)
    was_at_work(outbox.folder, OTHER, HOUR_SEC + 60)
    assert outbox.choose_hosts({other: ago_ns(60)}) == set(), "its rollouts go on"
    waiting = {other: ago_ns(HOUR_SEC + 60)}
    assert outbox.choose_hosts(waiting) == {other}
    as_host(OTHER)  # type: ignore[operator]
    assert outbox.choose_hosts(waiting) == {other}, "it came back"
    was_at_work(outbox.folder, OTHER, 0)
    as_host(THIRD)  # type: ignore[operator]
    assert outbox.choose_hosts(waiting) == set(), "and sends its own again"


def test_of_the_hosts_at_work_the_first_sends_for_others(tmp_path: Path, as_host: object) -> None:
    outbox, first, second = Outbox(tmp_path, "recorder"), *sorted((OTHER, THIRD), key=tag_of)
    waiting = {NO_HOST: ago_ns(1), tag_of(host_name()): ago_ns(HOUR_SEC + 60)}
    for name in (first, second):
        was_at_work(outbox.folder, name, 0)
    as_host(first)  # type: ignore[operator]
    assert outbox.choose_hosts(waiting) == waiting.keys()
    as_host(second)  # type: ignore[operator]
    assert outbox.choose_hosts(waiting) == set()
    was_at_work(outbox.folder, first, 600)
    assert outbox.choose_hosts(waiting) == waiting.keys(), "nothing was heard of the first one for some minutes"


def test_a_host_that_is_at_work_keeps_its_place(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, "recorder")
    was_at_work(outbox.folder, OTHER, 60)
    assert outbox.choose_hosts({tag_of(OTHER): ago_ns(10 * HOUR_SEC)}) == set()


def test_on_object_storage_a_host_sends_its_own_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "address_in", lambda store: StoreAddress("s3://bucket/store"))
    outbox = Outbox(tmp_path, "recorder")
    waiting = {tag_of(OTHER): 0, NO_HOST: 0, host_tag(): 0}
    assert outbox.choose_hosts(waiting) == {host_tag()}


def test_by_hand_what_another_host_is_sending_right_now_is_left_to_it(outbox: Outbox, as_host: object) -> None:
    store, name = open_store(outbox.store), host_name()
    was_at_work(outbox.folder, name, 10)
    as_host(OTHER)  # type: ignore[operator]
    here = Outbox(outbox.store, "recorder")
    found = asked_for(store, here)
    assert (found.total, found.elsewhere) == (0, 3)
    assert asked_for(store, here, again=True).total == 3
    was_at_work(outbox.folder, name, 600)
    assert asked_for(store, here).total == 3


def test_of_what_several_hosts_have_sent_the_most_counts(tmp_path: Path) -> None:
    ours, theirs = Position(tmp_path / "a", lambda: [tmp_path / "b"]), Position(tmp_path / "b")
    ours.add([Entry(SENT, "x", 5, 1), Entry(SENT, "y", 9, 1)])
    theirs.add([Entry(SENT, "x", 8, 1), Entry(SENT, "y", 7, 1), Entry(SENT, "z", 1, 1)])
    ours.load()
    known = dict(ours.ask("SELECT trajectory_id, records FROM entries").fetchall())
    assert known == {"x": 8, "y": 9, "z": 1}
