"""The real Trackio, in a folder of this session. It reads where that is when it is imported."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

os.environ["TRACKIO_DIR"] = tempfile.mkdtemp(prefix="trackio")
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_configure(config: pytest.Config) -> None:
    for kind in ("DeprecationWarning", "FutureWarning", "UserWarning", "ResourceWarning"):  # of what it imports
        config.addinivalue_line("filterwarnings", f"ignore::{kind}")


@pytest.fixture(autouse=True)
def _drained_by_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_DRAIN", "process")
    monkeypatch.setenv("ROLLTRACE_STRICT", "")  # a launcher may be killed too


@pytest.fixture
def kill_keepers() -> Callable[[Path], None]:
    """Kills the drainer and the senders of a store."""

    def kill(store: Path) -> None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(store).encode() in words and any(b"rolltrace.keeper" in word for word in words):
                os.kill(int(folder.name), signal.SIGKILL)

    return kill


@pytest.fixture
def store(tmp_path: Path, kill_keepers: Callable[[Path], None]) -> Iterator[Path]:
    path = tmp_path / "store"
    yield path
    kill_keepers(path)


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Waits until something holds: what other processes do has no other end to wait for."""

    def wait(holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + 90
        while not holds():
            assert time.monotonic() < deadline, "it never came to hold"
            time.sleep(0.1)

    return wait
