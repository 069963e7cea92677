"""Clocks that differ between hosts: the later score counts where that can be known, nothing waits, and doctor tells."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import rolltrace
from rolltrace.capture import Recorder
from rolltrace.cli import main
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import routed
from rolltrace.query import open_store
from rolltrace.tables import note_routes
from tests.draining import drain

AHEAD_NS = 2 * 3600 * 10**9


@rolltrace.rollout_trace_op
def think(text: str) -> str:
    return text


@pytest.fixture
def ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one trajectory, of a host whose clock is two hours ahead."""
    real = time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: real() + AHEAD_NS)
        patch.setitem(Recorder.__init__.__kwdefaults__, "wall_ns", time.time_ns)
        rolltrace.init("p", "e", ["rolltrace", "otlp"], store=tmp_path, drain="off")
        with rolltrace.rollout_trace_attr(step=1, sample_index=1) as trajectory:
            think("ahead")
            trajectory.reward(0.5)
        rolltrace.shutdown()
    return tmp_path


def test_a_score_given_to_a_store_counts_although_the_one_before_is_dated_ahead(ahead: Path) -> None:
    store = open_store(ahead)
    (row,) = store.trajectories().rows()
    store.score(row["trajectory_id"], "reward", 0.9)
    store.score(row["trajectory_id"], "reward", 0.1)
    assert store.trajectory(row["trajectory_id"]).reward == 0.1
    drain(ahead)
    assert open_store(ahead).trajectory(row["trajectory_id"]).reward == 0.1


def test_a_score_given_to_a_store_by_coordinates_counts_although_the_trajectory_is_dated_ahead(ahead: Path) -> None:
    store = open_store(ahead)
    store.score((1, 1, None), "reward", 0.9)
    assert [row["reward"] for row in store.trajectories()] == [0.9]


def test_what_is_dated_ahead_is_sent_without_waiting_for_that_time(ahead: Path) -> None:
    drain(ahead)
    note_routes(ahead, {"project": "p", "experiment": "e", "backends": ["otlp"]})
    pending = routed(open_store(ahead), Outbox(ahead, "otlp"))
    assert (len(pending.send), pending.unsettled) == (1, 0)


def test_doctor_tells_of_a_clock_that_is_ahead(ahead: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(ahead)]) == 1
    assert "its clock is 2.0 h ahead of the file system's" in capsys.readouterr().out
    drain(ahead)
    assert main(["doctor", str(ahead)]) == 1
    printed = capsys.readouterr().out
    assert "there are times up to 2.0 h ahead of this host's clock" in printed
    assert "the file system's" not in printed


def test_doctor_is_silent_where_clocks_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    with rolltrace.rollout_trace_attr(step=1, sample_index=1):
        think("on time")
    rolltrace.shutdown()
    drain(tmp_path)
    assert main(["doctor", str(tmp_path)]) == 0
    assert "clock" not in capsys.readouterr().out
