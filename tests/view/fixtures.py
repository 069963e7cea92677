"""The small demo store, written once in the life of a test process. Tests that change it take a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from rolltrace.query import Store
from tests.view.stores import write_demo


@pytest.fixture(scope="session")
def demo_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a bit of everything; not to be changed."""
    rolltrace.shutdown()
    return write_demo(tmp_path_factory.mktemp("viewed") / "demo", steps=4, samples=3, size=4)


@pytest.fixture(scope="session")
def demo(demo_store: Path) -> Store:
    """The same, to be asked."""
    return rolltrace.open(demo_store)
