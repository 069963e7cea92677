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
_WITHOUT = (
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup",
    "AimEnabled", "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "OptimizationHints", "PaintHolding",
    "PreconnectToSearch", "ThirdPartyStoragePartitioning",
)  # fmt: skip
"""The list of omnibox suggestions is a web page that Chromium loads for every new window, although nobody sees it:
400 files and a quarter of a second of a processor beside each page under test. The others are what Playwright leaves
out, whose list ours replaces."""
_ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-dev-shm-usage", "--no-first-run", f"--disable-features={','.join(_WITHOUT)}",
)  # fmt: skip


@contextmanager
def viewing(store: Path | str, *more: str) -> Iterator[str]:
    """The address of a `rolltrace view` of the store, or of a lake; `more` are further arguments."""
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
