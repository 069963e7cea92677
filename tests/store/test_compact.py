"""Small parts are merged while others read; a kill at any point neither loses nor doubles a row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rolltrace.journal import journal_folder
from rolltrace.record.tables import LOSSES, SCORES, SPANS
from rolltrace.store import Partition, compact, finished_steps, list_parts, prepare, remove_replaced, write_part
from rolltrace.store.layout import COMPACTED, source_of
from tests.draining import rows


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Steps 1 and 2, each with five parts of spans and of scores."""
    prepare(tmp_path)
    for step in (1, 2):
        for part in range(5):
            where = {"project": "p", "experiment": "e", "step": step, "trajectory_id": f"{part}"}
            spans = [{**where, "op_id": part * 10 + n, "tokens": [n] * 3, "start_ns": n} for n in range(10)]
            write_part(tmp_path, Partition("p", "e", step), SPANS, f"w-{part:06d}", spans)
            write_part(tmp_path, Partition("p", "e", step), SCORES, f"w-{part:06d}", [{**where, "value": 1.0}])
    return tmp_path


def op_ids(store: Path, step: int = 1) -> Counter[int]:
    parts = [part for part in list_parts(store, "spans") if part.parent.name == f"step={step}"]
    return Counter(row["op_id"] for part in parts for row in pq.read_table(part, partitioning=None).to_pylist())


def test_each_table_of_a_step_becomes_one_part(store: Path) -> None:
    assert compact(store).fewer == 16
    assert len(list_parts(store)) == 4
    assert op_ids(store) == op_ids(store, 2) == Counter(range(50))


def test_only_finished_steps_are_merged_when_asked(store: Path) -> None:
    compact(store, steps=finished_steps(store))
    assert {part.parent.name for part in list_parts(store) if source_of(part).startswith(COMPACTED)} == {"step=1"}


def test_a_part_whose_segment_still_exists_is_left_alone(store: Path) -> None:
    journal_folder(store).mkdir(parents=True)
    (journal_folder(store) / "w-000003.seg").touch()
    compact(store)
    assert {"w-000003"} == {source_of(part) for part in list_parts(store) if not source_of(part).startswith(COMPACTED)}
    assert op_ids(store) == Counter(range(50))


def test_replaced_parts_are_not_seen_before_they_are_removed(store: Path) -> None:
    compact(store)
    assert op_ids(store) == Counter(range(50))
    assert len(list(store.rglob("spans--*.parquet"))) == 12
    remove_replaced(store, grace_sec=0)
    assert op_ids(store) == Counter(range(50))
    assert len(list(store.rglob("spans--*.parquet"))) == 2


def test_compacting_again_with_new_parts_keeps_everything(store: Path) -> None:
    compact(store)
    late = {"project": "p", "experiment": "e", "step": 1, "trajectory_id": "9", "op_id": 99}
    write_part(store, Partition("p", "e", 1), SPANS, "w-000009", [late])
    compact(store)
    assert op_ids(store) == Counter([*range(50), 99])


def test_rows_of_one_trajectory_stand_together(store: Path) -> None:
    compact(store)
    (part,) = [part for part in list_parts(store, "spans") if part.parent.name == "step=1"]
    ids = pq.read_table(part, partitioning=None)["trajectory_id"].to_pylist()
    assert ids == sorted(ids)


def test_several_later_steps_can_be_asked_for(store: Path) -> None:
    folder = Partition("p", "e", 1).folder(store)
    assert finished_steps(store)(folder)
    assert not finished_steps(store, later=2)(folder)
    Partition("p", "e", 9).folder(store).mkdir()
    assert finished_steps(store, later=2)(folder)
    assert not finished_steps(store, later=2)(Partition("p", "e", 2).folder(store))


def drop(store: Path, *trajectories: str, step: int = 1) -> None:
    where = {"project": "p", "experiment": "e", "step": step, "reason": "sample_limit", "count": 1}
    rows = [{**where, "trajectory_id": each} for each in trajectories]
    write_part(store, Partition("p", "e", step), LOSSES, "w-000001", rows)


