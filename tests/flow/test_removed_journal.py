"""Somebody cuts, removes or replaces the journal file of a training run: it goes on, and losses are counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rolltrace.journal import Entry, JournalWriter, journal_files, read_journals
from rolltrace.record import NOTHING, Blob, encode_record

PROCESS = """
import faulthandler, json, sys, threading
import rolltrace
store, mode, when = sys.argv[1:4]
if when == "before":
    faulthandler.enable()
rolltrace.init("p", "e", "rolltrace", store=store, drain="off", journal_mode=mode)

@rolltrace.rollout_trace_op
def op(number, text):
    return number

def rollouts(numbers, text):
    for number in numbers:
        with rolltrace.rollout_trace_attr(step=1, sample_index=number):
            assert op(number, text) == number

rollouts(range(20), "x" * 300)
if when == "after":
    faulthandler.enable()
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
print(json.dumps({"records": stats.records, "losses": stats.losses, "faults": stats.faults}), flush=True)
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
CASES = [(how, mode, "never") for how in HOWS for mode in ("mmap", "append")]
CASES += [("cut", "mmap", "before"), ("cut", "mmap", "after")]
"""How, in which mode, and when faulthandler is turned on: it has the signal too."""


@pytest.mark.parametrize(("how", "mode", "when"), CASES)
def test_training_goes_on_and_every_record_is_there_or_counted(tmp_path: Path, how: str, mode: str, when: str) -> None:
    command = [sys.executable, "-c", PROCESS, str(tmp_path), mode, when]
    strict = {**os.environ, "ROLLTRACE_STRICT": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=strict
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (live,) = journal_files(tmp_path)
        damage(how, live)
        output, errors = process.communicate("go on\n")
    assert process.returncode == 0, errors  # SIGBUS would be -7
    told = json.loads(output)
    assert told["faults"] == {}
    assert told["records"] == 4 * (20 + 4 * 20 + 20)
    entries = sum(isinstance(item, Entry) for _, item in read_journals(tmp_path))
    lost = sum(told["losses"].get("journal_removed", {}).values())
    assert lost > 0
    assert entries + lost == told["records"]
    if how in ("cut", "cut in half") and mode == "mmap":
        assert lost <= 80, "what comes after the cut is saved in the next file"


def test_a_reader_learns_of_the_loss_from_the_next_file(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})
    for number in range(5):
        writer.append(encode_record(Blob(str(number), "test", NOTHING, b"x")))
    os.truncate(journal_files(tmp_path)[0], 0)
    assert writer.append(encode_record(Blob("5", "test", NOTHING, b"x")))
    readers = {segment.path: segment.losses for segment, _ in read_journals(tmp_path)}
    assert list(readers.values()) == [{"journal_removed": {"": 5}}]
    writer.close()


@pytest.mark.parametrize("end", ["writer.close()", "del writer"])
def test_the_signal_belongs_to_its_owner_again_once_no_file_is_mapped(tmp_path: Path, end: str) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from rolltrace.journal import JournalWriter, sigbus\n"
        "before = sigbus._present().handler\n"
        "writer = JournalWriter(Path(sys.argv[1]), {}, mode='mmap')\n"
        "writer.append(b'x')\n"
        "assert sigbus._present().handler != before\n"
        f"{end}\n"
        "assert sigbus._present().handler == before\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)


@pytest.mark.parametrize("sent", [False, True], ids=["fault", "sent"])
def test_a_bus_error_of_the_program_itself_still_ends_it(tmp_path: Path, sent: bool) -> None:
    program = (
        "import mmap, os, signal, sys, threading\n"
        "from pathlib import Path\n"
        "from rolltrace.journal import JournalWriter\n"
        "writer = JournalWriter(Path(sys.argv[1]), {})\n"
        "writer.append(b'x')\n"
        "if sys.argv[2] == 'True': signal.raise_signal(signal.SIGBUS)\n"
        "file = os.open(sys.argv[1] + '/own', os.O_RDWR | os.O_CREAT)\n"
        "os.ftruncate(file, 8192)\n"
        "own = mmap.mmap(file, 8192)\n"
        "os.ftruncate(file, 0)\n"
        "thread = threading.Thread(target=lambda: own.write(b'x' * 5000))\n"
        "thread.start(); thread.join()\n"
        "print('still there')\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path), str(sent)], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, b"")
