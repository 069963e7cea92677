"""Compaction writes down what readers see, however often it is interrupted, and reads nothing from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from rolltrace.tables import TABLE_SCHEMAS, Table, compact, compact_place
from rolltrace.tables.compact import merge_batches, moving_places
from tests.tables.conftest import Tables
from tests.tables.test_prune import ENDED, A, B, fill


def test_small_files_of_a_moving_step_are_merged_and_say_the_same(tables: Tables) -> None:
    for number in range(20):
        tables.add(
            trajectories=[{"trajectory_id": A if number % 2 else B, **ENDED, "turns": 1, "flags": [str(number % 3)]}],
            ops=[{"trajectory_id": A, "op_id": number, "start_ns": number}],
            scores=[{"trajectory_id": A, "name": "reward", "value": float(number), "time_ns": number}],
        )
    before = tables.read(), tables.read("ops")
    assert merge_batches(tables.store, tables.place).removed == 60
    assert (tables.read(), tables.read("ops")) == before
    assert [len(tables.store.files(name)) for name in ("trajectories", "ops", "scores")] == [1, 1, 1]
    assert tables.place in moving_places(tables.store)
    compact_place(tables.store, tables.place)
    assert (tables.read(), tables.read("ops")) == before


def test_a_trajectory_that_was_not_kept_leaves_no_rows(tables: Tables) -> None:
    tables.add(trajectories=[{"trajectory_id": A, **ENDED}], ops=[{"trajectory_id": A, "op_id": 1}])
    tables.add(trajectories=[{"trajectory_id": A, "dropped": True}], losses=[{"trajectory_id": A, "count": 1}])
    compact_place(tables.store, tables.place)
    assert tables.read() == tables.read("ops") == []
    assert len(tables.read("losses")) == 1


@pytest.mark.parametrize("commits", range(7))
def test_after_a_kill_between_two_tables_readers_see_the_same_and_the_next_one_goes_on(
    tables: Tables, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tables)
    before = {schema.name: tables.read(schema.name) for schema in TABLE_SCHEMAS}
    commit, count = Table.commit, 0

    def killed(table: Table, *arguments: Any, **options: Any) -> None:
        nonlocal count
        count += 1
        if count > commits:
            raise KeyboardInterrupt
        commit(table, *arguments, **options)

    monkeypatch.setattr(Table, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        compact_place(tables.store, tables.place)
    monkeypatch.undo()
    assert {schema.name: tables.read(schema.name) for schema in TABLE_SCHEMAS} == before
    compact_place(tables.store, tables.place)
    assert moving_places(tables.store) == {}
    assert {schema.name: tables.read(schema.name) for schema in TABLE_SCHEMAS} == before


def test_a_file_that_leads_elsewhere_is_not_brought_in(tables: Tables, tmp_path: Path) -> None:
    """By a link, or by a path that somebody wrote into the log."""
    fill(tables)
    (mine, _) = tables.store.files("messages")
    path = tables.folder / "messages" / mine.path
    secret = path.rename(tmp_path / "secret.parquet")
    path.symlink_to(secret)
    log = tables.folder / "notes" / "_delta_log" / "00000000000000000001.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["path"] = f"../../{secret.name}"
    log.write_text("\n".join(map(json.dumps, lines)))
    tables.store = type(tables.store)(tables.store.address)
    assert compact_place(tables.store, tables.place).damaged == 2
    assert moving_places(tables.store) == {tables.place: 4}


@pytest.mark.parametrize("settled", [False, True])
def test_what_does_not_fit_into_memory_is_compacted_piece_by_piece(
    tables: Tables, settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(16):
        ids = [f"{16 * number + each:032x}" for each in range(5)]
        tables.add(
            trajectories=[{"trajectory_id": each, **ENDED} for each in ids],
            ops=[{"trajectory_id": each, "op_id": number, "start_ns": number} for each in [*reversed(ids), None]],
            messages=[{"trajectory_id": each, "message_id": "m", "text": "said"} for each in ids],
            scores=[{"trajectory_id": each, "name": "reward", "value": 1.0, "time_ns": 50} for each in ids],
        )
    before = {name: tables.read(name) for name in ("trajectories", "ops", "messages", "scores")}
    failures = {"ops": 2, "messages": 1, "trajectories": 1, "scores": 1}
    stream = compact.stream_rows

    def stream_some(connection: Any, select: str, table: str) -> Any:
        if failures[table]:
            failures[table] -= 1
            raise duckdb.OutOfMemoryException("too much")
        return stream(connection, select, table)

    monkeypatch.setattr(compact, "stream_rows", stream_some)
    work = compact_place if settled else merge_batches
    assert work(tables.store, tables.place) == (64, 0, 0)
    assert {name: tables.read(name) for name in before} == before
    (file,) = tables.store.files("ops")
    ordered = pq.read_table(tables.folder / "ops" / file.path)["trajectory_id"].to_pylist()
    assert [each for each in ordered if each] == sorted(each for each in ordered if each)
