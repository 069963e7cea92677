"""A power cut takes nothing that was said to be on the disk: durable trajectories, and all of it after `flush`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rolltrace
from rolltrace.files import make_folder, replace_file
from rolltrace.journal import Damage, Entry, JournalWriter, read_journals
from rolltrace.record import OpEnd, TrajectoryEnd, decode_coordinates, decode_value
from tests.power_cut import SimulatedDisk


@rolltrace.rollout_trace_op
def op(number: int, text: str) -> int:
    return number


def rollout(number: int) -> None:
    with rolltrace.rollout_trace_attr(step=1, sample_index=number):
        op(number, "x" * 5000)
        op(number, "漢")


def whole_trajectories(store: Path) -> set[int]:
    """Those with their end and both of their ops, each as it was."""
    items = [item for _, item in read_journals(store)]
    assert not [item for item in items if isinstance(item, Damage) and "header is lost" not in item.reason]
    records = [item.record for item in items if isinstance(item, Entry)]
    ops = [decode_value(each.inputs)["number"] for each in records if isinstance(each, OpEnd)]
    ended = [decode_coordinates(each.coordinates).sample_index for each in records if isinstance(each, TrajectoryEnd)]
    return {number for number in ended if isinstance(number, int) and ops.count(number) == 2}


@pytest.mark.parametrize("names", ["synced", "all"])
def test_a_durable_trajectory_is_on_the_disk_when_its_block_is_left(
    power: SimulatedDisk,
    names: str,
) -> None:
    store = power.folder / "deep" / "store"
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off", durable=True, limits={"segment_bytes": "64KiB"})
    for number in range(30):
        rollout(number)
        assert whole_trajectories(power.after_cut(names=names) / "deep" / "store") == set(range(number + 1))  # type: ignore[arg-type]


def test_a_cut_at_any_moment_leaves_every_trajectory_that_had_ended(power: SimulatedDisk) -> None:
    store = power.folder / "store"
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off", durable=True, limits={"segment_bytes": "64KiB"})
    safe_from: list[int] = []
    for number in range(15):
        rollout(number)
        safe_from.append(power.points()[-1])
    for point in power.points():
        had_ended = {number for number, since in enumerate(safe_from) if since <= point}
        assert had_ended <= whole_trajectories(power.after_cut(point) / "store")


def test_without_durable_nothing_waits_for_the_disk(power: SimulatedDisk) -> None:
    rolltrace.init("p", "e", "rolltrace", store=power.folder / "store", drain="off")
    for number in range(5):
        rollout(number)
    assert len(power.points()) == 1


def test_after_a_flush_without_drainer_everything_is_on_the_disk(power: SimulatedDisk) -> None:
    store = power.folder / "a" / "b" / "store"
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off", limits={"segment_bytes": "64KiB"})
    for number in range(40):
        rollout(number)
    assert rolltrace.flush()
    for number in range(40, 60):
        rollout(number)
    assert whole_trajectories(power.after_cut() / "a" / "b" / "store") >= set(range(40))
    assert rolltrace.flush()
    assert whole_trajectories(power.after_cut() / "a" / "b" / "store") == set(range(60))


def test_a_drained_file_does_not_keep_the_others_from_being_synced(power: SimulatedDisk) -> None:
    writer = JournalWriter(power.folder / "store", {}, segment_bytes=64 << 10)
    for _ in range(40):
        writer.append(os.urandom(5000))
    first, *others = sorted((power.folder / "store").rglob("*.seg"))
    first.unlink()
    assert writer.sync()
    kept = sorted(path.name for path in power.after_cut().rglob("*.seg"))
    assert kept == [path.name for path in others]


def test_new_folders_are_there_after_a_cut_if_they_were_asked_for(power: SimulatedDisk) -> None:
    make_folder(power.folder / "a" / "b", durable=True)
    make_folder(power.folder / "a" / "c")
    assert sorted(path.name for path in power.after_cut().rglob("*")) == ["a", "b"]


def test_a_replaced_file_is_the_old_or_the_new_one_at_every_moment(power: SimulatedDisk) -> None:
    path = power.folder / "file"
    replace_file(path, b"old", durable=True)
    first = power.points()[-1]
    replace_file(path, b"new", durable=True)
    for point in power.points()[first:]:
        for names in ("synced", "all"):
            assert (power.after_cut(point, names=names) / "file").read_bytes() in (b"old", b"new")  # type: ignore[arg-type]
    assert (power.after_cut() / "file").read_bytes() == b"new"


def test_without_durable_a_cut_may_empty_it_which_this_disk_shows(power: SimulatedDisk) -> None:
    replace_file(power.folder / "file", b"new")
    assert (power.after_cut(names="all") / "file").read_bytes() == b""
