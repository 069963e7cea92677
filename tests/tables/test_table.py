"""Commits: exactly once, in conflict where two mean the same, and repaired after a power cut."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from rolltrace._address import StoreAddress
from rolltrace.errors import FormatError
from rolltrace.tables.columns import Place
from rolltrace.tables.compact import compact_place, moving_places
from rolltrace.tables.data_file import write_file
from rolltrace.tables.store import TableStore
from rolltrace.tables.table import ConflictError
from tests.tables.conftest import Tables

A, B = "a" * 32, "b" * 32
ENDED = {"status": "ok", "status_rank": 4, "start_ns": 10, "end_ns": 40, "name": "loop"}


def test_a_batch_that_is_committed_again_changes_nothing(tables: Tables) -> None:
    tables.add(trajectories=[{"trajectory_id": A, "turns": 1}], offset=7)
    tables.add(trajectories=[{"trajectory_id": A, "turns": 1}], offset=7)
    assert tables.read(columns="turns") == [(1,)]
    assert tables.store.position("journal-1") == 7


def test_tables_that_a_dead_drainer_reached_are_not_committed_twice(tables: Tables) -> None:
    place, address = tables.place, tables.store.address
    ops = write_file(address, "ops", place, tables.rows("ops", [{"trajectory_id": A, "op_id": 1}]))
    table = tables.store.table("ops")
    table.create()
    table.commit([ops], positions={"journal-1": 5})  # and here it died: `trajectories` says nothing of 5
    assert tables.store.position("journal-1") == -1
    tables.add(ops=[{"trajectory_id": A, "op_id": 1}], trajectories=[{"trajectory_id": A}], offset=5)
    assert tables.read("ops", "op_id") == [(1,)]
    assert tables.store.position("journal-1") == 5


def test_two_drainers_of_one_journal_get_into_conflict(tables: Tables) -> None:
    tables.add(trajectories=[{"trajectory_id": A, "turns": 1}])
    other = TableStore(tables.store.address)
    other.table("trajectories")
    tables.add(trajectories=[{"trajectory_id": A, "turns": 1}], offset=9)
    file = write_file(
        other.address, "trajectories", tables.place, tables.rows("trajectories", [{"trajectory_id": A, "turns": 1}])
    )
    with pytest.raises(ConflictError):
        other.commit_batch({"trajectories": [file]}, {"journal-1": 9})
    assert tables.read(columns="turns") == [(2,)]


def test_of_two_compactions_of_the_same_files_one_wins(tables: Tables) -> None:
    for _ in range(3):
        tables.add(trajectories=[{"trajectory_id": A, "turns": 1}])
    other = TableStore(tables.store.address)
    files = list(other.files("trajectories"))
    compact_place(tables.store, tables.place)
    late = write_file(
        other.address, "trajectories", tables.place, tables.rows("trajectories", [{"trajectory_id": A, "turns": 3}])
    )
    with pytest.raises(ConflictError):
        other.table("trajectories").commit([late], files)
    assert tables.read(columns="turns") == [(3,)]


def test_what_is_added_during_a_compaction_stays(tables: Tables) -> None:
    tables.add(trajectories=[{"trajectory_id": A, "turns": 1, **ENDED}])
    tables.add(trajectories=[{"trajectory_id": A, "turns": 1}])
    compacting = TableStore(tables.store.address)
    files = list(compacting.files("trajectories"))
    tables.add(trajectories=[{"trajectory_id": A, "turns": 1}])
    settled = write_file(
        compacting.address, "trajectories", tables.place,
        tables.rows("trajectories", [{"trajectory_id": A, "turns": 2, **ENDED}]), kind="settled",
    )  # fmt: skip
    compacting.table("trajectories").commit([settled], files)
    assert tables.read(columns="turns, status") == [(3, "ok")]


def test_a_settled_step_is_one_file_per_table_and_the_old_ones_go_with_a_vacuum(tables: Tables) -> None:
    for turn in range(4):
        tables.add(trajectories=[{"trajectory_id": A, "turns": 1, **ENDED}], ops=[{"trajectory_id": A, "op_id": turn}])
    assert tables.store.files("ops", tables.place) != []
    compact_place(tables.store, tables.place)
    assert moving_places(tables.store) == {}
    assert [len(tables.store.files(name)) for name in ("trajectories", "ops")] == [1, 1]
    on_disk = lambda: len(list((tables.folder / "ops" / "data").rglob("*.parquet")))  # noqa: E731
    assert on_disk() == 5
    tables.store.table("ops").vacuum(0)
    assert on_disk() == 1
    assert [op_id for (op_id,) in tables.read("ops", "op_id")] == [0, 1, 2, 3]


def test_rows_of_no_step_and_odd_names_are_read_back(tables: Tables) -> None:
    place = Place("数学 / a=b", 'it\'s "x"', None)
    tables.add(trajectories=[{"trajectory_id": A, "turns": 1}], place=place)
    assert tables.read(columns="project, experiment, step, turns") == [(place.project, place.experiment, None, 1)]
    assert {file.place for file in tables.store.files("trajectories")} == {place}


@pytest.mark.parametrize("left", [b"", b'{"commitInfo": {"timest'])
def test_a_log_entry_that_a_power_cut_tore_is_removed_and_its_batch_committed_again(
    tables: Tables, left: bytes
) -> None:
    tables.add(trajectories=[{"trajectory_id": A, "turns": 1}])
    tables.add(trajectories=[{"trajectory_id": A, "turns": 1}])
    newest = max((tables.folder / "trajectories" / "_delta_log").glob("*.json"))
    newest.write_bytes(left)
    after = Tables(tables.folder)
    assert after.store.position("journal-1") == 1
    after.add(trajectories=[{"trajectory_id": A, "turns": 1}], offset=2)
    assert after.read(columns="turns") == [(2,)]


def test_a_store_of_another_format_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(FormatError, match="has format 1, and this rolltrace reads format 2"):
        TableStore(StoreAddress.parse(tmp_path)).prepare()


def _append(folder: str, journal: str, batches: int) -> None:
    tables = Tables(Path(folder))
    for _ in range(batches):
        tables.add(journal=journal, trajectories=[{"trajectory_id": journal * 32, "turns": 1}])


def test_four_processes_commit_at_once_and_nothing_is_lost_or_doubled(tables: Tables) -> None:
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_append, args=(str(tables.folder), name, 5)) for name in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    assert tables.read(columns="turns") == [(5,)] * 4


def test_a_batch_does_not_conflict_with_the_compaction_of_another_step(tables: Tables) -> None:
    """Nor does a compaction with that of another step: only those that are about the same files do."""
    other = Place("maths", "other", 9)
    for place in (tables.place, other):
        tables.add(place=place, trajectories=[{"trajectory_id": A, "start_ns": 1}])
        tables.add(place=place, trajectories=[{"trajectory_id": A, "start_ns": 1}])
    stale = TableStore(tables.store.address)
    stale.table("trajectories")
    compact_place(tables.store, other)
    batch = write_file(stale.address, "trajectories", other, tables.rows("trajectories", [{"trajectory_id": B}], other))
    stale.table("trajectories").commit([batch], positions={"journal-2": 1})
    stale = TableStore(tables.store.address)
    (old, *rest) = stale.files("trajectories", tables.place)
    compact_place(tables.store, other)
    stale.table("trajectories").commit([], [old])
    with pytest.raises(ConflictError):
        tables.store.table("trajectories").commit([], [old])
    assert rest
