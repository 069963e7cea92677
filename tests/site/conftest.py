"""A folder with the store of the demo, as the cookbook asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recorded_demo import recorded_demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has `rolltrace-demo` in it. Not to be changed."""
    return recorded_demo(tmp_path_factory)
