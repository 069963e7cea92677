"""Somebody cuts, removes or replaces the journal file of a training run: it goes on, and losses are counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rolltrace.journal import Entry, JournalWriter, journal_files, read_journals, segment
from rolltrace.record import NOTHING, Blob, encode_record

PROCESS = """
import json, sys, threading
import rolltrace
store = sys.argv[1]
rolltrace.init("p", "e", "rolltrace", store=store, drain="off")

@rolltrace.rollout_trace_op
def op(number, text):
    return number

def rollouts(numbers, text):
    for number in numbers:
        with rolltrace.rollout_trace_attr(step=1, sample_index=number):
            assert op(number, text) == number

rollouts(range(20), "x" * 300)
print("ready", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=rollouts, args=(range(20, 40), "y" * 9000)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
rollouts(range(40, 60), "z" * 300)
rolltrace.shutdown()
stats = rolltrace.stats()
told = {"records": stats.records, "losses": stats.losses, "internal_errors": stats.internal_errors}
print(json.dumps(told), flush=True)
"""


def damage(how: str, path: Path) -> None:
    if how == "cut":
        os.truncate(path, 0)
    elif how == "cut in half":
        os.truncate(path, 4096 + 2000)
    elif how == "removed":
        path.unlink()
    elif how == "replaced":
        path.unlink()
        path.write_bytes(b"something else")
    elif how == "moved":
        path.rename(path.with_name("elsewhere"))


HOWS = ["cut", "cut in half", "removed", "replaced", "moved"]


@pytest.mark.parametrize("how", HOWS)
def test_training_goes_on_and_every_record_is_there_or_counted(tmp_path: Path, how: str) -> None:
    command = [sys.executable, "-c", PROCESS, str(tmp_path)]
    strict = {**os.environ, "ROLLTRACE_STRICT": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=strict
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (live,) = journal_files(tmp_path)
        damage(how, live)
        output, errors = process.communicate("go on\n")
    assert process.returncode == 0, errors
    told = json.loads(output)
    assert told["internal_errors"] == {}
    assert told["records"] == 4 * (20 + 4 * 20 + 20)
    entries = sum(isinstance(item, Entry) for _, item in read_journals(tmp_path))
    lost = sum(told["losses"].get("journal_removed", {}).values())
    assert lost > 0
    assert entries + lost == told["records"]
    if how in ("cut", "cut in half"):
        assert lost <= 80 + segment._LOOKS_EVERY, "what comes after the cut is saved in the next file"


def test_a_reader_learns_of_the_loss_from_the_next_file(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})
    for number in range(5):
        writer.append(encode_record(Blob(str(number), "test", NOTHING, b"x")))
    os.truncate(journal_files(tmp_path)[0], 0)
    for number in range(5, segment._LOOKS_EVERY):
        assert writer.append(encode_record(Blob(str(number), "test", NOTHING, b"x")))
    readers = {reader.path: reader.losses for reader, _ in read_journals(tmp_path)}
    assert list(readers.values())[-1] == {"journal_removed": {"": segment._LOOKS_EVERY - 1}}
    writer.close()
