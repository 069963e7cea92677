"""The demo as a new user runs it, recorded once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rolltrace.drain import Follower
from tests.draining import compact

PRINTED = "printed.txt"


def recorded_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has `rolltrace-demo` in it, and what the demo printed in a file. Not to be changed."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, printed = shared / "demo", shared / "demo" / PRINTED
    with open(shared / "demo.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not printed.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of an attempt that failed
            folder.mkdir()
            command = [sys.executable, "-m", "rolltrace", "demo", "--no-view"]
            plain = {name: value for name, value in os.environ.items() if not name.startswith("ROLLTRACE_")}
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=plain)
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
            _settle(folder / "rolltrace-demo")
            printed.write_text(done.stdout)
    return folder


def _settle(store: Path) -> None:
    """Do at once what its keeper would do within a minute: other engines would see it at work."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(store) in command.read_bytes().split(b"\0"):
                os.kill(int(command.parent.name), signal.SIGKILL)
        except OSError:  # it has ended
            continue
    while True:
        drainer = Follower(store)
        with drainer.working() as alone:
            if alone:  # else it is not quite dead
                drainer.drain()
                compact(store)
                return
        time.sleep(0.05)
