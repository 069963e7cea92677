"""A seeded simulation of a fleet that records, drains and commits to Delta tables. Only the costs are measured.

A worker fills journal segments; a full segment is drained by its node into parts, and the node commits them, all that
it has of a table in one commit. A commit reads the newest version of the log and tries to write the next one: if
somebody else was faster it reads again and tries the next. That is what limits how many commits one table takes.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, replace
from typing import NamedTuple

from benchmarks.fleet.costs import Costs

DAY_SEC = 86_400
MONTH_DAYS = 30
PUT_DOLLARS, GET_DOLLARS, GB_MONTH_DOLLARS = 0.005 / 1000, 0.0004 / 1000, 0.023
"""List prices of S3 Standard, us-east-1; LIST costs as much as PUT. Not measured."""


@dataclass(frozen=True)
class Fleet:
    """Who records how much."""

    name: str = "as it comes"
    nodes: int = 1_250
    workers_per_node: int = 8
    raw_bytes_per_day: float = 1e12
    segment_bytes: float = 16 << 20
    step_sec: float = 300.0
    """How long a training step takes: a part holds the rows of one step."""
    experiments: int = 1
    """Each has tables of its own, if there are several."""
    commit_every_sec: float = 1.0
    """A node commits what it has at most this often."""
    commit_sec: float | None = None
    """What one attempt takes; as measured on the stand-in if not given."""


class FleetOutcome(NamedTuple):
    """What the simulation saw of one fleet."""

    fleet: Fleet
    journal_bytes_per_sec: float
    """Of one node."""
    journal_disk_bytes: float
    parts_per_minute: float
    commits_per_minute: float
    """To all tables together."""
    attempts_per_commit: float
    commit_p50_sec: float
    commit_p99_sec: float
    lag_p50_sec: float
    """From an op to its row in the lake."""
    lag_p99_sec: float
    behind: float
    """Share of the parts of the simulated time that were still not committed in the end."""


def simulate(fleet: Fleet, costs: Costs, *, seconds: float = 3_600.0, seed: int = 0) -> FleetOutcome:
    """Run a fleet for a while, after the first segments have grown to their full size."""
    rng = random.Random(seed)
    workers = fleet.nodes * fleet.workers_per_node
    journal_rate = fleet.raw_bytes_per_day * costs.journal_per_raw / DAY_SEC / workers
    fill_sec = fleet.segment_bytes / journal_rate
    attempt_sec = fleet.commit_sec if fleet.commit_sec is not None else costs.commit_s3_sec
    parts_per_table = 1 + fill_sec / fleet.step_sec
    """Of one segment: one for each step that it reaches into."""
    lakes = [_Lake(attempt_sec, rng) for _ in range(fleet.experiments)]
    nodes = [_Node(lakes[at % fleet.experiments]) for at in range(fleet.nodes)]
    events: list[tuple[float, int, str, _Node]] = []
    number = 0
    for node in nodes:
        for _ in range(fleet.workers_per_node):
            heapq.heappush(events, (rng.uniform(0, fill_sec), number := number + 1, "sealed", node))
    lags: list[float] = []
    took: list[float] = []
    sealed = committed = 0
    while events:
        now, _, kind, node = heapq.heappop(events)
        if now > seconds:
            break
        if kind == "sealed":
            sealed += 1
            node.waiting.append(now)
            heapq.heappush(events, (now + fill_sec * rng.uniform(0.9, 1.1), number := number + 1, "sealed", node))
            if not node.is_committing:
                node.is_committing = True
                begin = max(now, node.committed_at + fleet.commit_every_sec)
                heapq.heappush(events, (begin, number := number + 1, "commit", node))
        elif kind == "commit":
            node.begun, node.committing = now, node.waiting
            node.waiting = []
            heapq.heappush(events, (node.lake.attempt(node, now), number := number + 1, "tried", node))
        elif not node.lake.succeeds(node, now):
            heapq.heappush(events, (node.lake.attempt(node, now), number := number + 1, "tried", node))
        else:
            took.append(now - node.begun)
            committed += len(node.committing)
            lags += [now - each + fill_sec * rng.random() for each in node.committing]
            node.committed_at = now
            node.is_committing = bool(node.waiting)
            if node.waiting:
                begin = max(now, now + fleet.commit_every_sec)
                heapq.heappush(events, (begin, number := number + 1, "commit", node))
    attempts, done = sum(lake.attempts for lake in lakes), sum(lake.version for lake in lakes)
    return FleetOutcome(
        fleet=fleet,
        journal_bytes_per_sec=journal_rate * fleet.workers_per_node,
        journal_disk_bytes=fleet.segment_bytes * fleet.workers_per_node,
        parts_per_minute=sealed * parts_per_table * costs.tables_per_segment / seconds * 60,
        commits_per_minute=done * costs.tables_per_segment / seconds * 60,
        attempts_per_commit=attempts / max(done, 1),
        commit_p50_sec=_quantile(took, 0.5),
        commit_p99_sec=_quantile(took, 0.99),
        lag_p50_sec=_quantile(lags, 0.5),
        lag_p99_sec=_quantile(lags, 0.99),
        behind=1 - committed / max(sealed, 1),
    )


class _Node:
    """Commits one batch after the other."""

    def __init__(self, lake: _Lake) -> None:
        self.lake = lake
        self.waiting: list[float] = []
        """When the segments were sealed that are not committed yet."""
        self.committing: list[float] = []
        self.is_committing = False
        self.begun = 0.0
        self.committed_at = -1e9
        self.read_version = 0


class _Lake:
    """The log of one table; the tables of a set take the same commits, side by side."""

    def __init__(self, attempt_sec: float, rng: random.Random) -> None:
        self.version = self.attempts = 0
        self._attempt_sec = attempt_sec
        self._rng = rng

    def attempt(self, node: _Node, now: float) -> float:
        """Begin an attempt; gives when the log is written, or found written."""
        self.attempts += 1
        node.read_version = self.version
        return now + self._attempt_sec * self._rng.uniform(0.7, 1.3)

    def succeeds(self, node: _Node, now: float) -> bool:
        if node.read_version != self.version:
            return False
        self.version += 1
        return True


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))] if values else float("nan")


class Bill(NamedTuple):
    """What a day costs at the object store, and what is in the log after it."""

    puts: float
    gets: float
    request_dollars: float
    stored_gb: float
    storage_dollars_per_month: float
    log_entries: float
    """Per table."""
    log_gb: float
    checkpoint_mb: float
    drain_cores: float
    compact_cores: float
    """Of the whole fleet; compaction rewrites each byte about twice (tiers of eight)."""


def bill(outcome: FleetOutcome, costs: Costs) -> Bill:
    """A day of what an hour showed."""
    fleet = outcome.fleet
    minutes = 24 * 60
    commits, parts = outcome.commits_per_minute * minutes, outcome.parts_per_minute * minutes
    tries = commits * outcome.attempts_per_commit
    puts = parts + tries * max(costs.puts_per_commit - 1, 1) + tries * costs.lists_per_commit
    gets = tries * costs.gets_per_commit
    stored = fleet.raw_bytes_per_day * costs.parts_per_raw / 1e9
    tables = costs.tables_per_segment * fleet.experiments
    return Bill(
        puts=puts,
        gets=gets,
        request_dollars=puts * PUT_DOLLARS + gets * GET_DOLLARS,
        stored_gb=stored,
        storage_dollars_per_month=stored * MONTH_DAYS * GB_MONTH_DOLLARS,
        log_entries=commits / tables,
        log_gb=commits * costs.log_bytes_per_commit / 1e9,
        checkpoint_mb=parts / tables * costs.checkpoint_bytes_per_part / 1e6,
        drain_cores=fleet.raw_bytes_per_day / DAY_SEC / costs.drain_raw_bytes_per_sec,
        compact_cores=2 * stored * 1e9 / DAY_SEC / costs.compact_part_bytes_per_sec,
    )


class Saturated(NamedTuple):
    """One table to which all of some writers always have something to commit."""

    commits_per_sec: float
    tries_per_commit: float


def saturated(costs: Costs, commit_sec: float, writers: int, *, seed: int = 0) -> Saturated:
    """The most that one table takes."""
    seconds = 200 * commit_sec
    fleet = Fleet(nodes=writers, workers_per_node=1, commit_sec=commit_sec, commit_every_sec=0.0)
    journal = fleet.segment_bytes * writers / commit_sec  # a full segment is there whenever a commit is done
    raw = journal / costs.journal_per_raw * DAY_SEC
    outcome = simulate(replace(fleet, raw_bytes_per_day=raw), costs, seconds=seconds, seed=seed)
    return Saturated(outcome.commits_per_minute / costs.tables_per_segment / 60, outcome.attempts_per_commit)
