"""The processes that rolltrace starts by itself, the drainer and the senders of a store: kill them, wait for them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def kill_keepers(store: Path | str, module: str = "rolltrace.keeper") -> int:
    """Kill the processes of a store that run a module of ours, as a crash would. Returns how many there were."""
    killed = 0
    for process in keepers(store, module):
        try:
            os.kill(process, signal.SIGKILL)
            killed += 1
        except ProcessLookupError:  # it has ended meanwhile
            pass
    return killed


def keepers(store: Path | str, module: str = "rolltrace.keeper") -> list[int]:
    """The processes of a store that run a module of ours."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(store).encode() in words and any(module.encode() in word for word in words):
            found.append(int(folder.name))
    return found


def eventually(holds: Callable[[], object]) -> None:
    """Wait until something holds: what other processes do has no other end. The test's timeout ends a wait in vain."""
    while not holds():
        time.sleep(0.05)
