"""Answers, and what was read of trajectories, are kept while they fit, and made once for all who ask at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rolltrace.errors import StoppedError
from rolltrace.query import Store
from rolltrace.view.cache import MAX_ANSWER_BYTES, Answer, Cache, Loaded


def answer_cache() -> Cache:
    return Cache(MAX_ANSWER_BYTES, MAX_ANSWER_BYTES // 8)


def size_of(answer: Answer) -> int:
    return len(answer.body)


def never() -> Answer:
    raise AssertionError("this answer is known")


def no_check() -> None:
    """Whoever waits goes on waiting."""


def test_answers_are_kept_as_long_as_they_fit() -> None:
    answers, size = answer_cache(), 1 << 20
    for at in range(100):
        answers.get(str(at), lambda: Answer(bytes(size)), size_of, no_check)
    assert answers.get("99", never, size_of, no_check).body == bytes(size)
    with pytest.raises(AssertionError):
        answers.get("0", never, size_of, no_check)
    answers.get("large", lambda: Answer(bytes(8 * size)), size_of, no_check)
    with pytest.raises(AssertionError):
        answers.get("large", never, size_of, no_check)


def test_those_who_ask_the_same_at_once_wait_for_one_answer() -> None:
    answers, waiting, may_end = answer_cache(), threading.Semaphore(0), threading.Event()
    made: list[Answer] = []

    def make() -> Answer:
        may_end.wait()
        made.append(Answer(bytes(8 << 20)))  # too large to be kept: those who wait get it all the same
        return made[-1]

    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(answers.get, "one", make, size_of, waiting.release) for _ in range(5)]
        for _ in range(8):  # four wait
            waiting.acquire()
        may_end.set()
        assert {id(each.result()) for each in asked} == {id(asked[0].result())}
    assert len(made) == 1


def test_another_makes_the_answer_if_the_one_who_began_is_stopped() -> None:
    answers, waiting, may_end = answer_cache(), threading.Event(), threading.Event()

    def stopped() -> Answer:
        may_end.wait()
        raise StoppedError("the client went away")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(answers.get, "one", stopped, size_of, no_check)
        second = pool.submit(answers.get, "one", lambda: Answer(b"[]"), size_of, waiting.set)
        waiting.wait()
        may_end.set()
        with pytest.raises(StoppedError):
            first.result()
        assert second.result().body == b"[]"


def test_who_waits_for_an_answer_can_leave() -> None:
    answers, may_end = answer_cache(), threading.Event()

    def make() -> Answer:
        may_end.wait()
        return Answer(b"[]")

    def leave() -> None:
        raise StoppedError("the client went away")

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(answers.get, "one", make, size_of, no_check)
        while not answers._making:
            threading.Event().wait(0.001)
        with pytest.raises(StoppedError):
            answers.get("one", make, size_of, leave)
        may_end.set()
        assert first.result().body == b"[]"


def ids_of(demo: Store) -> list[str]:
    rows = demo.trajectories(experiment="grpo-7b", step=1, limit=6).rows()
    return [str(row["trajectory_id"]) for row in rows]


def test_what_was_read_of_a_trajectory_is_kept(demo: Store) -> None:
    loaded = Loaded(demo)
    first, *_ = ids_of(demo)
    assert loaded.messages(first) is loaded.messages(first)
    assert loaded.trajectory(first) is loaded.trajectory(first[:12])


def test_no_more_is_kept_than_fits(demo: Store) -> None:
    loaded = Loaded(demo, 20_000)
    first, *others = ids_of(demo)
    messages = loaded.messages(first)
    for each in others:
        loaded.messages(each)
        loaded.tokens(each)
        loaded.ops(each)
    cache = loaded.cache
    assert cache.size_bytes == sum(size for _, size in cache._entries.values()) <= 20_000
    assert loaded.messages(first) is not messages
    assert loaded.messages(first) == messages


def test_payloads_are_given_back_when_another_trajectory_is_looked_at(demo: Store) -> None:
    loaded = Loaded(demo)
    first, second, *_ = ids_of(demo)
    trajectory = loaded.trajectory(first)
    op = next(op for op in trajectory.walk() if op.kind == "llm")
    inputs = op.inputs
    contents = trajectory.tokens.contents  # type: ignore[attr-defined]
    assert contents._payload.read is not None
    loaded.trajectory(second)
    assert contents._payload.read is None
    assert op.inputs == inputs
