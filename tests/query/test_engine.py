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
import xxhash

import rolltrace
from rolltrace.drain import Follower
from rolltrace.query import QueryError, open_store
from rolltrace.tables import TableStore, address_in
from tests.draining import compact
from tests.nightly import nightly

from .conftest import agent, files_of, start, write_run_in


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


def missing(part: Path) -> None:
    part.unlink()


ALL = ["ops", "trajectories", "scores"]


@pytest.mark.filterwarnings("ignore::rolltrace.query.IncompleteWarning")
@pytest.mark.parametrize(
    ("damage", "tables"), [*((damage, ALL) for damage in (cut, empty, garbage, foreign, missing)), (cut, ["scores"])]
)
def test_a_damaged_file_is_left_out_and_named(
    store_path: Path, damage: Callable[[Path], None], tables: list[str]
) -> None:
    victims = {
        files_of(store_path, table, step)[0]
        for table, step in (("ops", 10), ("trajectories", -1), ("scores", 10))
        if table in tables
    }
    for victim in victims:
        damage(victim)
    store = open_store(store_path)
    assert len(store.trajectories(step=0)) == 8
    assert len(store.trajectories()) >= 13
    damaged = store.damaged()
    assert {path for path, _ in damaged} == victims
    assert all(reason for _, reason in damaged)


@pytest.mark.filterwarnings("ignore::rolltrace.query.IncompleteWarning")
def test_a_file_that_is_no_parquet_though_its_name_has_its_hash_is_left_out(store_path: Path) -> None:
    victim = files_of(store_path, "trajectories", -1)[0]
    content = random.Random(1).randbytes(victim.stat().st_size)
    name = f"{victim.stem.rpartition('-')[0]}-{xxhash.xxh3_64_hexdigest(content)}.parquet"
    victim.unlink()
    (victim.parent / name).write_bytes(content)
    for entry in (store_path / "trajectories" / "_delta_log").glob("*.json"):
        entry.write_text(entry.read_text().replace(victim.name, name))
    store = open_store(store_path)
    assert len(store.trajectories()) == 13
    assert [path.name for path, _ in store.damaged()] == [name]


@pytest.mark.filterwarnings("ignore::rolltrace.query.IncompleteWarning")
@pytest.mark.parametrize("way", ["absolute", "dots", "link", "linked folder"])
def test_a_log_that_points_out_of_its_table_is_not_followed(store_path: Path, tmp_path: Path, way: str) -> None:
    victim = files_of(store_path, "trajectories", -1)[0]
    folder = store_path / "trajectories"
    path = victim.relative_to(folder)
    outside = tmp_path / "outside" / victim.name
    outside.parent.mkdir()
    victim.rename(outside)
    if way == "link":
        victim.symlink_to(outside)
    elif way == "linked folder":
        victim.parent.rmdir()
        victim.parent.symlink_to(outside.parent)
    else:
        target = outside if way == "absolute" else Path("..", "..", "outside", victim.name)
        for entry in (folder / "_delta_log").glob("*.json"):
            entry.write_text(entry.read_text().replace(str(path), str(target)))
    store = open_store(store_path)
    assert len(store.trajectories()) == 13
    assert [name.name for name, _ in store.damaged()] == [victim.name]


