"""Each host sends what it recorded; one that is gone is replaced by one other host, whoever is late or comes back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import rolltrace
from rolltrace.files import NumberedFiles, host, host_name, host_tag, tag_of
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import asked_for, routed, routed_anywhere, unsent
from rolltrace.keeper.position import SENT, Entry, Position
from rolltrace.keeper.sending_hosts import NO_HOST, SendingHosts
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
    assert routed_anywhere(store, other, quiet_sec=0.0).total == 3
    as_host(mine)  # type: ignore[operator]
    assert routed(store, outbox, quiet_sec=0.0).total == 3
    assert len(unsent(store)) == 3, "no payload is pruned before it is sent"


def test_what_another_host_has_sent_is_sent(outbox: Outbox) -> None:
    store = open_store(outbox.store)
    first, *rest = routed(store, outbox, quiet_sec=0.0).send
    Position(outbox.folder / OTHER / "sent.jsonl").add([Entry(SENT, first.trajectory_id, first.records)])
    assert routed(store, outbox, quiet_sec=0.0).send == rest


def test_the_place_of_a_host_that_was_silent_for_an_hour_is_taken_once(tmp_path: Path, as_host: object) -> None:
    other = tag_of(OTHER)
    was_at_work(tmp_path, OTHER, HOUR_SEC + 60)
    assert SendingHosts(tmp_path, is_shared=True).choose({other: ago_ns(60)}) == set(), "its rollouts go on"
    waiting = {other: ago_ns(HOUR_SEC + 60)}
    assert SendingHosts(tmp_path, is_shared=True).choose(waiting) == {other}
    as_host(THIRD)  # type: ignore[operator]
    was_at_work(tmp_path, THIRD, 0)
    assert SendingHosts(tmp_path, is_shared=True).choose(waiting) == {other}, "nothing was heard of the first heir"
    as_host(OTHER)  # type: ignore[operator]
    assert SendingHosts(tmp_path, is_shared=True).choose(waiting) == set(), "it came back, and is bound by that"


def test_of_two_hosts_that_want_a_place_one_gets_it(
    tmp_path: Path, as_host: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, waiting = SendingHosts(tmp_path, is_shared=True), {tag_of(OTHER): ago_ns(HOUR_SEC + 60)}
    add = NumberedFiles.add

    def add_late(files: NumberedFiles, number: int, data: bytes) -> bool:
        add(files, number, tag_of(THIRD).encode())  # by another host, between our look and this
        return add(files, number, data)

    monkeypatch.setattr(NumberedFiles, "add", add_late)
    assert hosts.choose(waiting) == set()


def test_a_host_that_is_at_work_keeps_its_place(tmp_path: Path) -> None:
    was_at_work(tmp_path, OTHER, 60)
    assert SendingHosts(tmp_path, is_shared=True).choose({tag_of(OTHER): ago_ns(10 * HOUR_SEC)}) == set()


def test_what_was_imported_is_sent_by_the_first_host_that_sees_it(tmp_path: Path, as_host: object) -> None:
    assert SendingHosts(tmp_path, is_shared=True).choose({NO_HOST: ago_ns(1)}) == {NO_HOST}
    was_at_work(tmp_path, host_name(), 0)
    as_host(OTHER)  # type: ignore[operator]
    assert SendingHosts(tmp_path, is_shared=True).choose({NO_HOST: ago_ns(1)}) == set()


def test_on_object_storage_a_host_sends_its_own_only(tmp_path: Path) -> None:
    waiting = {tag_of(OTHER): 0, NO_HOST: 0, host_tag(): 0}
    assert SendingHosts(tmp_path, is_shared=False).choose(waiting) == {host_tag()}
    assert list(tmp_path.iterdir()) == []


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


def test_files_that_are_not_ours_are_passed_over(tmp_path: Path) -> None:
    place = tmp_path / "hosts" / tag_of(OTHER)
    place.mkdir(parents=True)
    for name in ("x", "1.json", "00000001.jsonx", "-0000001.json"):
        (place / name).write_text(host_tag())
    assert SendingHosts(tmp_path, is_shared=True).choose({tag_of(OTHER): ago_ns(1)}) == set()


def test_of_what_several_hosts_have_sent_the_most_counts(tmp_path: Path) -> None:
    ours, theirs = Position(tmp_path / "a", lambda: [tmp_path / "b"]), Position(tmp_path / "b")
    ours.add([Entry(SENT, "x", 5, 1), Entry(SENT, "y", 9, 1)])
    theirs.add([Entry(SENT, "x", 8, 1), Entry(SENT, "y", 7, 1), Entry(SENT, "z", 1, 1)])
    ours.load()
    known = {row["trajectory_id"]: row["records"] for row in ours.entries().to_pylist()}
    assert known == {"x": 8, "y": 9, "z": 1}
