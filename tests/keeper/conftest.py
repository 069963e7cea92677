"""A store whose background processes end with the test; in its own process nobody waits for long."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from rolltrace.keeper import process, sender_loop
from rolltrace.query import Store, open_store
from tests.background import kill_keepers


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "store"
    yield path
    kill_keepers(path)


@pytest.fixture(autouse=True)
def _looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever drains or sends in this process; the processes that a test starts keep their own time."""
    monkeypatch.setattr(process, "_LOOK_EVERY_SEC", 0.05)
    monkeypatch.setattr(sender_loop, "_LOOK_EVERY_SEC", 0.02)
    monkeypatch.setattr(sender_loop, "_LOOK_SHARE", 1.0)


@functools.lru_cache(maxsize=1)
def _opened(store: Path) -> Store:
    return open_store(store)


def asked(store: Path) -> Store:
    """What there is now in a store; it is opened once in a test, as that takes longest."""
    opened = _opened(store)
    opened.refresh()
    return opened
