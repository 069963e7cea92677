"""Journals that are still written to."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import rolltrace
from rolltrace.journal import SegmentReader, journal_files
from rolltrace.query import IncompleteWarning, engine, live, open_store
from rolltrace.query.live import LiveJournals
from rolltrace.store import SCHEMAS
from tests.draining import drain

from .conftest import agent, bring_into, search, start, write_run


@pytest.fixture(params=["mmap", "append"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def tables_of(journals: LiveJournals) -> dict[str, pa.Table]:
    return {
        name: pa.concat_tables([SCHEMAS[name].empty_table(), *(chunk for chunks in of.values() for chunk in chunks)])
        for name, of in journals.tables(frozenset()).items()
    }


def count(journals: LiveJournals, table: str = "spans") -> int:
    return len(tables_of(journals)[table])


def test_reading_goes_on_where_it_ended(tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start(tmp_path, journal_mode=mode)
    journals = LiveJournals(tmp_path)
    offsets = []
    read_from = SegmentReader.read_from
    monkeypatch.setattr(SegmentReader, "read_from", lambda self, at: offsets.append(at) or read_from(self, at))
    for number in range(1, 60):
        search("x")
        assert journals.refresh()
        assert count(journals) == number
    assert offsets == sorted(set(offsets))
    opened = len(offsets)
    assert not journals.refresh()
    assert len(offsets) == opened


def test_an_end_of_the_writer_is_noticed(tmp_path: Path, mode: str) -> None:
    start(tmp_path, journal_mode=mode)
    journals = LiveJournals(tmp_path)
    left_open = rolltrace.rollout_trace_attr(1, step=0)
    left_open.__enter__()
    for status in ("running", "interrupted"):
        assert journals.refresh()
        assert tables_of(journals)["trajectories"]["status"].to_pylist() == [status]
        rolltrace.shutdown()
    left_open.__exit__(None, None, None)


def test_damage_in_a_live_file_costs_one_record_and_is_counted(tmp_path: Path) -> None:
    start(tmp_path)
    for name in "abc":
        search(name)
    (path,) = journal_files(tmp_path)
    end_of_b = list(SegmentReader.open(path))[3]
    with path.open("r+b") as file:
        file.seek(end_of_b.offset + 20)
        file.write(b"\xff\xff\xff\xff")
    journals = LiveJournals(tmp_path)
    for expected in (3, 4):
        journals.refresh()
        tables = tables_of(journals)
        assert tables["spans"].num_rows == expected
        assert tables["spans"]["status"].to_pylist().count("running") == 1
        assert tables["losses"]["reason"].to_pylist() == ["damaged"]
        search("d")


def test_an_op_over_two_segments_has_one_row(tmp_path: Path) -> None:
    start(tmp_path, segment_bytes="64KiB")
    journals = LiveJournals(tmp_path)

    @rolltrace.rollout_trace_op
    def outer() -> None:
        for _ in range(4):
            search("x" * 50_000)
            drain(tmp_path)
        journals.refresh()
        assert "running" in tables_of(journals)["spans"]["status"].to_pylist()

    outer()
    journals.refresh()
    assert tables_of(journals)["spans"]["status"].to_pylist().count("running") == 0


def test_many_small_readings_stay_few_chunks(tmp_path: Path) -> None:
    start(tmp_path)
    journals = LiveJournals(tmp_path)
    for _ in range(100):
        search("x")
        journals.refresh()
    assert tables_of(journals)["spans"]["op_id"].num_chunks <= 34
    assert count(journals) == 100


def test_drained_segments_are_forgotten(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write_run(store)
    journals = LiveJournals(store)
    journals.refresh()
    assert count(journals) == 63
    bring_into("drained", store)
    assert journals.refresh()
    assert count(journals) == 0


def test_secrets_are_taken_out_of_live_rows_too(tmp_path: Path) -> None:
    start(tmp_path)
    agent("sk-proj-" + "a1B2" * 10)
    journals = LiveJournals(tmp_path)
    journals.refresh()
    assert "a1B2a1B2" not in str(tables_of(journals)["spans"].to_pylist())


def test_a_store_without_journals_is_empty(tmp_path: Path) -> None:
    journals = LiveJournals(tmp_path)
    assert not journals.refresh()
    assert count(journals) == 0


def test_a_backlog_is_read_in_bounded_looks_each_after_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(tmp_path, segment_bytes="64KiB")
    for number in range(40):
        with rolltrace.rollout_trace_attr(number, step=0):
            search("x" * 3000)
    rolltrace.shutdown()
    assert len(journal_files(tmp_path)) > 2
    monkeypatch.setattr(live, "_WORK_PER_LOOK", 30)
    journals = LiveJournals(tmp_path)
    seen, left = [0], [1 << 30]
    while journals.refresh():
        rows = tables_of(journals)
        seen.append(len(rows["trajectories"]))
        left.append(sum(journals.unread.values()))
        statuses = rows["trajectories"]["status"].to_pylist()
        # What began in the part that was read, and ends in the rest, is not said to be interrupted.
        assert set(statuses) <= {"ok", "running"}
    assert len(seen) > 4
    assert seen == sorted(seen)
    assert left == sorted(left, reverse=True)
    assert (seen[-1], left[-1]) == (40, 0)


def test_an_answer_says_how_much_of_the_journals_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(tmp_path)
    for number in range(20):
        with rolltrace.rollout_trace_attr(number, step=0):
            search("x")
    rolltrace.shutdown()
    monkeypatch.setattr(live, "_WORK_PER_LOOK", 30)
    started: list[Path] = []
    monkeypatch.setattr(engine, "start_drainer", started.append)
    store = open_store(tmp_path)
    with pytest.warns(IncompleteWarning, match="wait to be drained"):
        found = store.trajectories()
    assert 0 < len(found) < 20
    assert store.unread_bytes > 0
    assert [each.kind for each in found.incomplete.missing] == ["backlog"]
    assert started == [tmp_path]
    store.refresh()
    assert (len(store.trajectories()), store.unread_bytes) == (20, 0)
    assert not store.trajectories().incomplete
