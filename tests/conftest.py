"""Every test starts with tracing off, no settings in the environment, and our own faults raised."""

import os
from collections.abc import Iterator

import pytest

import rolltrace
from rolltrace import _guard, _runtime
from rolltrace.testing import Recording, recording


@pytest.fixture(autouse=True)
def _strict_and_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in os.environ:
        if name.startswith("ROLLTRACE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ROLLTRACE_STRICT", "1")
    monkeypatch.setenv("ROLLTRACE_DRAIN", "off")  # most tests read what is in the journal
    yield
    rolltrace.shutdown()
    _guard.faults.clear()
    _runtime._warned.clear()


@pytest.fixture
def traced() -> Iterator[Recording]:
    """Tracing is on, into memory."""
    with recording() as made:
        yield made


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own faults are caught and counted, as they are in production."""
    monkeypatch.delenv("ROLLTRACE_STRICT")
