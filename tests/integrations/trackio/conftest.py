"""The real Trackio, in a folder of this session. It reads where that is when it is imported."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.background import kill_keepers
from tests.integrations.runs import Run

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
def run(tmp_path: Path, project: str) -> Iterator[Run]:
    made = Run(tmp_path / "store", project, "trackio")
    yield made
    kill_keepers(made.path)
