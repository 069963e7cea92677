"""A process that has looked at a store is forked."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import rolltrace
from rolltrace.query import open_store


def _exit_code_of_child(work: object) -> int:
    assert callable(work)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _write(store: Path) -> None:
    rolltrace.init("p", "e", store=store)
    for number in range(3):
        with rolltrace.rollout_trace_attr(sample_index=number, step=1):
            pass
    rolltrace.shutdown()


def test_a_child_can_ask_the_store_that_its_parent_opened(tmp_path: Path) -> None:
    _write(tmp_path)
    store = open_store(tmp_path)
    assert len(store.trajectories()) == 3
    assert _exit_code_of_child(lambda: len(store.trajectories()) == 3) == 0
    assert len(store.trajectories()) == 3


def test_a_child_sees_what_was_recorded_since_its_parent_asked(tmp_path: Path) -> None:
    _write(tmp_path)
    store = open_store(tmp_path)
    assert len(store.trajectories()) == 3
    _write(tmp_path)

    def ask() -> bool:
        store.refresh()
        return len(store.trajectories(all_runs=True)) == 6

    assert _exit_code_of_child(ask) == 0


def test_a_store_that_the_parent_has_forgotten_does_not_crash_the_child(tmp_path: Path) -> None:
    """The database of the parent cannot be closed in the child: its threads are not there."""
    _write(tmp_path)
    gc.collect()
    gc.disable()
    try:
        forgotten: list[object] = [open_store(tmp_path)]
        assert len(forgotten[0].trajectories().df()) == 3  # type: ignore[attr-defined]
        forgotten.append(forgotten)  # only the collector finds it now
        del forgotten
        assert _exit_code_of_child(lambda: gc.collect() >= 0) == 0
    finally:
        gc.enable()
