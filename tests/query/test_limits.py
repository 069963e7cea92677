"""Questions that take too long, or that nobody waits for, are stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from rolltrace.query import Limit, Scope, StoppedError, Store, trajectory_page
from rolltrace.query.database import interruptible

SLOW = "SELECT count(*) FROM range(10_000_000) a, range(10_000_000) b"


def test_a_question_that_takes_too_long_is_stopped(demo: Store) -> None:
    with pytest.raises(StoppedError, match=r"longer than 0\.2 s"), Limit(0.2):
        demo.sql(SLOW)
    assert demo.experiments().rows()  # and the store goes on


def test_a_question_can_be_stopped_from_another_thread(demo: Store) -> None:
    limit = Limit(60)
    began = threading.Event()

    def ask() -> None:
        with limit:
            demo.experiments()
            began.set()
            demo.sql(SLOW)

    with ThreadPoolExecutor() as threads:
        asked = threads.submit(ask)
        began.wait()
        limit.stop("nobody waits")
        with pytest.raises(StoppedError, match="nobody waits"):
            asked.result()


def test_a_question_that_waits_for_another_can_be_stopped(demo: Store) -> None:
    limit = Limit(60)

    def ask_slowly() -> None:
        with limit:
            demo.sql(SLOW)

    def ask_until_stopped(running: Future[None]) -> None:
        while not running.done():  # others are answered until the slow question has begun
            with Limit(0.1):
                demo.sql("SELECT 1")

    with ThreadPoolExecutor() as threads:
        running = threads.submit(ask_slowly)
        with pytest.raises(StoppedError, match="longer than"):
            ask_until_stopped(running)
        limit.stop("enough")
        with pytest.raises(StoppedError, match="enough"):
            running.result()


def test_what_was_stopped_stays_stopped(demo: Store) -> None:
    limit = Limit(60)
    limit.stop("nobody waits")
    with pytest.raises(StoppedError), limit:
        trajectory_page(demo, Scope())


def test_without_a_limit_nothing_is_stopped(demo: Store) -> None:
    assert demo.sql("SELECT 42 AS n").rows() == [{"n": 42}]


def test_ctrl_c_stops_work_that_had_not_yet_begun_when_it_was_told() -> None:
    """A database forgets an interrupt that comes before the statement."""
    told, begun, stop = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        told.wait()
        begun.set()
        stop.wait()

    def interrupt() -> None:
        (stop if begun.is_set() else told).set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(work, interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert stop.is_set()


LOAD = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may ignore it
sys.addaudithook(lambda event, args: event == "import" and args[0] == "_duckdb" and os.kill(os.getpid(), signal.SIGINT))
try:
    import rolltrace.query.database
except KeyboardInterrupt:
    print("_duckdb" in sys.modules)
"""


def test_ctrl_c_while_duckdb_is_loaded_comes_after_that() -> None:
    """In the midst of it, it would abort the process."""
    loading = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True)
    assert (loading.returncode, loading.stdout) == (0, "True\n"), loading.stderr
