"""Answers are kept while they are right, and made once for all who ask at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rolltrace.errors import StoppedError
from rolltrace.view.answers import Answer, Answers


def never() -> Answer:
    raise AssertionError("this answer is known")


def no_check() -> None:
    """Whoever waits goes on waiting."""


def test_answers_are_kept_as_long_as_they_fit() -> None:
    answers, size = Answers(), 1 << 20
    for at in range(100):
        answers.get(str(at), lambda: Answer(bytes(size)), no_check)
    assert answers.get("99", never, no_check).answer.body == bytes(size)
    with pytest.raises(AssertionError):
        answers.get("0", never, no_check)
    answers.get("large", lambda: Answer(bytes(8 * size)), no_check)
    with pytest.raises(AssertionError):
        answers.get("large", never, no_check)


def test_those_who_ask_the_same_at_once_wait_for_one_answer() -> None:
    answers, waiting, may_end = Answers(), threading.Semaphore(0), threading.Event()
    made: list[Answer] = []

    def make() -> Answer:
        may_end.wait()
        made.append(Answer(bytes(8 << 20)))  # too large to be kept: those who wait get it all the same
        return made[-1]

    with ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(answers.get, "one", make, waiting.release) for _ in range(5)]
        for _ in range(8):  # four wait
            waiting.acquire()
        may_end.set()
        assert {id(each.result()) for each in asked} == {id(asked[0].result())}
    assert len(made) == 1


def test_another_makes_the_answer_if_the_one_who_began_is_stopped() -> None:
    answers, waiting, may_end = Answers(), threading.Event(), threading.Event()

    def stopped() -> Answer:
        may_end.wait()
        raise StoppedError("the client went away")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(answers.get, "one", stopped, no_check)
        second = pool.submit(answers.get, "one", lambda: Answer(b"[]"), waiting.set)
        waiting.wait()
        may_end.set()
        with pytest.raises(StoppedError):
            first.result()
        assert second.result().answer.body == b"[]"


def test_who_waits_for_an_answer_can_leave() -> None:
    answers, may_end = Answers(), threading.Event()

    def make() -> Answer:
        may_end.wait()
        return Answer(b"[]")

    def leave() -> None:
        raise StoppedError("the client went away")

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(answers.get, "one", make, no_check)
        while not answers._making:
            threading.Event().wait(0.001)
        with pytest.raises(StoppedError):
            answers.get("one", make, leave)
        may_end.set()
        assert first.result().answer.body == b"[]"
