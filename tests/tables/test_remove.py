"""Deleting takes all rows and their bytes, and leaves the others right."""

from __future__ import annotations

from pathlib import Path

import pytest

from rolltrace.tables import TABLE_SCHEMAS, Place, compact_place
from rolltrace.tables.remove import estimate_removal, remove_trajectories
from tests.tables.conftest import Tables
from tests.tables.test_prune import ENDED, A, B, chosen, fill

OTHER = Place("maths", "other", 1)


@pytest.fixture(params=["moving", "compacted"])
def filled(request: pytest.FixtureRequest, tables: Tables) -> Tables:
    fill(tables)
    if request.param == "compacted":
        compact_place(tables.store, tables.place)
    return tables


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.parquet"))


def test_all_rows_of_a_trajectory_go_and_those_of_others_stay(filled: Tables) -> None:
    other = [row for row in filled.read() if row[0] == B]
    assert remove_trajectories(filled.store, chosen(filled, A)).trajectories == 1
    assert filled.read() == other
    for schema in TABLE_SCHEMAS:
        if any(column.name == "trajectory_id" for column in schema.columns):
            assert not [row for row in filled.read(schema.name, "trajectory_id") if row == (A,)], schema.name
    assert len(filled.read("ops")) == 2


def test_no_byte_of_it_is_left(filled: Tables) -> None:
    fill(filled, OTHER, ("c" * 32,))
    before = files(filled.folder / "messages")
    remove_trajectories(filled.store, chosen(filled, A))
    left = b"".join(path.read_bytes() for path in files(filled.folder) if "other" not in str(path))
    assert A.encode() not in left
    assert files(filled.folder / "messages") != before


def test_an_experiment_goes_with_what_is_in_no_trajectory(filled: Tables) -> None:
    fill(filled, OTHER, ("c" * 32,))
    filled.add(place=OTHER, losses=[{"reason": "damaged", "count": 1}], blobs=[{"hash": "h", "data": b"image"}])
    whole = {"project": OTHER.project, "experiment": OTHER.experiment}
    about = estimate_removal(filled.store, {OTHER: {"c" * 32}}, whole).bytes
    removed = remove_trajectories(filled.store, {OTHER: {"c" * 32}}, whole)
    assert removed.bytes > 0
    assert about > 0
    assert not [path for path in files(filled.folder) if "other" in str(path)]
    assert len(filled.read()) == 2


def test_an_older_run_is_shown_again_when_the_newer_one_is_deleted(tables: Tables) -> None:
    tables.add(trajectories=[{"trajectory_id": A, **ENDED, "run": "first", "run_ns": 5}])
    tables.add(trajectories=[{"trajectory_id": B, **ENDED, "run": "second", "run_ns": 6}])
    compact_place(tables.store, tables.place)
    assert tables.read(columns="trajectory_id, superseded") == [(A, True), (B, False)]
    remove_trajectories(tables.store, chosen(tables, B), {"run": "second"})
    assert tables.read(columns="trajectory_id, superseded") == [(A, False)]


def test_a_score_by_coordinates_goes_with_its_trajectory(tables: Tables) -> None:
    tables.add(trajectories=[{"trajectory_id": A, **ENDED}])
    tables.add(trajectories=[{"trajectory_id": B, **ENDED, "start_ns": 60, "end_ns": 70}])
    tables.add(scores=[{"name": "reward", "value": 1.0, "time_ns": 80}], trajectories=[{}])
    assert tables.read(columns="trajectory_id, reward") == [(A, None), (B, 1.0)]
    remove_trajectories(tables.store, chosen(tables, B))
    assert tables.read(columns="trajectory_id, reward") == [(A, None)]
    assert tables.read("scores") == []
