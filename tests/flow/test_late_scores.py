"""Scores from other processes than the one that rolled out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace
from rolltrace.query import open_store
from tests.draining import drain

SCORER = """
import sys, rolltrace
rolltrace.init("p", "e", "rolltrace", store=sys.argv[1], drain="off")
me = int(sys.argv[2])
for number, target in enumerate(sys.argv[3:]):
    by_id = len(target) == 32
    rolltrace.score(target if by_id else (1, int(target), 0), "reward", me + number / 100, terms={"me": me})
    rolltrace.score(target if by_id else (1, int(target), 0), f"of {me}", number)
"""


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    made = []
    for sample in range(10):
        with rolltrace.rollout_trace_attr(sample, step=1, rollout_n=0) as trajectory:
            trajectory.reward(-1.0)
        made.append(trajectory.id)
    return made  # tracing stays on: the rollout process is still there


def scorer(store: Path, number: int, targets: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SCORER, str(store), str(number), *targets])


@pytest.mark.parametrize("drained", [False, True])
def test_another_process_scores_by_id_and_by_coordinates(tmp_path: Path, ids: list[str], drained: bool) -> None:
    for targets in (ids[:5], [str(sample) for sample in range(5, 10)]):
        assert scorer(tmp_path, 3, targets).wait() == 0
    if drained:
        rolltrace.shutdown()
        drain(tmp_path)
    store = open_store(tmp_path)
    assert [row["reward"] for row in store.trajectories(step=1)] == [3 + at / 100 for at in (0, 1, 2, 3, 4) * 2]
    assert store.trajectory(ids[0]).scores[-2]["terms"] == {"me": 3}
    assert len(store.unmatched_scores()) == 0


def test_eight_processes_score_at_once_and_nothing_is_lost(tmp_path: Path, ids: list[str]) -> None:
    names = [*ids[:5], *(str(sample) for sample in range(5, 10))]
    processes = [scorer(tmp_path, number, names) for number in range(8)]
    assert [process.wait() for process in processes] == [0] * 8
    store = open_store(tmp_path)
    assert store.sql("SELECT count(*) AS n FROM scores").rows() == [{"n": 10 + 8 * 10 * 2}]
    for at, row in enumerate(store.trajectories(step=1).rows()):
        scores = store.trajectory(row["trajectory_id"]).scores
        newest = max((score for score in scores if score["name"] == "reward"), key=lambda score: score["time_ns"])
        assert (row["reward"], newest["terms"]["me"] + at / 100) == (newest["value"], newest["value"])
        assert {score["name"] for score in scores} == {"reward", *(f"of {number}" for number in range(8))}
