"""The real Trackio, in a folder of this session. It reads where that is when it is imported."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.background import kill_keepers

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
def store(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "store"
    yield path
    kill_keepers(path)
