"""Ops that begin and end in two places."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rolltrace.messages import read_reply
from rolltrace.query import open_store

KILLED = """
import os, sys
import rolltrace
from rolltrace.capture import TrajectoryHandle, scope
from rolltrace.instruments import OpenOp
rolltrace.init("p", "e", store=sys.argv[1], drain="off", quiet=True)
recorder = scope.recorder
op = OpenOp("chat", "llm", {"messages": [{"role": "user", "content": "why? " * 2000}]}, TrajectoryHandle(recorder))
op.is_stream = True
for number in range(10):
    op.yielded({"choices": [{"index": 0, "delta": {"content": f"{number} "}}]})
    op.write_so_far()
    if number % 3 == 2:
        recorder.sink.turn_over()  # the next piece is in another file
if sys.argv[2] == "ended":
    op.finish()
os._exit(9)
"""


def test_a_stream_that_ended_over_several_journal_files_is_one_op(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert subprocess.run([sys.executable, "-c", KILLED, str(store), "ended"], check=False).returncode == 9
    opened = open_store(store)
    (row,) = opened.trajectories().rows()
    (op,) = opened.trajectory(row["trajectory_id"]).ops
    assert (row["turns"], op.status) == (1, "ok")


def test_a_stream_that_was_killed_keeps_its_pieces_over_several_journal_files(tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert subprocess.run([sys.executable, "-c", KILLED, str(store), "killed"], check=False).returncode == 9
    for is_drained in (False, True):
        if is_drained:
            subprocess.run([sys.executable, "-m", "rolltrace", "store", "drain", "--once", str(store)], check=True)
        opened = open_store(store)
        (row,) = opened.trajectories().rows()
        (op,) = opened.trajectory(row["trajectory_id"]).ops
        reply = read_reply(op.outputs)
        assert reply is not None
        assert reply.text == "0 1 2 3 4 5 6 7 8 9 "
        assert (op.status, op.inputs["messages"][0]["content"]) == ("interrupted", "why? " * 2000)
