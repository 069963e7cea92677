"""What the tests of all vendors share."""

from __future__ import annotations

import uuid

import pytest


@pytest.fixture
def project() -> str:
    """A name that no other test has, so that tests can share a server."""
    return f"数学-{uuid.uuid4().hex[:8]}"
