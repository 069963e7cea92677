"""Real verifiers, no network: rollouts are run once, and written as verifiers and prime-rl write them."""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Before anything of theirs is imported.
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", FAKE_KEY="x")

import pytest

import rolltrace
from rolltrace.integrations.verifiers import Live
from rolltrace.query import Store, Trajectory, open_store

with warnings.catch_warnings():  # of theirs
    warnings.simplefilter("ignore")
    from verifiers.v1.utils.trace_store import write_episode

    from . import rig

STEP = 3
ROLLOUTS = 2


@dataclass
class Ran:
    """Rollouts that are over, recorded live, and the server's own account of them."""

    episodes: list[Any]
    said: list[tuple[list[int], list[int], list[float]]]
    folder: Path

    @property
    def store(self) -> Store:
        return open_store(self.folder / "store")

    @property
    def trajectories(self) -> list[Trajectory]:
        store = self.store
        rows = store.trajectories(limit=None)
        return sorted((store.trajectory(row["trajectory_id"]) for row in rows), key=lambda each: each.start_ns)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rig.Server]:
    folder = tmp_path_factory.mktemp("model")
    server = rig.Server(rig.make_tokenizer(folder), str(folder))
    with server.serving():
        yield server


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory, server: rig.Server) -> Ran:
    folder = tmp_path_factory.mktemp("verifiers")
    rolltrace.init("verifiers", "live", store=folder / "store", drain="off", quiet=True)
    live = Live(step=STEP, env="sums")
    earlier = len(server.said)
    hooks = {"on_trace": live.on_trace, "on_complete": live.on_complete}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        episodes = asyncio.run(rig.run_all(rig.make_env(), rig.make_context(server), ROLLOUTS, lambda at: hooks))
    rolltrace.shutdown()
    return Ran(episodes, server.said[earlier:], folder)


@pytest.fixture(scope="session")
def written(ran: Ran) -> Path:
    """The folder of a run: what verifiers writes, and what prime-rl writes of the same episodes."""
    folder = ran.folder / "written"
    (folder / "eval").mkdir(parents=True)
    for episode in ran.episodes:
        write_episode(folder / "eval", episode)
    for at, episode in enumerate(ran.episodes):
        copy = episode.model_copy(deep=True)
        rig.stamp(copy, STEP, f"group-{at // ROLLOUTS}")
        append(folder / "run", STEP + at % 2, "train", "all", copy)
        if episode.ok:
            rig.give_credit(copy, 0.5 - at)
            append(folder / "run", STEP + 1, "train", "effective", copy)
    evaluated = ran.episodes[0].model_copy(deep=True)
    evaluated.traces[0].id = "e" * 32
    append(folder / "run", STEP, "eval", "all", evaluated)
    return folder


def append(folder: Path, step: int, kind: str, subset: str, episode: Any) -> None:
    """As prime-rl's file monitor does it."""
    path = folder / "rollouts" / f"step_{step}" / kind / subset / "traces.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(episode.to_record(), default=str) + "\n")


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_STRICT", "1")
