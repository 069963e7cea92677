"""What a backend is still to be given: the finished trajectories of a store, less what it has."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rolltrace.backends import takes_parts
from rolltrace.files import host_of, host_tag
from rolltrace.keeper.claims import Claimed
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.position import HELD, REFUSED, SENT
from rolltrace.query import Store, survey
from rolltrace.store import outboxes

QUIET_SEC = 2.0
"""How long nothing of a trajectory has come before it counts as complete: other processes may write to it."""
_PATIENCE_SEC = 60.0
"""How long after that an op that still runs is waited for. When it ends, the trajectory is sent again."""

_AHEAD_NS = 5_000_000_000
"""What is dated so far ahead was written by a clock that was wrong."""


class Item(NamedTuple):
    """A trajectory, and how much there was of it when we looked."""

    trajectory_id: str
    step: int | None
    records: int
    scored_ns: int


class Pending(NamedTuple):
    """What there is to do for one backend."""

    send: list[Item]
    """New ones, and those that got more ops since they were sent."""
    update: list[Item]
    """Those that got newer scores since they were sent."""
    held_back: int
    """Trajectories that the policy does not let through."""
    unsettled: int
    """Trajectories that ended a moment ago: perhaps more of them comes."""
    in_doubt: frozenset[str] = frozenset()
    """What another host has claimed and not noted as sent (keeper/claims.py)."""

    @property
    def total(self) -> int:
        return len(self.send) + len(self.update)

    def without(self, done: set[str]) -> Pending:
        """The rest, when these are done."""
        send, update = ([item for item in items if item.trajectory_id not in done] for items in self[:2])
        return self._replace(send=send, update=update)


class Quiet:
    """How long trajectories have been as they are, on the monotonic clock of whoever looks: the times in those of
    other hosts are of other clocks."""

    def __init__(self) -> None:
        self._first_seen: dict[str, tuple[int, float]] = {}

    def since_sec(self, rows: pa.Table) -> list[float]:
        """For each of these rows of a survey, how long ago it was first seen with so many records."""
        now = time.monotonic()
        before, self._first_seen = self._first_seen, {}
        for trajectory_id, records in zip(rows["trajectory_id"].to_pylist(), rows["records"].to_pylist()):
            earlier = before.get(trajectory_id)
            self._first_seen[trajectory_id] = earlier if earlier and earlier[0] == records else (records, now)
        return [now - since for _, since in self._first_seen.values()]


def routed(store: Store, outbox: Outbox, *, quiet_sec: float = QUIET_SEC, quiet: Quiet | None = None) -> Pending:
    """What is to be sent without being asked for: complete trajectories of routed experiments, as the policy says.

    Args:
        store, outbox: From where, and to which backend.
        quiet_sec: How long nothing of a trajectory has come before it counts as complete.
        quiet: Remembers those of other hosts from look to look; they count as complete at once if not given.
    """
    outbox.claims.look()
    outbox.position.load()
    places = sorted(outbox.routes())
    surveyed = survey(store, places=places, where=outbox.policy.where)
    table = outbox.position.compare(surveyed)
    unknown = pc.is_null(table["state"])
    grown = _fill(pc.and_(pc.equal(table["state"], SENT), pc.greater(table["records"], table["known_records"])))
    due = pc.or_(pc.and_(unknown, table["wanted"]), grown)
    newer = pc.and_(_newer_scores(table), pc.invert(due))
    in_doubt = _in_doubt(table, pc.or_(due, newer), outbox)
    clear = _clear(table, in_doubt)
    due, newer = pc.and_(due, clear), pc.and_(newer, clear)
    complete = _complete(table, due, quiet_sec, quiet)
    held = pc.or_(pc.and_(unknown, pc.invert(table["wanted"])), _fill(pc.equal(table["state"], HELD)))
    return Pending(
        _items(table, pc.and_(due, complete)),
        _items(table, newer),
        _count(held),
        _count(pc.and_(due, pc.invert(complete))),
        in_doubt,
    )


def asked_for(
    store: Store,
    outbox: Outbox,
    *,
    again: bool = False,
    places: Sequence[tuple[str, str]] | None = None,
    where: str | None = None,
    **conditions: Any,
) -> Pending:
    """What is to be sent because somebody asks: all finished trajectories that meet the conditions, routed or not.

    Args:
        store, outbox: From where, and to which backend.
        again: Also what the backend has already, and what another host may be sending.
        places, where, conditions: As in `query.finished.survey`.
    """
    outbox.claims.look()
    outbox.position.load()
    table = outbox.position.compare(survey(store, places=places, where=where, **conditions))
    table = table.filter(table["wanted"])
    if again:
        return Pending(_items(table, pa.scalar(True)), [], 0, 0)
    has = _fill(pc.equal(table["state"], SENT))
    grown = _fill(pc.and_(has, pc.greater(table["records"], table["known_records"])))
    due = pc.or_(pc.invert(has), grown)
    newer = pc.and_(_newer_scores(table), pc.invert(due))
    in_doubt = _in_doubt(table, pc.or_(due, newer), outbox)
    clear = _clear(table, in_doubt)
    return Pending(_items(table, pc.and_(due, clear)), _items(table, pc.and_(newer, clear)), 0, 0, in_doubt)


def unsent(store: Store) -> set[str]:
    """What a backend is still to be given, by any host: an outage delays, it must not cost payloads."""
    trajectory_ids: set[str] = set()
    for backend in itertools.filterfalse(takes_parts, outboxes(store.path)):
        outbox = Outbox(store.path, backend)
        pending = routed(store, outbox, quiet_sec=0.0)
        trajectory_ids.update(item.trajectory_id for item in pending.send)
        trajectory_ids.update(pending.in_doubt)
    return trajectory_ids


def _in_doubt(table: pa.Table, mask: Any, outbox: Outbox) -> frozenset[str]:
    """Those of the chosen rows that another host has claimed, unless it is noted that they were sent as claimed."""
    theirs = outbox.claims.theirs
    if not theirs:
        return frozenset()
    claimed = pc.is_in(table["trajectory_id"], value_set=pa.array(sorted(theirs), type=pa.string()))
    rows = table.filter(pc.and_(mask, claimed)).select(["trajectory_id", "state", "known_records", "known_scored_ns"])
    return frozenset(
        row["trajectory_id"] for row in rows.to_pylist() if not _is_noted(row, theirs[row["trajectory_id"]])
    )


def _is_noted(row: dict[str, Any], claimed: Claimed) -> bool:
    """Whether somebody has noted what became of a trajectory as it was claimed."""
    if row["state"] is None or row["known_records"] < claimed.records:
        return False
    if row["state"] == SENT:
        return bool(row["known_records"] > claimed.records or row["known_scored_ns"] >= claimed.scored_ns)
    return bool(row["state"] == REFUSED)


def _clear(table: pa.Table, in_doubt: frozenset[str]) -> Any:
    return pc.invert(pc.is_in(table["trajectory_id"], value_set=pa.array(sorted(in_doubt), type=pa.string())))


def _complete(table: pa.Table, due: Any, quiet_sec: float, quiet: Quiet | None) -> Any:
    """Which trajectories get nothing more, as far as anybody can tell."""
    now_ns = time.time_ns()
    complete = pc.and_(_older(table, now_ns, quiet_sec), pc.equal(table["open"], 0))
    complete = pc.or_(complete, _older(table, now_ns, quiet_sec + _PATIENCE_SEC))
    if quiet is None:
        return complete
    mine = host_tag()
    others = [writer for writer in table["worker"].unique().to_pylist() if host_of(writer or "") not in (None, mine)]
    foreign = pc.and_(due, pc.is_in(table["worker"], value_set=pa.array(others, type=pa.string())))
    rows = table.filter(foreign)
    restless = [
        trajectory_id
        for trajectory_id, since_sec in zip(rows["trajectory_id"].to_pylist(), quiet.since_sec(rows))
        if since_sec < quiet_sec
    ]
    return pc.and_(
        complete, pc.invert(pc.is_in(table["trajectory_id"], value_set=pa.array(restless, type=pa.string())))
    )


def _newer_scores(table: pa.Table) -> Any:
    newer = pc.greater(table["scored_ns"], table["known_scored_ns"])
    return _fill(pc.and_(pc.equal(table["state"], SENT), newer))


def _older(table: pa.Table, now_ns: int, seconds: float) -> Any:
    """Whether nothing has come for so long. A clock that was ahead must not keep anything waiting until then."""
    quiet_ns = round(seconds * 1e9)
    return pc.or_(pc.less_equal(table["last_ns"], now_ns - quiet_ns), pc.greater(table["last_ns"], now_ns + _AHEAD_NS))


def _fill(mask: Any) -> Any:
    return pc.fill_null(mask, False)


def _count(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _items(table: pa.Table, mask: Any) -> list[Item]:
    rows = table if isinstance(mask, pa.Scalar) else table.filter(mask)
    columns = (rows[name].to_pylist() for name in Item._fields)
    return list(map(Item._make, zip(*columns)))
