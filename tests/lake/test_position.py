from __future__ import annotations

from pathlib import Path

import pytest

from rolltrace.lake import LakeAddress, LakePosition, kinds
from rolltrace.lake.position import lake_path
from rolltrace.record import NOTES
from rolltrace.store import Partition, compact, list_parts, merged_into, prepare, write_part

STEP = Partition("p", "e", 1)
LAKE = LakeAddress("/lake")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    prepare(tmp_path)
    for source in "abcdef":
        row = {**STEP._asdict(), "trajectory_id": source, "event": "note", "time_ns": 1, "body": "{}"}
        write_part(tmp_path, STEP, NOTES, source, [row])
    return tmp_path


def position_of(store: Path) -> LakePosition:
    position = LakePosition(store, LAKE)
    state = position.state
    state.url = LAKE.url
    position.state = state
    return position


def paths(store: Path, sources: str) -> list[str]:
    parts = {part.stem.rpartition("--")[2]: part for part in list_parts(store)}
    return [lake_path(store, parts[source]) for source in sources]


def test_what_was_claimed_and_shipped_is_known_after_a_kill_in_the_middle_of_a_line(store: Path) -> None:
    position = position_of(store)
    position.claim(["x", "y", "z"])
    position.ship(["x"])
    with (position.folder / "parts.jsonl").open("ab") as file:
        file.write(b'[3, "shipped", ["y')
    again = LakePosition(store, LAKE)
    again.load()
    assert (again.claimed, again.shipped) == ({"y", "z"}, {"x"})
    again.ship(["y"])
    again.load()
    assert (again.claimed, again.shipped) == ({"z"}, {"x", "y"})


def test_what_another_host_has_done_since_counts(store: Path) -> None:
    """Its file is read after the other one or before, whatever the hosts are called."""
    position = position_of(store)
    position.ship(["x"])
    for name in ("0-host", "zz-host"):
        other = LakePosition(store, LAKE)
        other.load()
        other.folder = other.folder.parent.parent / name / LAKE.name
        other.ship([f"y-{name}"], instead_of=["x"])
        position.load()
        assert position.shipped == {f"y-{name}"}
        position.ship(["x"], instead_of=[f"y-{name}"])


def test_parts_are_merged_only_with_those_that_are_as_far(store: Path) -> None:
    position = position_of(store)
    position.claim(paths(store, "abc"))
    position.ship(paths(store, "ab"))
    compact(store, kind_of=kinds(store))
    merged = sorted(tuple(sorted(merged_into(part))) for part in list_parts(store))
    assert merged == [(), ("a", "b"), ("d", "e", "f")]


def test_a_part_that_stands_for_shipped_ones_is_not_merged_before_it_is_shipped(store: Path) -> None:
    position = position_of(store)
    position.ship(paths(store, "ab"))
    compact(store, kind_of=kinds(store))
    before = sorted(list_parts(store))
    compact(store, kind_of=kinds(store))
    assert sorted(list_parts(store)) == before


def test_one_name_has_another_path_for_another_content(store: Path) -> None:
    (before,) = paths(store, "a")
    row = {**STEP._asdict(), "trajectory_id": "a", "event": "other", "time_ns": 1, "body": "{}"}
    write_part(store, STEP, NOTES, "a", [row])
    (after,) = paths(store, "a")
    assert before != after
    assert before.partition("~")[0] == after.partition("~")[0]
