"""A folder with the store of the demo, as the cookbook asks for it: recorded once for all processes of a test run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has `rolltrace-demo` in it. Not to be changed."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, ready = shared / "demo", shared / "demo" / "ready"
    folder.mkdir(exist_ok=True)
    with open(shared / "demo.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            command = [sys.executable, "-m", "rolltrace", "demo", "--no-view"]
            plain = {name: value for name, value in os.environ.items() if not name.startswith("ROLLTRACE_")}
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=plain)
            ready.touch()
    return folder