def test_the_database_reads_nothing_but_the_tables(store_path: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    store = open_store(store_path)
    for statement in (
        f"SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')",
        f"SELECT * FROM read_text('{store_path / 'format.json'}')",
        "SELECT * FROM read_text('/etc/passwd')",
    ):
        with pytest.raises(QueryError):
            store.sql(statement)


def test_a_question_about_the_only_step_there_is_reads_nothing_that_was_read_for_all(tmp_path: Path) -> None:
    start(tmp_path)
    with rolltrace.rollout_trace_attr(1, step=1):
        agent("x")
    store = open_store(tmp_path)
    assert len(store.trajectories()) == 1
    assert [row["step"] for row in store.trajectories(step=1)] == [1]
    assert len(store._engine._snapshot.cursors) == 1


def test_a_flipped_bit_is_found_by_its_checksum(store_path: Path) -> None:
    victim = files_of(store_path, "notes")[0]
    content = bytearray(victim.read_bytes())
    at = len(content) // 3
    content[at] ^= 1
    victim.write_bytes(content)
    assert [path for path, _ in open_store(store_path).damaged(thorough=True)] == [victim]


def test_files_that_are_compacted_and_removed_while_we_ask_are_no_problem(store_path: Path) -> None:
    store = open_store(store_path)
    expected = store.trajectories().rows()
    before = {path for table in ("trajectories", "ops", "scores") for path in files_of(store_path, table)}
    compact(store_path)
    for path in before - {path for table in ("trajectories", "ops", "scores") for path in files_of(store_path, table)}:
        path.unlink()
    assert store.sql("SELECT count(*) AS n, count(inputs) AS m FROM spans WHERE step = 10").rows() == [
        {"n": 20, "m": 20}
    ]
    assert store.trajectories().rows() == expected
    assert store.damaged() == []


def test_a_torn_entry_of_the_log_is_passed_over(store_path: Path) -> None:
    log = store_path / "trajectories" / "_delta_log"
    newest = max(log.glob("*.json"))
    (log / f"{int(newest.stem) + 1:020}.json").write_text('{"add": {"path": "da')
    assert len(open_store(store_path).trajectories()) == 17


def test_a_checkpoint_stands_for_the_entries_before_it(store_path: Path) -> None:
    tables = TableStore(address_in(store_path))
    expected = open_store(store_path).trajectories().rows()
    tables.table("trajectories")._delta.create_checkpoint()
    for entry in (store_path / "trajectories" / "_delta_log").glob("*.json"):
        entry.unlink()
    assert open_store(store_path).trajectories().rows() == expected


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
    stop, at_work = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def drain_on() -> None:
        follower = Follower(tmp_path)
        with follower.working() as alone:
            assert alone
            at_work.set()
            while not stop.is_set():
                try:
                    follower.drain()
                except BaseException as fault:
                    failures.append(fault)
                    return
                time.sleep(0.01)

    start(tmp_path, limits={"segment_bytes": "64KiB"})
    thread = threading.Thread(target=drain_on)
    thread.start()
    try:
        assert at_work.wait(60)
        while written < nightly(48, 16) and not failures:
            for _ in range(4):
                with rolltrace.rollout_trace_attr(written, step=written % 3) as trajectory:
                    agent("x" * 3000)
                    trajectory.reward(1.0)
                written += 1
            until = time.monotonic() + 30
            while True:
                rows = store.trajectories().rows()
                (row,) = store.sql("SELECT count(*) AS n, count(DISTINCT op_id) AS d FROM spans").rows()
                assert row["n"] == row["d"] <= 5 * written
                assert time.monotonic() < until
                if [each["status"] for each in rows] == ["ok"] * written:
                    break
            assert row["n"] == 5 * written
            assert all(row["reward"] == 1.0 and row["turns"] == 2 for row in rows)
    finally:
        stop.set()
        thread.join()
    assert not failures


@pytest.mark.filterwarnings("ignore::rolltrace.query.IncompleteWarning")
def test_a_damaged_file_is_left_out_for_all_who_ask_at_once(store_path: Path) -> None:
    victim = files_of(store_path, "trajectories", 10)[0]
    cut(victim)
    store = open_store(store_path)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(store.trajectories, step=step) for step in (0, 10, None) * nightly(6, 3)]
        counts = [len(each.result()) for each in asked]
    assert counts[::3] == [8] * nightly(6, 3)
    assert len(store.trajectories()) == counts[-1]
    assert [path for path, _ in store.damaged(thorough=True)] == [victim]
