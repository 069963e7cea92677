"""A reader waits for a drainer as long as that gets on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import rolltrace
from rolltrace.drain import catch_up, waiting
from rolltrace.drain.drain_state import note_committed
from rolltrace.journal import HEADER_BYTES, Position, drainer_lock, journal_folder, list_segments, undrained_bytes


@pytest.fixture
def undrained(tmp_path: Path) -> Path:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    for number in range(20):
        with rolltrace.rollout_trace_attr(step=1, sample_index=number, rollout_n=0):
            pass
    return tmp_path


def wait_with(store: Path, monkeypatch: pytest.MonkeyPatch, commits: list[float]) -> tuple[int, int]:
    """Wait 60 seconds for a drainer that commits such a share of the journal every 50 seconds; what is left, and how
    long that took."""
    ((name, sequence),) = list_segments(journal_folder(store))
    size = undrained_bytes(journal_folder(store) / f"{name}-{sequence:06d}.seg")
    now, shares = 0, list(commits)

    def sleep(_seconds: float) -> None:
        nonlocal now
        now += 50
        share = shares.pop(0) if shares else 0.0
        note_committed(journal_folder(store), {name: Position(sequence, HEADER_BYTES + int(size * share)).encode()})

    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    with drainer_lock(journal_folder(store)):  # as a drainer would
        monkeypatch.setattr(waiting, "drains_itself", lambda store: False)
        left = catch_up(store, wait_sec=60.0)
    return left * 100 // size, now


def test_a_drainer_that_gets_on_is_waited_for(undrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wait_with(undrained, monkeypatch, [0.2, 0.4, 0.6, 0.8, 1.0]) == (0, 250)


def test_one_that_does_not_is_given_up(undrained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wait_with(undrained, monkeypatch, [0.2, 0.4, 0.4, 0.4, 0.4]) == (60, 200)
