"""The monitor of prime-rl, with real episodes. prime-rl itself is not on the index: its `monitors` is stood in for."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.integrations.prime_rl import RolltraceMonitor, install_when_imported
from rolltrace.query import open_store

from . import rig
from .conftest import ROLLOUTS, STEP, Ran
from .told import check_rollout


@pytest.fixture
def tracing(tmp_path: Path) -> Iterator[Path]:
    rolltrace.init("prime", "live", store=tmp_path / "store", drain="off", quiet=True)
    yield tmp_path / "store"
    rolltrace.shutdown()


@pytest.fixture
def monitors() -> Iterator[Any]:
    """`prime_rl.monitors` as it is in August 2026: a list, and two functions over it that never raise."""
    module = types.ModuleType("prime_rl.monitors")
    module.MONITORS = []  # type: ignore[attr-defined]

    async def setup(*, output_dir: Path) -> None:
        """It would construct those of its config."""

    async def log(data: Any, step: int, kind: str = "train", subset: str = "effective") -> None:
        for monitor in module.MONITORS:  # type: ignore[attr-defined]
            await monitor.log(data, step=step, kind=kind, subset=subset)

    module.setup, module.log = setup, log  # type: ignore[attr-defined]
    sys.modules["prime_rl.monitors"] = module
    yield module
    del sys.modules["prime_rl.monitors"]


def test_episodes_are_recorded_as_they_arrive_and_when_they_are_trained_on(
    ran: Ran, tracing: Path, monitors: Any, tmp_path: Path
) -> None:
    install_when_imported()

    async def train() -> None:
        await monitors.setup(output_dir=tmp_path)
        assert [type(each) for each in monitors.MONITORS] == [RolltraceMonitor]
        await monitors.log({"loss": 1.0}, step=STEP)
        for at, episode in enumerate(ran.episodes):
            copy = episode.model_copy(deep=True)
            rig.stamp(copy, STEP, f"group-{at // ROLLOUTS}")
            await monitors.log([copy], STEP, "train", "all")
            if episode.ok:
                rig.give_credit(copy, 0.25)
                await monitors.log([copy], STEP + 1, "train", "effective")
        await monitors.MONITORS[0].finalize()

    asyncio.run(train())
    store = open_store(tracing)
    for at, episode in enumerate(ran.episodes):
        trajectory = store.trajectory(episode.traces[0].id)
        check_rollout(trajectory, episode.traces[0], decimals=None)
        assert (trajectory.step, trajectory.rollout_n) == (STEP, at % ROLLOUTS)
        assert (trajectory.fate, trajectory.trained_step) == (("trained", STEP + 1) if episode.ok else (None, None))
        assert trajectory.advantage == (0.25 if episode.ok else None)


def test_an_episode_that_cannot_be_read_stops_nothing(tracing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROLLTRACE_STRICT")
    broken = types.SimpleNamespace(to_record=lambda **more: {"traces": [{"nodes": 5}]})
    asyncio.run(RolltraceMonitor().log([broken], step=1, kind="train", subset="all"))
    assert len(open_store(tracing).trajectories()) == 0
