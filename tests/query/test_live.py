"""What runs right now, and what was recorded a moment ago."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import rolltrace
from rolltrace.errors import StoreError
from rolltrace.journal import SegmentReader, journal_files
from rolltrace.query import IncompleteWarning, open_store
from rolltrace.query.engine import Engine
from rolltrace.tables import LiveOp, LiveSnapshot, write_live
from tests.draining import drain

from .conftest import agent, search, start


def test_each_refresh_shows_what_was_recorded_since(tmp_path: Path) -> None:
    start(tmp_path)
    store = open_store(tmp_path)
    for number in range(1, 6):
        search("x")
        store.refresh()
        assert len(store.sql("FROM ops")) == number


def test_an_end_of_the_writer_is_noticed(tmp_path: Path) -> None:
    start(tmp_path)
    store = open_store(tmp_path)
    left_open = rolltrace.rollout_trace_attr(1, step=0)
    left_open.__enter__()
    for status in ("running", "interrupted"):
        store.refresh()
        assert [row["status"] for row in store.trajectories()] == [status]
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
    store = open_store(tmp_path)
    with pytest.warns(IncompleteWarning, match="1 damaged place"):
        assert len(store.sql("SELECT * FROM ops WHERE status = 'ok'")) == 2
    assert [row["reason"] for row in store.losses()] == ["damaged"]


def test_an_op_over_two_segments_has_one_row(tmp_path: Path) -> None:
    start(tmp_path, limits={"segment_bytes": "64KiB"})
    store = open_store(tmp_path)

    @rolltrace.rollout_trace_op
    def outer() -> None:
        for _ in range(4):
            search("x" * 50_000)
            drain(tmp_path)
        store.refresh()
        assert [row["kind"] for row in store.sql("FROM ops WHERE status = 'running'")] == ["other"]

    outer()
    store.refresh()
    assert [row["status"] for row in store.sql("FROM ops WHERE kind = 'other'")] == ["ok"]


def test_an_op_that_ended_after_the_snapshot_of_its_host_is_there_once(tmp_path: Path) -> None:
    start(tmp_path)
    search("x")
    drain(tmp_path)
    store = open_store(tmp_path)
    (row,) = store.sql("FROM ops").rows()
    fields = {name: row[name] for name in LiveOp.__struct_fields__}
    other = LiveOp(**{**fields, "op_id": 7, "name": "still runs"})
    write_live(tmp_path, LiveSnapshot("host", row["end_ns"] - 1, ops=[LiveOp(**fields), other]))
    store._engine.refresh(now=True)
    statuses = {row["name"]: row["status"] for row in store.sql("FROM ops")}
    assert statuses == {"search": "ok", "still runs": "running"}
    assert store.sql("SELECT payload, tokens FROM spans WHERE op_id = 7").rows() == [{"payload": None, "tokens": None}]


def test_secrets_are_taken_out_before_anybody_can_read_them(tmp_path: Path) -> None:
    start(tmp_path)
    agent("sk-proj-" + "a1B2" * 10)
    assert "a1B2a1B2" not in str(open_store(tmp_path).sql("FROM spans").rows())


def test_a_store_without_journals_is_empty(tmp_path: Path) -> None:
    assert len(open_store(tmp_path).sql("FROM ops")) == 0


def test_a_first_question_is_not_answered_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(tmp_path)
    search("x")
    rolltrace.shutdown()
    monkeypatch.setattr("rolltrace.drain.catch_up", lambda store, **_: 5_000_000, raising=False)
    with pytest.raises(StoreError, match=r"5.0 MB of journals .* rolltrace store drain "):
        open_store(tmp_path).trajectories()


def test_a_store_that_cannot_be_written_to_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start(tmp_path)
    search("x")
    rolltrace.shutdown()
    monkeypatch.setattr("rolltrace.query.damage.write_problem", lambda store: "it is mounted read-only")
    monkeypatch.setattr("rolltrace.drain.catch_up", lambda store, **_: 5_000_000, raising=False)
    store = open_store(tmp_path)
    with pytest.warns(IncompleteWarning, match=r"5.0 MB of journals were not drained"):
        answer = store.trajectories()
    assert [each.kind for each in answer.incomplete.missing] == ["backlog"]


def test_later_questions_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def catch_up(store: Path, *, wait_sec: float, progress: Callable[[int, int], None]) -> int:
        waits.append(wait_sec)
        return 0

    start(tmp_path)
    search("x")
    monkeypatch.setattr("rolltrace.drain.catch_up", catch_up, raising=False)
    engine = Engine(tmp_path)
    for _ in range(2):
        engine.refresh(now=True)
    engine.refresh(everything=True)
    assert [wait > 0 for wait in waits] == [True, False, True]