def test_rows_of_dropped_trajectories_are_removed(store: Path) -> None:
    drop(store, "1", "3")
    compact(store)
    assert op_ids(store) == Counter([*range(10), *range(20, 30), *range(40, 50)])
    assert op_ids(store, 2) == Counter(range(50)), "each step says for itself what was dropped"
    assert sum(pq.read_metadata(part).num_rows for part in list_parts(store, "losses")) == 2


def test_rows_of_dropped_trajectories_are_removed_when_there_is_nothing_to_merge(store: Path) -> None:
    compact(store)
    drop(store, "1")
    compact(store, fewest_parts=4)
    assert op_ids(store) == Counter([*range(10), *range(20, 50)])
    parts = list_parts(store)
    compact(store, fewest_parts=4)
    assert list_parts(store) == parts


def test_a_part_of_which_nothing_is_left_is_no_trouble(store: Path) -> None:
    drop(store, *map(str, range(5)))
    compact(store)
    assert op_ids(store) == Counter()
    late = {"project": "p", "experiment": "e", "step": 1, "trajectory_id": "9", "op_id": 99}
    write_part(store, Partition("p", "e", 1), SPANS, "w-000009", [late])
    compact(store)
    assert op_ids(store) == Counter([99])
    compact(store, fewest_parts=1)
    assert op_ids(store) == Counter([99])


def test_rows_of_no_trajectory_are_never_dropped(store: Path) -> None:
    score = {"project": "p", "experiment": "e", "step": 1, "value": 5.0}
    write_part(store, Partition("p", "e", 1), SCORES, "w-000007", [score])
    drop(store, "1")
    compact(store)
    assert [row["value"] for row in rows(store, "scores") if row["trajectory_id"] is None] == [5.0]


def test_a_running_step_is_merged_by_tiers(store: Path) -> None:
    """Each merging makes one part of eight, and does not touch what was merged before."""
    place = Partition("p", "e", 3)
    seen = []
    for number in range(32):
        row = {"project": "p", "experiment": "e", "step": 3, "trajectory_id": "1", "op_id": number}
        write_part(store, place, SPANS, f"w-{number:06d}", [{**row, "payload": "x" * 100}])
        compact(store, steps=place.folder(store).__eq__, running=lambda folder: True)
        seen.append(len(list_parts(store, "spans")))
    assert op_ids(store, 3) == Counter(range(32))
    assert max(seen) < 10 + 16, "the parts of steps 1 and 2, and fewer than two tiers of step 3"


def test_what_was_merged_more_than_once_is_removed_all_the_same(store: Path) -> None:
    """Tiers of the running step, and the step as a whole once it is finished, all within the grace period."""
    place = Partition("p", "e", 3)
    for number in range(20):
        row = {"project": "p", "experiment": "e", "step": 3, "trajectory_id": "1", "op_id": number}
        write_part(store, place, SPANS, f"w-{number:06d}", [{**row, "payload": "x" * 100}])
        compact(store, steps=place.folder(store).__eq__, running=lambda folder: True)
    compact(store, steps=place.folder(store).__eq__)
    remove_replaced(store, grace_sec=0)
    assert op_ids(store, 3) == Counter(range(20))
    assert len(list(place.folder(store).iterdir())) == 1


def test_merging_stops_when_its_time_is_up(store: Path) -> None:
    assert compact(store, deadline=0.0) == (0, True)
    assert op_ids(store) == Counter(range(50))


def test_a_damaged_part_is_left_as_it_is_and_the_others_are_merged(store: Path) -> None:
    damaged = Partition("p", "e", 1).folder(store) / "spans--w-000002.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-50])
    compact(store)
    remove_replaced(store, grace_sec=0)
    assert damaged.exists()
    left = [part for part in list_parts(store, "spans") if part.parent == damaged.parent and part != damaged]
    assert len(left) == 1
    assert pq.read_metadata(left[0]).num_rows == 40
