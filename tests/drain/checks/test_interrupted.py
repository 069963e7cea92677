"""What a killed process left open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rolltrace.query import open_store
from tests.draining import drain

from .conftest import Find, generate

PROGRAM = """
import os, sys, rolltrace
rolltrace.init("p", "e", "rolltrace", store=sys.argv[1], drain="off")

@rolltrace.rollout_trace_op
def inner():
    pass

@rolltrace.rollout_trace_op
def outer():
    inner()
    os.kill(os.getpid(), 9)

with rolltrace.rollout_trace_attr(step=1, sample_index=1):
    outer()
"""


def test_the_trajectory_and_the_op_are_flagged(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=False)
    for _ in ("as it is", "drained"):
        (row,) = open_store(tmp_path).trajectories().rows()
        trajectory = open_store(tmp_path).trajectory(row["trajectory_id"])
        (outer,) = trajectory.ops
        assert trajectory.flags == ["interrupted"]
        found = sorted((each["flag"], each["op_id"] or 0) for each in trajectory.findings)
        assert found == [("interrupted", 0), ("interrupted", outer.op_id)]
        drain(tmp_path)


def test_what_ended_is_not(find: Find) -> None:
    assert find(lambda: generate(output="fine")) == []
