"""A store whose background processes end with the test."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Processes = Callable[[Path, str], list[int]]


@pytest.fixture
def processes() -> Processes:
    """Finds the processes of a store that run a module of ours."""

    def find(store: Path, module: str) -> list[int]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(store).encode() in words and any(module.encode() in word for word in words):
                found.append(int(folder.name))
        return found

    return find


@pytest.fixture
def store(tmp_path: Path, processes: Processes) -> Iterator[Path]:
    path = tmp_path / "store"
    yield path
    for process in processes(path, "rolltrace.keeper"):
        os.kill(process, signal.SIGKILL)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Waits until something holds: what other processes do has no other end to wait for."""

    def wait(holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline, "it never came to hold"
            time.sleep(0.05)

    return wait
