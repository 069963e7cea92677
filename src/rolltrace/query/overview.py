"""A store at a glance: its state, its experiments with their curves, flags, losses and sizes; and what runs right now,
against what is usual, so that slow and hung can be told apart."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from rolltrace.query.damage import Incomplete
from rolltrace.query.listing import LOST
from rolltrace.query.scope import Row

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

Key = tuple[str, str]
State = Literal["recording", "ended", "interrupted"]
MAX_POINTS = 60

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


def thinned(points: list[float], most: int = MAX_POINTS) -> list[float]:
    """At most so many of the points, evenly chosen; the first and the last are kept."""
    if len(points) <= most:
        return points
    return [points[round(at * (len(points) - 1) / (most - 1))] for at in range(most)]


def _key(row: Row) -> Key:
    return row["project"], row["experiment"]


WINDOW_SEC = 60.0
"""Over which time rates are taken."""
_FEWEST = 5
"""How many ops say what is usual."""
_RECENT_SEC = 3600
_HUNG_TIMES = 10
_HUNG_SEC = 5.0
"""Nothing is hung that took no longer than this."""
_RUNNING = """
SELECT t.trajectory_id, t.project, t.experiment, t.step, t.sample_index, t.rollout_n, t.validate, t.name, t.start_ns,
    t.turns, t.tool_calls, coalesce(t.response_tokens, 0) AS tokens, t.worker, t.run, t._is_int,
    o.current.name AS current_op, o.current.kind AS current_kind, o.current.start_ns AS _op_start_ns,
    CASE WHEN o.is_in_op IS NOT TRUE THEN greatest(t.start_ns, o.last_ns) END AS _idle_since_ns
FROM _listing t LEFT JOIN (
    SELECT s.trajectory_id, greatest(max(s.start_ns), max(s.end_ns)) AS last_ns,
        bool_or(s.status = 'running' AND c.parent_id IS NULL) AS is_in_op,
        arg_max({'name': name, 'kind': kind, 'start_ns': start_ns}, start_ns) FILTER (status = 'running') AS current
    FROM ops s LEFT JOIN (SELECT DISTINCT trajectory_id, parent_id FROM ops) c
        ON c.trajectory_id = s.trajectory_id AND c.parent_id = s.op_id
    GROUP BY s.trajectory_id
) o USING (trajectory_id)
WHERE t.status = 'running' ORDER BY t.start_ns, t.trajectory_id
"""
_USUAL = f"""
SELECT project, experiment, name, kind, quantile_cont((end_ns - start_ns) / 1e9, 0.95) AS p95_s
FROM ops s SEMI JOIN (SELECT UNNEST(?::VARCHAR[]) AS experiment) e USING (experiment)
WHERE end_ns IS NOT NULL AND status = 'ok' AND start_ns > ? GROUP BY ALL HAVING count(*) >= {_FEWEST}
"""
_USUAL_IDLE = f"""
WITH events AS (
    SELECT trajectory_id, project, experiment, start_ns AS at_ns, false AS is_idle FROM ops
    UNION ALL SELECT trajectory_id, project, experiment, end_ns, true FROM ops WHERE end_ns IS NOT NULL
    UNION ALL SELECT trajectory_id, project, experiment, start_ns, true FROM _listing
    UNION ALL SELECT trajectory_id, project, experiment, end_ns, false FROM _listing WHERE end_ns IS NOT NULL
)
SELECT project, experiment, quantile_cont(idle_ns / 1e9, 0.95) AS p95_s
FROM (SELECT *, lead(at_ns) OVER (PARTITION BY trajectory_id ORDER BY at_ns) - at_ns AS idle_ns FROM events) e
SEMI JOIN (SELECT UNNEST(?::VARCHAR[]) AS experiment) x USING (experiment)
WHERE is_idle AND idle_ns IS NOT NULL AND at_ns > ? GROUP BY ALL HAVING count(*) >= {_FEWEST}
"""
"""How long trajectories are between two ops, before the first and after the last."""
_FINISHED = """
SELECT worker, count(*) AS finished, coalesce(sum(response_tokens), 0)::BIGINT AS tokens,
    coalesce(sum(tool_calls), 0)::BIGINT AS tool_calls, coalesce(sum(tool_errors), 0)::BIGINT AS tool_errors
