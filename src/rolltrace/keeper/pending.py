"""What a backend is still to be given: the finished trajectories of a store, less what it has."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rolltrace.backends import takes_parts
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.position import HELD, SENT
from rolltrace.query import Store, survey
from rolltrace.store import Owned, outboxes

QUIET_SEC = 2.0
"""How long nothing of a trajectory has come before it counts as complete: other processes may write to it."""
_PATIENCE_SEC = 60.0
"""How long after that an op that still runs is waited for. When it ends, the trajectory is sent again."""

_AHEAD_NS = 5_000_000_000
"""What is dated so far ahead was written by a clock that was wrong."""

IsOurs = Callable[[str], bool]
"""Says of a writer whether its trajectories are meant."""


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

    @property
    def total(self) -> int:
        return len(self.send) + len(self.update)

    def without(self, done: set[str]) -> Pending:
        """The rest, when these are done."""
        send, update = ([item for item in items if item.trajectory_id not in done] for items in self[:2])
        return self._replace(send=send, update=update)


def routed(store: Store, outbox: Outbox, *, quiet_sec: float = QUIET_SEC, is_ours: IsOurs | None = None) -> Pending:
    """What is to be sent without being asked for: complete trajectories of routed experiments, as the policy says.

    Args:
        store, outbox: From where, and to which backend.
        quiet_sec: How long nothing of a trajectory has come before it counts as complete.
        is_ours: Which writers' trajectories are meant; those of this host if not given.
    """
    places = sorted(outbox.routes())
    surveyed = survey(store, places=places, where=outbox.policy.where)
    table = outbox.position.compare(_ours(surveyed, is_ours or Owned(store.path).is_mine))
    now_ns = time.time_ns()
    complete = pc.and_(_older(table, now_ns, quiet_sec), pc.equal(table["open"], 0))
    complete = pc.or_(complete, _older(table, now_ns, quiet_sec + _PATIENCE_SEC))
    unknown = pc.is_null(table["state"])
    grown = _fill(pc.and_(pc.equal(table["state"], SENT), pc.greater(table["records"], table["known_records"])))
    due = pc.or_(pc.and_(unknown, table["wanted"]), grown)
    newer = pc.and_(_newer_scores(table), pc.invert(due))
    held = pc.or_(pc.and_(unknown, pc.invert(table["wanted"])), _fill(pc.equal(table["state"], HELD)))
    return Pending(
        _items(table, pc.and_(due, complete)),
        _items(table, newer),
        _count(held),
        _count(pc.and_(due, pc.invert(complete))),
    )


def asked_for(
    store: Store,
    outbox: Outbox,
    *,
    again: bool = False,
    is_ours: IsOurs | None = None,
    places: Sequence[tuple[str, str]] | None = None,
    where: str | None = None,
    **conditions: Any,
) -> Pending:
    """What is to be sent because somebody asks: all finished trajectories that meet the conditions, routed or not.

    Args:
        store, outbox: From where, and to which backend.
        again: Also what the backend has already.
        is_ours: Which writers' trajectories are meant; all if not given.
        places, where, conditions: As in `query.finished.survey`.
    """
    surveyed = survey(store, places=places, where=where, **conditions)
    table = outbox.position.compare(surveyed if is_ours is None else _ours(surveyed, is_ours))
    table = table.filter(table["wanted"])
    if again:
        return Pending(_items(table, pa.scalar(True)), [], 0, 0)
    has = _fill(pc.equal(table["state"], SENT))
    grown = _fill(pc.and_(has, pc.greater(table["records"], table["known_records"])))
    due = pc.or_(pc.invert(has), grown)
    return Pending(_items(table, due), _items(table, pc.and_(_newer_scores(table), pc.invert(due))), 0, 0)


def unsent(store: Store) -> set[str]:
    """What a backend is still to be given, by any host: an outage delays, it must not cost payloads."""
    trajectory_ids: set[str] = set()
    for backend in itertools.filterfalse(takes_parts, outboxes(store.path)):
        outbox = Outbox(store.path, backend)
        outbox.position.load()
        trajectory_ids.update(
            item.trajectory_id for item in routed(store, outbox, quiet_sec=0.0, is_ours=lambda writer: True).send
        )
    return trajectory_ids


def _ours(table: pa.Table, is_ours: IsOurs) -> pa.Table:
    writers = [writer for writer in table["worker"].unique().to_pylist() if is_ours(writer or "")]
    return table.filter(pc.is_in(table["worker"], value_set=pa.array(writers, type=pa.string())))


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
