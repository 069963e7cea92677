"""Rollouts of several samples under a limit, and what of them is kept."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import rolltrace
from rolltrace.capture import sampling
from rolltrace.query import Store, open_store
from tests.draining import drain

SAMPLES = (0, 1, 2, "3f2a-uuid", 4, 5)
GROUP = 3
STATES = ("live", "closed", "drained", "compacted")
TABLES = ("trajectories", "spans", "scores", "notes", "transitions", "flags")

Kept = set[tuple[Any, ...]]


@rolltrace.rollout_trace_op(kind="tool")
def use_tool(text: str, fail: bool = False) -> str:
    if fail:
        raise ValueError(text)
    return text


def rollout(sample: Any, n: int = 0, *, step: int | None = 1, validate: bool = False, **more: Any) -> None:
    with rolltrace.rollout_trace_attr(sample, step=step, rollout_n=n, validate=validate, **more) as trajectory:
        try:
            use_tool(f"{sample} {n}", fail=n == 0)
        except ValueError:
            pass
        trajectory.reward(float(n))
        trajectory.note("a note")
        trajectory.transition({"prompt": "p"}, reward=1.0)


def start(store: Path, limit: int | None, **more: Any) -> None:
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off", max_samples_per_step_per_worker=limit, **more)


def bring_into(state: str, store: Path) -> None:
    if state == "live":
        return
    rolltrace.shutdown()
    if state == "closed":
        return
    drain(store, compacted=state == "compacted")


_readers: list[Store] = []
"""The one that was asked last: a test asks several times."""


def reader(store: Path) -> Store:
    """A store that is open, and has seen what is in its folder now."""
    if _readers and _readers[0].path == store:
        _readers[0].refresh()
    else:
        _readers[:] = [open_store(store)]
    return _readers[0]


def kept(store: Path) -> Kept:
    """What a reader sees: (step, sample, rollout, validate) of all trajectories; every table has the same ones."""
    asked = reader(store)
    rows = asked.trajectories().rows()
    ids = {row["trajectory_id"] for row in rows}
    each = " UNION ".join(f"SELECT '{table}' AS name, trajectory_id FROM {table}" for table in TABLES)
    assert [row for row in asked.sql(each) if row["trajectory_id"] not in ids] == []
    return {(row["step"], row["sample_index"], row["rollout_n"], row["validate"]) for row in rows}


def lost(store: Path) -> int:
    return sum(row["count"] for row in reader(store).losses() if row["reason"] == "sample_limit")


def samples(found: Kept) -> set[Any]:
    return {sample for _, sample, _, _ in found}


def smallest(count: int, among: Iterable[Any] = SAMPLES, seed: int = 0) -> list[Any]:
    """The samples in the order of their hashes, as far as `count`."""
    return sorted(among, key=lambda each: sampling.rank_of(str(each), seed))[:count]


def descending(among: Iterable[Any]) -> list[Any]:
    """The order in which every sample displaces one before it."""
    return smallest(1000, among)[::-1]


def rollout_outside(sample: Any) -> None:
    """A rollout that is not inside the one that is going on here."""
    thread = threading.Thread(target=lambda: contextvars.Context().run(rollout, sample))
    thread.start()
    thread.join()
