"""The demo as a new user runs it, recorded once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

PRINTED = "printed.txt"


def recorded_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has `rolltrace-demo` in it, and what the demo printed in a file. Not to be changed."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, printed = shared / "demo", shared / "demo" / PRINTED
    folder.mkdir(exist_ok=True)
    with open(shared / "demo.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not printed.exists():
            command = [sys.executable, "-m", "rolltrace", "demo", "--no-view"]
            plain = {name: value for name, value in os.environ.items() if not name.startswith("ROLLTRACE_")}
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=plain)
            assert (done.returncode, done.stderr) == (0, "")
            printed.write_text(done.stdout)
    return folder
