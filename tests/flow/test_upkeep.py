"""Compaction goes on beside everything else: under a steady load, beside imports, under the hands of readers."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

import rolltrace
from rolltrace.drain import Follower
from rolltrace.exchange.formats import IMPORTS
from rolltrace.exchange.importer import ImportTarget, import_files
from rolltrace.keeper import upkeep as upkeep_module
from rolltrace.keeper.upkeep import Upkeep
from rolltrace.tables import TABLE_SCHEMAS, DataFile, Place, TableStore, address_in, compact_place, moving_places
from rolltrace.tables.compact import MAX_BATCH_FILES
from tests.draining import drain
from tests.nightly import nightly

STEP = Place("p", "e", 1)


@rolltrace.rollout_trace_op
def op(number: int) -> int:
    return number


def record(count: int, first: int = 0, step: int = 1) -> None:
    for number in range(first, first + count):
        with rolltrace.rollout_trace_attr(step=step, sample_index=number) as trajectory:
            op(number)
            trajectory.reward(1.0)


def files(store: Path, table: str = "ops") -> list[DataFile]:
    return TableStore(address_in(store)).files(table)


def record_batches(store: Path, count: int, step: int = 1) -> None:
    """As many batches of one trajectory each."""
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off", run="one")
    follower = Follower(store)
    with follower.working():
        for number in range(count):
            record(1, number, step)
            follower.drain()
    rolltrace.shutdown()
    drain(store)


def test_a_step_is_settled_when_a_later_one_has_begun_and_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_batches(tmp_path, 3)
    record_batches(tmp_path, 3, step=2)
    upkeep = Upkeep(tmp_path)
    upkeep._news_at = time.monotonic()
    upkeep.work()
    assert not any(file.is_settled for file in files(tmp_path)), "both had news a moment ago"
    assert upkeep.waits
    monkeypatch.setattr(upkeep_module, "_FINISHED_SEC", 0.0)
    upkeep.work()
    assert {file.place.step: file.is_settled for file in files(tmp_path)} == {1: True, 2: False}
    monkeypatch.setattr(upkeep_module, "_QUIET_SEC", 0.0)
    upkeep.work()
    assert all(file.is_settled for schema in TABLE_SCHEMAS for file in files(tmp_path, schema.name))
    assert not upkeep.waits
    assert [row["reward"] for row in rolltrace.open(tmp_path).trajectories()] == [1.0] * 6


def test_when_nothing_is_recorded_there_is_time_for_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep_module, "_IDLE_SEC", 0.0)
    record_batches(tmp_path, 3)
    upkeep = Upkeep(tmp_path)
    upkeep.turn(news=True)
    while upkeep.waits:
        upkeep.turn(news=False)
        time.sleep(0.05)
    assert [file.is_settled for file in files(tmp_path)] == [True]


def test_under_a_steady_load_the_files_of_the_running_step_stay_few(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    follower, upkeep = Follower(tmp_path), Upkeep(tmp_path)
    most = 0
    with follower.working():
        for number in range(2 * MAX_BATCH_FILES + 3):
            record(1, number)
            assert follower.drain()
            upkeep._news_at = time.monotonic()
            upkeep.work()
            most = max(most, len(files(tmp_path)))
    rolltrace.shutdown()
    assert most <= MAX_BATCH_FILES
    assert len(rolltrace.open(tmp_path).trajectories()) == 2 * MAX_BATCH_FILES + 3


def test_a_damaged_file_stops_neither_the_others_nor_the_drainer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upkeep_module, "_QUIET_SEC", 0.0)
    monkeypatch.setattr(upkeep_module, "_FINISHED_SEC", 0.0)
    record_batches(tmp_path, 2)
    record_batches(tmp_path, 2, step=2)
    damaged = next(file for file in files(tmp_path) if file.place == STEP)
    (tmp_path / "ops" / damaged.path).write_bytes(b"PAR1 and nothing else")
    upkeep = Upkeep(tmp_path)
    upkeep.work()
    upkeep.work()
    assert {file.place.step: file.is_settled for file in files(tmp_path)} == {1: False, 2: True}
    assert caplog.text.count("ops of step 1 of p / e is left as it is") == 1
    assert not upkeep.waits


def test_old_files_go_after_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_batches(tmp_path, 3)
    before = set((tmp_path / "ops" / "data").rglob("*.parquet"))
    compact_place(TableStore(address_in(tmp_path)), STEP)
    upkeep_module.vacuum(TableStore(address_in(tmp_path)))
    assert before < set((tmp_path / "ops" / "data").rglob("*.parquet")), "somebody may be reading them"
    monkeypatch.setattr(upkeep_module, "VACUUM_HOURS", 0)
    upkeep_module.vacuum(TableStore(address_in(tmp_path)))
    assert len(set((tmp_path / "ops" / "data").rglob("*.parquet"))) == 1
    assert len(rolltrace.open(tmp_path).trajectories()) == 3


class Compacting:
    """Compacts again and again, in a thread."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.merged = 0

    def _run(self) -> None:
        tables = TableStore(address_in(self._store))
        while not self._ended.is_set():
            tables.refresh()
            for place in moving_places(tables):
                self.merged += compact_place(tables, place).removed

    def __enter__(self) -> Compacting:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._thread.join()


def test_what_is_imported_beside_compaction_is_all_there(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for file in range(6):
        lines = [
            json.dumps({"messages": [{"role": "user", "content": f"{file} {line}"}], "step": 1}) for line in range(17)
        ]
        (folder / f"{file}.jsonl").write_text("\n".join(lines))
    store = tmp_path / "store"
    record_batches(store, 1)
    with Compacting(store) as compacting:
        for file in range(6):
            report = import_files(IMPORTS["chat"].reader, [folder / f"{file}.jsonl"], ImportTarget(store, "p", "e"))
            assert report.imported == 17
    assert compacting.merged
    assert len(rolltrace.open(store).trajectories(all_runs=True)) == 103  # imports have no run
    again = import_files(IMPORTS["chat"].reader, [folder], ImportTarget(store, "p", "e"))
    assert len(rolltrace.open(store).trajectories(all_runs=True)) == 103, again


def test_readers_find_every_row_once_while_steps_are_compacted(tmp_path: Path) -> None:
    record_batches(tmp_path, 12)
    with Compacting(tmp_path) as compacting:
        for _ in range(nightly(20, 4)):
            opened = rolltrace.open(tmp_path)
            assert len(opened.trajectories()) == 12
            (row,) = opened.sql("SELECT count(*) AS ops, count(DISTINCT op_id) AS different FROM ops").rows()
            assert row == {"ops": 12, "different": 12}
    assert compacting.merged
