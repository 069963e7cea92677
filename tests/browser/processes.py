"""The two processes of a browser test, or of a benchmark: `rolltrace view` and Chromium."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Playwright

PATIENCE_MS = 60_000
"""A busy machine takes its time."""
_ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-dev-shm-usage", "--no-first-run",
)  # fmt: skip


@contextmanager
def viewing(store: Path, *more: str) -> Iterator[str]:
    """The address of a `rolltrace view` of the store; `more` are further arguments."""
    command = [sys.executable, "-m", "rolltrace", "view", str(store), *more, "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            lines = []
            for line in server.stdout:
                lines.append(line)
                if address := re.search(r"http://[\d.]+:\d+", line):
                    yield address[0]
                    return
            raise AssertionError("".join(lines))
        finally:
            server.kill()


def launched(playwright: Playwright) -> Browser:
    """The system's own Chromium."""
    path = shutil.which("chromium")
    if path is None:
        raise FileNotFoundError("there is no chromium: make test-viewer installs it")
    return playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS), timeout=PATIENCE_MS)
