"""Stores written with rolltrace itself, in each state that a reader can meet them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import rolltrace
from rolltrace.query import Store, open_store
from rolltrace.tables import (
    Place,
    Pruned,
    TableStore,
    address_in,
    compact_place,
    moving_places,
    prune_payloads,
)
from tests.draining import drain
from tests.view.fixtures import demo, demo_store  # noqa: F401 - fixtures, with their own file

from .filtered import filled

STATES = ("undrained", "drained", "settled", "in many batches", "some steps settled")


@rolltrace.rollout_trace_op(kind="llm")
def generate(messages: list[dict[str, str]], prompt_ids: list[int], reply: str = "回答 🎉") -> dict[str, Any]:
    return {
        "text": reply,
        "token_ids": [ord(letter) for letter in reply],
        "logprobs": [-0.5] * len(reply),
        "response_mask": [1] * len(reply),
        "policy_version": len(prompt_ids),
        "finish_reason": "stop",
    }


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> str:
    if query == "bad":
        raise ValueError("no such page")
    return f"found {query}"


@rolltrace.rollout_trace_op
def agent(query: str, reply: str = "回答 🎉") -> str:
    for turn in range(2):
        generate([{"role": "user", "content": query}], list(range(3 + turn)), reply)
        try:
            search(query)
        except ValueError:
            pass
    return reply


def start(store: Path, **settings: Any) -> None:
    rolltrace.init(
        settings.pop("project_name", "p"), settings.pop("experiment_name", "e"), "rolltrace", store=store, drain="off",
        **settings,
    )  # fmt: skip


def write_run(store: Path) -> None:
    """A small training run, with a bit of everything."""
    start(store, limits={"segment_bytes": "64KiB"})
    for step in (-1, 0, 10):
        for sample in (2, 10):
            for n in range(2):
                with rolltrace.rollout_trace_attr(sample, step=step, rollout_n=n, difficulty="schwer") as trajectory:
                    agent("bad" if n else "certificate")
                    trajectory.reward(0.1)
                    trajectory.note("fast fertig " * 900, turn=n)  # fills segments
                    trajectory.transition({"prompt": "p"}, reward=1.5, episode_done=True)
                trajectory.reward(sample + n / 10, terms={"format": 1.0})
    outer = rolltrace.rollout_trace_attr("3f2a-uuid", step=0, name="outer", validate=True)
    with outer, rolltrace.rollout_trace_attr("3f2a-uuid", step=0, name="inner"):
        search("inner")
    try:
        with rolltrace.rollout_trace_attr("4", step=0):
            raise RuntimeError("kaputt")
    except RuntimeError:
        pass
    search("no trajectory around")
    left_open = rolltrace.rollout_trace_attr(5, step=0, name="never left")
    left_open.__enter__()
    search("inside")
    rolltrace.shutdown()
    left_open.__exit__(None, None, None)


def bring_into(state: str, store: Path) -> None:
    """Let drainer and compaction come as far as the state says."""
    assert len(sorted((store / "journal").glob("*/*.seg"))) > 2
    if state == "undrained":
        return
    if state == "in many batches":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rolltrace.drain.follower.MAX_BATCH_BYTES", 4096)
            drain(store)
        return
    drain(store, compacted=state == "settled")
    if state == "some steps settled":
        tables = TableStore(address_in(store))
        for place in sorted(moving_places(tables), key=str)[::2]:
            compact_place(tables, place)


def write_run_in(store: Path, state: str) -> None:
    write_run(store)
    bring_into(state, store)


@pytest.fixture(params=STATES)
def run(request: pytest.FixtureRequest, tmp_path: Path, copied: Callable[..., Path]) -> Path:
    """A store with `write_run` in it."""
    return copied(tmp_path / "store", write_run_in, request.param)


def files_of(store: Path, table: str, step: int | None = None) -> list[Path]:
    """The data files of a table, or of one step of it."""
    tables = TableStore(address_in(store))
    return [store / table / file.path for file in tables.files(table) if step is None or file.place.step == step]


def prune(store: Path, ids: set[str], **how: Any) -> Pruned:
    """Remove the payloads of these trajectories."""
    chosen: dict[Place, set[str]] = {}
    for row in open_store(store).trajectories(all_runs=True):
        if row["trajectory_id"] in ids:
            place = Place(row["project"], row["experiment"], row["step"])
            chosen.setdefault(place, set()).add(row["trajectory_id"])
    return prune_payloads(TableStore(address_in(store)), chosen, **how)


_readers: dict[str, Store] = {}


@pytest.fixture
def reader_of(tmp_path_factory: pytest.TempPathFactory, copied: Callable[..., Path]) -> Callable[[str], Store]:
    """Call it with a state: a store with `write_run` in it, opened once for all tests that only ask."""

    def opened(state: str) -> Store:
        if state not in _readers:
            _readers[state] = open_store(copied(tmp_path_factory.mktemp("read") / "store", write_run_in, state))
        return _readers[state]

    return opened


@pytest.fixture(params=STATES)
def reader(request: pytest.FixtureRequest, reader_of: Callable[[str], Store]) -> Store:
    """The same in every state."""
    return reader_of(request.param)


@pytest.fixture
def drained_reader(reader_of: Callable[[str], Store]) -> Store:
    """The same where all is drained: what a copy of that store, before somebody changed it, has in it."""
    return reader_of("drained")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it to let every query look for new data, instead of waiting a second."""

    def look() -> None:
        monkeypatch.setattr("rolltrace.query.engine.FRESH_SEC", 0.0)

    return look


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Four trajectories for filters."""
    with filled() as connection:
        yield connection
