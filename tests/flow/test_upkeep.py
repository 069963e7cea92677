"""Merging goes on beside everything else: under a steady load, beside imports, under the hands of readers."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import rolltrace
from rolltrace.drain import Drainer
from rolltrace.exchange.formats import IMPORTS
from rolltrace.exchange.importer import ImportTarget, import_files
from rolltrace.journal import drainer_lock, journal_folder
from rolltrace.keeper import upkeep as upkeep_module
from rolltrace.keeper.upkeep import Upkeep
from rolltrace.query.summary import summary_folder
from rolltrace.store import compact, list_parts, remove_replaced
from tests.nightly import nightly


@rolltrace.rollout_trace_op
def op(number: int) -> int:
    return number


def record(count: int, first: int = 0, step: int = 1) -> None:
    for number in range(first, first + count):
        with rolltrace.rollout_trace_attr(step=step, sample_index=number) as trajectory:
            op(number)
            trajectory.reward(1.0)


def test_under_a_steady_load_the_running_step_is_merged_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep_module, "_EVERY_SEC", 0.0)
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    drainer, most = Drainer(tmp_path), 0
    upkeep = Upkeep(tmp_path, grace_sec=0.0)
    with drainer.working():
        for segment in range(30):
            record(1, segment)
            rolltrace._runtime.active().recorder.sink.turn_over()  # type: ignore[union-attr]
            assert drainer.drain() == 1, "there is always something to drain"
            upkeep._next_at = 0.0  # its share of the time is up to the clock
            upkeep.turn(news=True)
            most = max(most, len(list(tmp_path.rglob("*.parquet"))))
    assert most < 4 * 3 * 8, "fewer than two full tiers and one on its way, of three tables"
    assert len(rolltrace.open(tmp_path).trajectories()) == 30


class Merging:
    """Merges and removes again and again, in a thread."""

    def __init__(self, store: Path, grace_sec: float) -> None:
        self._store, self._grace_sec = store, grace_sec
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.merged = 0

    def _run(self) -> None:
        with drainer_lock(journal_folder(self._store)):
            while not self._ended.is_set():
                self.merged += compact(self._store).fewer
                remove_replaced(self._store, grace_sec=self._grace_sec)

    def __enter__(self) -> Merging:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._ended.set()
        self._thread.join()


def test_what_is_imported_beside_merging_is_all_there(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for file in range(6):
        lines = [
            json.dumps({"messages": [{"role": "user", "content": f"{file} {line}"}], "step": 1}) for line in range(17)
        ]
        (folder / f"{file}.jsonl").write_text("\n".join(lines))
    store = tmp_path / "store"
    rolltrace.init("p", "e", "rolltrace", store=store)
    record(1)
    rolltrace.shutdown()
    with Merging(store, 0.0) as merging:
        for file in range(6):
            report = import_files(IMPORTS["chat"].reader, [folder / f"{file}.jsonl"], ImportTarget(store, "p", "e"))
            assert report.imported == 17
    assert merging.merged
    assert len(rolltrace.open(store).trajectories(all_runs=True)) == 103  # imports have no run
    again = import_files(IMPORTS["chat"].reader, [folder], ImportTarget(store, "p", "e"))
    assert len(rolltrace.open(store).trajectories(all_runs=True)) == 103, again


def test_readers_find_every_row_once_while_parts_are_merged(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    drainer = Drainer(tmp_path)
    for segment in range(12):
        record(3, 3 * segment)
        rolltrace._runtime.active().recorder.sink.turn_over()  # type: ignore[union-attr]
        drainer.drain()
    assert len(list_parts(tmp_path)) > 30
    with Merging(tmp_path, 1.0) as merging:
        for _ in range(nightly(20, 4)):
            opened = rolltrace.open(tmp_path)
            assert len(opened.trajectories()) == 36
            (row,) = opened.sql("SELECT count(*) AS ops, count(DISTINCT op_id) AS different FROM spans").rows()
            assert row == {"ops": 36, "different": 36}
    assert merging.merged


def test_the_steps_of_a_store_that_is_not_small_get_summaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep_module, "_EVERY_SEC", 0.0)
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for step in range(upkeep_module._FEW_STEPS):
        record(1, step, step=step)
    rolltrace.shutdown()
    upkeep = Upkeep(tmp_path, grace_sec=0.0)
    with Drainer(tmp_path).working():
        Drainer(tmp_path).drain()
        upkeep.turn(news=True)
        assert not summary_folder(tmp_path).exists(), "it answers as fast from its parts"
        rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
        record(1, step=100)
        rolltrace.shutdown()
        Drainer(tmp_path).drain()
        for news in (True, False, False, False):
            upkeep._next_at = 0.0  # its share of the time is up to the clock
            upkeep.turn(news=news)
            summarised = {file.name.partition("--")[0] for file in summary_folder(tmp_path).rglob("*.summary")}
            if news:
                assert "step=100" not in summarised, "it is running"
    assert summarised == {part.parent.name for part in list_parts(tmp_path)}
    assert len(rolltrace.open(tmp_path).trajectories()) == upkeep_module._FEW_STEPS + 1
