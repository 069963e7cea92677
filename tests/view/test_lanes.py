"""Questions in worker threads end when nobody waits for them, and one lane does not hold up the other."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from rolltrace.errors import StoppedError, StoreError
from rolltrace.view.stores import Lane, Opened

SLOW = "SELECT count(*) FROM range(10_000_000) a, range(10_000_000) b"


def slow(opened: Opened) -> object:
    return opened.store.sql(SLOW)


def quick(opened: Opened) -> int:
    return len(opened.store.experiments())


async def never() -> None:
    await asyncio.Event().wait()


async def test_a_question_is_stopped_when_the_client_leaves(demo_store: Path) -> None:
    lane, left = Lane(demo_store, 60), asyncio.Event()
    asked = asyncio.create_task(lane.ask(slow, left.wait))
    await asyncio.sleep(0)
    left.set()
    with pytest.raises(StoppedError, match="the client went away"):
        await asked
    assert await lane.ask(quick, never) == 4
    lane.close()


async def test_a_question_is_stopped_after_its_time(demo_store: Path) -> None:
    lane = Lane(demo_store, 0.3)
    with pytest.raises(StoppedError, match=r"longer than 0\.3 s"):
        await lane.ask(slow, never)
    lane.close()


async def test_a_slow_question_does_not_hold_up_the_other_lane(demo_store: Path) -> None:
    busy, free, left = Lane(demo_store, 60), Lane(demo_store, 60), asyncio.Event()
    asked = asyncio.create_task(busy.ask(slow, left.wait))
    assert await free.ask(quick, never) == 4
    assert not asked.done()
    left.set()
    with pytest.raises(StoppedError):
        await asked
    busy.close()
    free.close()


async def test_a_store_that_comes_back_is_opened_again(demo_store: Path, tmp_path: Path) -> None:
    store = shutil.copytree(demo_store, tmp_path / "store")
    lane = Lane(store, 60)
    assert await lane.ask(quick, never) == 4
    store.rename(tmp_path / "away")
    with pytest.raises(StoreError, match="no longer exists"):
        await lane.ask(quick, never)
    (tmp_path / "away").rename(store)
    assert await lane.ask(quick, never) == 4
    lane.close()
