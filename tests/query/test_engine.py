"""What a query sees while files come, go and break."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolltrace
from rolltrace.drain import Drainer
from rolltrace.query import Store, open_store
from rolltrace.record.tables import SPANS
from rolltrace.store import Partition, list_parts
from rolltrace.store.merge import replace_parts
from tests.nightly import nightly

from .conftest import agent, start, write_run_in


@pytest.fixture
def store_path(tmp_path: Path, copied: Callable[..., Path]) -> Path:
    return copied(tmp_path / "store", write_run_in, "drained")


def cut(part: Path) -> None:
    part.write_bytes(part.read_bytes()[:-20])


def empty(part: Path) -> None:
    part.write_bytes(b"")


def garbage(part: Path) -> None:
    part.write_bytes(random.Random(1).randbytes(2000))


def foreign(part: Path) -> None:
    pq.write_table(pa.table({"trajectory_id": [1, 2], "op_id": ["a", "b"]}), part)


@pytest.mark.filterwarnings("ignore::rolltrace.query.IncompleteWarning")
@pytest.mark.parametrize("damage", [cut, empty, garbage, foreign])
def test_a_damaged_part_is_left_out_and_named(store_path: Path, damage: Callable[[Path], None]) -> None:
    victims = {
        next(part for part in list_parts(store_path, table) if part.parent.name == step)
        for table, step in (("spans", "step=10"), ("trajectories", "step=-1"), ("scores", "step=10"))
    }
    for victim in victims:
        damage(victim)
    store = open_store(store_path)
    assert len(store.trajectories(step=0)) == 8
    assert len(store.trajectories()) >= 13
    damaged = store.damaged()
    assert {path for path, _ in damaged} == victims
    assert all(reason for _, reason in damaged)


def test_a_question_about_the_only_step_there_is_reads_nothing_that_was_read_for_all(tmp_path: Path) -> None:
    start(tmp_path)
    store = open_store(tmp_path)
    for step in (1, 2):
        with rolltrace.rollout_trace_attr(step, step=step):
            agent("x")
        store.refresh()
        assert len(store.trajectories()) == step
        assert [row["step"] for row in store.trajectories(step=1)] == [1]
        assert len(store._engine._snapshot.cursors) == step


def test_a_flipped_bit_is_found_by_its_checksum(store_path: Path) -> None:
    victim = list_parts(store_path, "notes")[0]
    content = bytearray(victim.read_bytes())
    at = len(content) // 3
    content[at] ^= 1
    victim.write_bytes(content)
    assert [path for path, _ in open_store(store_path).damaged(thorough=True)] == [victim]


def test_a_part_that_goes_while_we_ask_is_no_fault(store_path: Path) -> None:
    store = open_store(store_path)
    assert len(store.trajectories()) == 17
    for part in list_parts(store_path):
        if part.parent.name == "step=10":
            part.unlink()
    assert store.sql("SELECT count(*) AS n, count(inputs) AS m FROM spans WHERE step = 10").rows() == [{"n": 0, "m": 0}]
    assert len(store.trajectories()) == 13
    assert store.damaged() == []


def test_a_compacted_part_stands_for_those_it_names(store_path: Path, drained_reader: Store) -> None:
    expected = drained_reader.trajectories().rows()
    folder = Partition("p", "e", 0).folder(store_path)
    parts = [part for part in list_parts(store_path, "spans") if part.parent == folder]
    rows = pa.concat_tables([pq.ParquetFile(part).read() for part in parts])
    replace_parts(store_path, Partition("p", "e", 0), SPANS, parts, rows)
    assert open_store(store_path).trajectories().rows() == expected
    for part in parts:
        part.unlink()
    assert open_store(store_path).trajectories().rows() == expected


def test_journals_of_compacted_parts_are_not_counted_twice(
    tmp_path: Path, copied: Callable[..., Path], reader_of: Callable[[str], Store]
) -> None:
    store = copied(tmp_path / "store", write_run_in, "drainer killed before it removed journals")
    expected = reader_of("drainer killed before it removed journals").trajectories().rows()
    for table in ("spans", "trajectories", "scores"):
        for step in (-1, 0, 10, None):
            place = Partition("p", "e", step)
            parts = [part for part in list_parts(store, table) if part.parent == place.folder(store)]
            if parts:
                rows = pa.concat_tables([pq.ParquetFile(part).read() for part in parts])
                (spec,) = (each for each in rolltrace.record.tables.TABLES if each.name == table)
                replace_parts(store, place, spec, parts, rows)
                for part in parts:
                    part.unlink()
    assert open_store(store).trajectories().rows() == expected


@pytest.mark.filterwarnings("ignore::rolltrace.query.IncompleteWarning")
def test_an_unreadable_journal_is_reported(tmp_path: Path, copied: Callable[..., Path]) -> None:
    copied(tmp_path, write_run_in, "undrained")
    first = sorted(tmp_path.glob("journal/*/*.seg"))[0]
    first.write_bytes(b"no journal")
    store = open_store(tmp_path)
    assert [path for path, _ in store.damaged()] == [first]
    assert 0 < len(store.trajectories()) < 17


def test_readers_see_every_op_once_while_it_is_drained(tmp_path: Path, fresh: Callable[[], None]) -> None:
    fresh()
    store = open_store(tmp_path)
    written = 0
    stop = threading.Event()
    failures: list[BaseException] = []

    def drain_on() -> None:
        drainer = Drainer(tmp_path)
        with drainer.working():
            while not stop.is_set():
                try:
                    drainer.drain()
                except BaseException as fault:
                    failures.append(fault)
                    return
                time.sleep(0.01)

    start(tmp_path, segment_bytes="64KiB")
    thread = threading.Thread(target=drain_on)
    thread.start()
    try:
        while written < nightly(48, 16) and not failures:
            for _ in range(4):
                with rolltrace.rollout_trace_attr(written, step=written % 3) as trajectory:
                    agent("x" * 3000)
                    trajectory.reward(1.0)
                written += 1
            (row,) = store.sql("SELECT count(*) AS n, count(DISTINCT op_id) AS d FROM spans").rows()
            assert (row["n"], row["d"]) == (5 * written, 5 * written)
            rows = store.trajectories().rows()
            assert [row["status"] for row in rows] == ["ok"] * written
            assert all(row["reward"] == 1.0 and row["turns"] == 2 for row in rows)
    finally:
        stop.set()
        thread.join()
    assert not failures


@pytest.mark.filterwarnings("ignore::rolltrace.query.IncompleteWarning")
def test_a_damaged_part_is_left_out_for_all_who_ask_at_once(store_path: Path) -> None:
    victim = next(part for part in list_parts(store_path, "spans") if part.parent.name == "step=10")
    cut(victim)
    store = open_store(store_path)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(store.trajectories, step=step) for step in (0, 10, None) * nightly(6, 3)]
        counts = [len(each.result()) for each in asked]
    assert counts[::3] == [8] * nightly(6, 3)
    assert len(store.trajectories()) == counts[-1]
    assert [path for path, _ in store.damaged(thorough=True)] == [victim]