FROM _listing WHERE end_ns > ? GROUP BY worker
"""


_CACHED_SEC = 15.0
"""How long it is remembered what is usual: that reads every op of an hour."""


class _Usual(NamedTuple):
    until: float
    experiments: Sequence[str]
    p95_s: dict[tuple[Any, ...], float]
    """By project, experiment, name and kind of ops; by project and experiment between ops."""


Pace = Literal["unknown", "fine", "slow", "hung"]
_PACES: tuple[Pace, ...] = ("unknown", "fine", "slow", "hung")

_cached: WeakKeyDictionary[Store, _Usual] = WeakKeyDictionary()


@dataclass(frozen=True)
class Pulse:
    """What `pulse_of` gives."""

    rows: list[Row]
    """Trajectories in flight, the oldest first: age_s, current_op, op_age_s, op_p95_s, idle_s, idle_p95_s, pace, turns,
    tokens, worker, ..."""
    workers: list[Row]
    """worker, running, finished, tokens, tool_calls, tool_errors: within the window"""
    trajectories_per_min: float
    tokens_per_min: float
    tool_error_rate: float | None
    snapshot_age_s: float | None = None
    """How long ago the drainers looked at what runs, the slowest of them: ages are as of then. None if none did."""
    window_s: float = WINDOW_SEC


def pulse_of(store: Store, *, now_ns: int | None = None) -> Pulse:
    """What is in flight, and how fast trajectories end.

    Args:
        store: The store.
        now_ns: The time that ages are as of. If not given: when the drainer of the host last looked, so that an op
            does not seem slow because its drainer is, or because our clock is another one.
    """
    looks_ns = {writer.worker: host.time_ns for host in store._engine.live for writer in host.writers}
    as_of_ns = looks_ns if now_ns is None else {}
    now_ns = time.time_ns() if now_ns is None else now_ns
    rows = _ask_moving(store, _RUNNING, [], "running > 0")
    usual = _usual(store, rows) if rows else {}
    for row in rows:
        seen_ns = as_of_ns.get(row["worker"], now_ns)
        started = row.pop("_op_start_ns")
        row["age_s"] = max(0.0, (seen_ns - row["start_ns"]) / 1e9)
        row["op_age_s"] = None if started is None else max(0.0, (seen_ns - started) / 1e9)
        row["op_p95_s"] = usual.get((row["project"], row["experiment"], row["current_op"], row["current_kind"]))
        idle_since_ns = row.pop("_idle_since_ns")
        row["idle_s"] = None if idle_since_ns is None else max(0.0, (seen_ns - idle_since_ns) / 1e9)
        row["idle_p95_s"] = usual.get((row["project"], row["experiment"]))
        paces = (_pace(row["op_age_s"], row["op_p95_s"]), _pace(row["idle_s"], row["idle_p95_s"]))
        row["pace"] = max(paces, key=_PACES.index)
    since_ns = now_ns - int(WINDOW_SEC * 1e9)
    finished = _ask_moving(store, _FINISHED, [since_ns], f"last_ns > {since_ns}")
    workers = {row["worker"]: {**row, "running": 0} for row in finished}
    for row in rows:
        empty = {"worker": row["worker"], "running": 0, "finished": 0, "tokens": 0, "tool_calls": 0, "tool_errors": 0}
        workers.setdefault(row["worker"], empty)["running"] += 1
    calls = sum(row["tool_calls"] for row in finished)
    return Pulse(
        rows,
        [workers[name] for name in sorted(workers)],
        sum(row["finished"] for row in finished) * 60 / WINDOW_SEC,
        sum(row["tokens"] for row in finished) * 60 / WINDOW_SEC,
        sum(row["tool_errors"] for row in finished) / calls if calls else None,
        max(0.0, (now_ns - min(looks_ns.values())) / 1e9) if looks_ns else None,
    )


def _pace(age_s: float | None, p95_s: float | None) -> Pace:
    """Slow is longer than 95 of 100 take; hung is ten times that, and more than a moment."""
    if age_s is None or p95_s is None:
        return "unknown"
    if age_s <= p95_s:
        return "fine"
    return "hung" if age_s > max(_HUNG_SEC, _HUNG_TIMES * p95_s) else "slow"


def _usual(store: Store, rows: list[Row]) -> dict[tuple[Any, ...], float]:
    """How long ops take, and the time between them, as far as there were enough of them."""
    experiments = sorted({row["experiment"] for row in rows})
    cached = _cached.get(store)
    if cached is not None and cached.experiments == experiments and time.monotonic() < cached.until:
        return cached.p95_s
    # Those that run now say which steps matter: what is usual is of the last hour.
    since_ns = min(row["start_ns"] for row in rows) - int(_RECENT_SEC * 1e9)
    ops = _ask_moving(store, _USUAL, [experiments, since_ns], f"last_ns > {since_ns}")
    p95_s = {(each["project"], each["experiment"], each["name"], each["kind"]): each["p95_s"] for each in ops}
    idle = _ask_moving(store, _USUAL_IDLE, [experiments, since_ns], f"last_ns > {since_ns}")
    p95_s.update({(each["project"], each["experiment"]): each["p95_s"] for each in idle})
    if p95_s:
        _cached[store] = _Usual(time.monotonic() + _CACHED_SEC, experiments, p95_s)
    return p95_s


def _ask_moving(store: Store, sql: str, parameters: list[Any], moving: str) -> list[Row]:
    """The rows of a question, asked of the steps of which this condition is true, and not of all there are."""
    steps = store._ask(f"SELECT DISTINCT project, experiment, step FROM _steps WHERE {moving}", plain=True).rows()
    if not steps:
        return []
    return store._ask(sql, parameters, store.scope_of(steps)).rows()
