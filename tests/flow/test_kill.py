"""kill -9 at random moments: every op whose call had returned is read back, whole and equal."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rolltrace.journal import Damage, Entry, SegmentReader, journal_files, read_journals
from rolltrace.record import OpEnd, OpStart, TrajectoryEnd, decode_value
from tests.nightly import nightly

SCRIPT = Path(__file__).with_name("writer_process.py")
KILLS = {
    "plain": nightly(50, 3),
    "asyncio": nightly(20, 2),
    "threads": nightly(30, 3),
    "forks": nightly(20, 2),
}
"""How many processes, of each kind, are killed in one run of the suite."""


def payload(number: int) -> list[int]:
    return list(range(number, number + (number * 7919) % 3000))


def killed_run(store: Path, how: str, chance: random.Random, until: Callable[[list[int]], bool] = bool) -> list[int]:
    """Start a writer, kill its whole process group after a random number of ops, give the ops it said had returned."""
    command = [sys.executable, str(SCRIPT), str(store), how]
    strict = {**os.environ, "ROLLTRACE_STRICT": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env=strict) as writer:
        assert writer.stdout is not None
        said = [int(writer.stdout.readline()) for _ in range(chance.randrange(1, 400))]
        while not until(said):
            said.append(int(writer.stdout.readline()))
        os.killpg(writer.pid, signal.SIGKILL)
        rest = writer.stdout.read()
    return said + [int(line) for line in rest[: rest.rfind(b"\n") + 1].split()]


CASES = [(how, kill) for how, count in KILLS.items() for kill in range(count)]


@pytest.mark.parametrize(("how", "kill"), CASES)
def test_every_op_that_returned_survives_a_kill(tmp_path: Path, how: str, kill: int) -> None:
    returned = killed_run(tmp_path, how, random.Random(f"{how}{kill}"))

    ended: dict[int, OpEnd] = {}
    started: set[int] = set()
    for _, item in read_journals(tmp_path):
        if isinstance(item, Damage):
            assert item.reason.startswith("torn"), item  # at most the one record that each killed process was writing
            continue
        record = item.record
        if isinstance(record, OpStart):
            started.add(record.op_id)
        if isinstance(record, OpEnd) and record.name == "generate":
            inputs, outputs = decode_value(record.inputs), decode_value(record.outputs)
            number = inputs["number"]
            assert number not in ended, "an op is there once"
            assert inputs["prompt_ids"] == payload(number)
            assert outputs["token_ids"] == payload(number)[::-1]
            assert outputs["text"] == "回答 🎉" * (number % 50)
            ended[number] = record

    assert returned, "the process was killed before its first op"
    missing = [number for number in returned if number not in ended]
    assert missing == []
    assert all(op.op_id in started for op in ended.values())


def test_a_killed_writer_leaves_abandoned_segments_and_says_so(tmp_path: Path) -> None:
    killed_run(tmp_path, "plain", random.Random(1))
    states = [SegmentReader.open(path).state for path in journal_files(tmp_path)]
    assert states[-1] == "abandoned"
    # The next file is begun before the last is sealed: a kill between the two leaves both.
    assert set(states[:-2]) <= {"sealed"}


def test_each_forked_child_writes_a_journal_of_its_own(tmp_path: Path) -> None:
    killed_run(tmp_path, "forks", random.Random(2), until=lambda said: len({n // 1_000_000 for n in said}) == 4)
    writers = {SegmentReader.open(path).meta["writer"] for path in journal_files(tmp_path)}
    pids = {SegmentReader.open(path).meta["pid"] for path in journal_files(tmp_path)}
    assert len(writers) == len(pids) == 4


def test_trajectories_that_ended_are_closed_in_the_journal(tmp_path: Path) -> None:
    returned = killed_run(tmp_path, "plain", random.Random(3))
    closed = sum(
        isinstance(item, Entry) and isinstance(item.record, TrajectoryEnd) for _, item in read_journals(tmp_path)
    )
    assert closed >= len(returned)
