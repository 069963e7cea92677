"""People who label at once, and a process that is killed in the middle: nothing that was said is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import rolltrace
from rolltrace.query import open_store

LABELLER = """
import sys
from rolltrace.query import open_store
store = open_store(sys.argv[1])
for number in range(int(sys.argv[3])):
    store.label((1, number % 3, 0), f"label {number}", author=sys.argv[2])
    print(number, flush=True)
"""


def labeller(store: Path, author: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LABELLER, str(store), author, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_people_label_at_once_and_one_is_killed(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path)
    for sample in range(3):
        with rolltrace.rollout_trace_attr(sample, step=1, rollout_n=0):
            pass
    rolltrace.shutdown()
    with labeller(tmp_path, "ann", 4) as ann, labeller(tmp_path, "bob", 1000) as bob:
        assert bob.stdout is not None
        seen = [bob.stdout.readline() for _ in range(2)]
        bob.send_signal(signal.SIGKILL)
        seen += bob.stdout.readlines()
        assert ann.wait() == 0
    rows = open_store(tmp_path).labels().rows()
    of_bob = {row["name"] for row in rows if row["author"] == "bob"}
    assert {row["name"] for row in rows if row["author"] == "ann"} == {f"label {number}" for number in range(4)}
    assert of_bob >= {f"label {int(line)}" for line in seen if line.endswith("\n")}
    assert len(of_bob) <= len(seen) + 1  # the last may have been saved before it was printed
