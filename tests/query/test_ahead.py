"""A store that looks ahead: new data is there without a question having waited for it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import rolltrace
from rolltrace.query import Store, ahead, open_store
from tests.background import eventually
from tests.nightly import nightly

from .conftest import agent


@pytest.fixture
def store(tmp_path: Path) -> Store:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    record(0)
    store = open_store(tmp_path)
    store.look_ahead()
    return store


def record(sample: int) -> None:
    with rolltrace.rollout_trace_attr(sample, 1, 0):
        agent("question")


def count(store: Store) -> int:
    return len(store.trajectories(step=1))


def is_looking() -> bool:
    return any(thread.name == "rolltrace-ahead" for thread in threading.enumerate())


def test_a_question_does_not_wait_until_somebody_has_looked_for_new_data(store: Store) -> None:
    assert count(store) == 1
    is_held, may_end = threading.Event(), threading.Event()

    def look() -> None:
        with store._engine._looking:
            is_held.set()
            may_end.wait()

    thread = threading.Thread(target=look)
    thread.start()
    is_held.wait()
    try:
        assert count(store) == 1
        assert store.version() == store.version()
    finally:
        may_end.set()
        thread.join()


def test_what_is_recorded_meanwhile_is_there_soon(store: Store) -> None:
    assert count(store) == 1
    version = store.version(1)
    record(1)
    eventually(lambda: count(store) == 2)
    assert store.version(1) != version
    assert len(store.sql("SELECT * FROM spans", step=1)) == 5 * count(store)


def test_the_thread_ends_when_nobody_asks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "KEEP_SEC", 0.0)
    assert count(store) == 1
    eventually(lambda: not is_looking())
    record(1)
    store.refresh()
    assert count(store) == 2


def test_a_store_that_was_closed_answers_again(store: Store) -> None:
    assert count(store) == 1
    store.close()
    record(1)
    eventually(lambda: count(store) == 2)


def test_what_moves_and_what_was_drained_stay_right_while_questions_are_asked(store: Store, tmp_path: Path) -> None:
    problems: list[BaseException] = []
    done = threading.Event()

    def ask(step: int | None) -> None:
        seen = 0
        while not done.is_set():
            try:
                rows = store.trajectories(step=step).rows()
                assert len(rows) >= seen
                assert len({row["trajectory_id"] for row in rows}) == len(rows)
                seen = len(rows)
            except BaseException as problem:
                problems.append(problem)
                return

    threads = [threading.Thread(target=ask, args=(step,)) for step in (1, None, 1)]
    for thread in threads:
        thread.start()
    last = nightly(40, 20)
    for sample in range(1, last):
        record(sample)
        if sample % (last // 4) == 0:
            store.refresh()
    rolltrace.shutdown()
    store.refresh()
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert count(store) == last
