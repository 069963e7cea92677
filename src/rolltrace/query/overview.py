"""A store at a glance: its state, its experiments with their curves, flags, losses and sizes."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rolltrace.query.damage import Incomplete
from rolltrace.query.listing import LOST

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

Row = dict[str, Any]
Key = tuple[str, str]
State = Literal["recording", "ended", "interrupted"]
MOST_POINTS = 60

_FLAGS = "SELECT project, experiment, flags FROM _steps WHERE NOT superseded AND flags IS NOT NULL"
_REWARDS = """
SELECT project, experiment, step, finite_mean AS mean FROM _steps
WHERE NOT superseded AND NOT validate AND step IS NOT NULL AND mean IS NOT NULL ORDER BY step
"""
_LOST = f"SELECT project, experiment, sum(count)::BIGINT AS n FROM {LOST} GROUP BY ALL"
_INTERRUPTED = """
SELECT project, experiment, sum(interrupted)::BIGINT AS n FROM _steps
GROUP BY project, experiment, run
QUALIFY row_number() OVER (PARTITION BY project, experiment ORDER BY max(newest_ns) DESC) = 1
"""


@dataclass(frozen=True)
class StoreStatus:
    """What `store_status` gives."""

    experiments: int
    running: int
    lost: int
    """Records that are not there although nobody chose so: see `query.listing`."""
    recording: bool
    """Some process writes into the store."""
    incomplete: Incomplete
    """What could not be read so far."""


def store_status(store: Store) -> StoreStatus:
    """What runs, what was lost, what cannot be read."""
    (row,) = store._ask(
        "SELECT count(DISTINCT (project, experiment)) AS experiments, "
        "coalesce(sum(running), 0)::BIGINT AS running, "
        f"(SELECT coalesce(sum(count), 0)::BIGINT FROM {LOST}) AS lost FROM _steps",
        plain=True,
    )
    return StoreStatus(**row, recording=bool(store._engine.recording), incomplete=store.incomplete)


def experiment_states(store: Store) -> dict[Key, State]:
    """Of each experiment: some process records it; its newest run died in the middle; or neither."""
    recording = store._engine.recording
    states: dict[Key, State] = {}
    for row in store._ask(_INTERRUPTED, plain=True):
        key = row["project"], row["experiment"]
        states[key] = "recording" if key in recording else "interrupted" if row["n"] else "ended"
    return states


def experiment_overview(store: Store) -> list[Row]:
    """One row per experiment, the newest first: those of `Store.experiments`, and what a list of them shows."""
    states, now_ns = experiment_states(store), time.time_ns()
    flags: dict[Key, Counter[str]] = defaultdict(Counter)
    for row in store._ask(_FLAGS, plain=True):
        flags[_key(row)].update(json.loads(row["flags"] or "{}"))
    rewards: dict[Key, list[float]] = defaultdict(list)
    for row in store._ask(_REWARDS, plain=True):
        rewards[_key(row)].append(row["mean"])
    lost = {_key(row): row["n"] for row in store._ask(_LOST, plain=True)}
    runs: dict[Key, list[Row]] = defaultdict(list)
    for row in store.runs():
        runs[_key(row)].append(row)
    sizes = store._engine.sizes()
    rows = [
        {
            **row,
            "state": state,
            "last_seen_ns": now_ns if state == "recording" else row["end_ns"],
            "rewards": thinned(rewards[_key(row)]),
            "reward_last": rewards[_key(row)][-1] if rewards[_key(row)] else None,
            "flags": dict(sorted(flags[_key(row)].items(), key=lambda each: (-each[1], each[0]))),
            "lost": lost.get(_key(row), 0),
            "size_bytes": sizes[_key(row)],
            "runs": runs[_key(row)],
        }
        for row in store.experiments()
        # One that began since the states were read is being recorded.
        for state in [states.get(_key(row), "recording")]
    ]
    return rows[::-1]


def thinned(points: list[float], most: int = MOST_POINTS) -> list[float]:
    """At most so many of the points, evenly chosen; the first and the last are kept."""
    if len(points) <= most:
        return points
    return [points[round(at * (len(points) - 1) / (most - 1))] for at in range(most)]


def _key(row: Row) -> Key:
    return row["project"], row["experiment"]
