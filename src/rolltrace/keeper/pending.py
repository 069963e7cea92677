"""What a backend is still to be given: the finished trajectories of a store, less what it has."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.position import HELD, SENT
from rolltrace.query import Store, survey
from rolltrace.store import Owned

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
    found = outbox.position.compare(_ours(surveyed, is_ours or Owned(store.path).is_mine))
    now_ns = time.time_ns()
    complete = pc.and_(_older(found, now_ns, quiet_sec), pc.equal(found["open"], 0))
    complete = pc.or_(complete, _older(found, now_ns, quiet_sec + _PATIENCE_SEC))
    unknown = pc.is_null(found["state"])
    grown = _fill(pc.and_(pc.equal(found["state"], SENT), pc.greater(found["records"], found["known_records"])))
    due = pc.or_(pc.and_(unknown, found["wanted"]), grown)
    newer = pc.and_(_newer_scores(found), pc.invert(due))
    held = pc.or_(pc.and_(unknown, pc.invert(found["wanted"])), _fill(pc.equal(found["state"], HELD)))
    return Pending(
        _items(found, pc.and_(due, complete)),
        _items(found, newer),
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
    found = outbox.position.compare(surveyed if is_ours is None else _ours(surveyed, is_ours))
    found = found.filter(found["wanted"])
    if again:
        return Pending(_items(found, pa.scalar(True)), [], 0, 0)
    has = _fill(pc.equal(found["state"], SENT))
    grown = _fill(pc.and_(has, pc.greater(found["records"], found["known_records"])))
    due = pc.or_(pc.invert(has), grown)
    return Pending(_items(found, due), _items(found, pc.and_(_newer_scores(found), pc.invert(due))), 0, 0)


def _ours(found: pa.Table, is_ours: IsOurs) -> pa.Table:
    writers = [writer for writer in found["worker"].unique().to_pylist() if is_ours(writer or "")]
    return found.filter(pc.is_in(found["worker"], value_set=pa.array(writers, type=pa.string())))


def _newer_scores(found: pa.Table) -> Any:
    newer = pc.greater(found["scored_ns"], found["known_scored_ns"])
    return _fill(pc.and_(pc.equal(found["state"], SENT), newer))


def _older(found: pa.Table, now_ns: int, seconds: float) -> Any:
    """Whether nothing has come for so long. A clock that was ahead must not keep anything waiting until then."""
    quiet_ns = round(seconds * 1e9)
    return pc.or_(pc.less_equal(found["last_ns"], now_ns - quiet_ns), pc.greater(found["last_ns"], now_ns + _AHEAD_NS))


def _fill(mask: Any) -> Any:
    return pc.fill_null(mask, False)


def _count(mask: Any) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _items(found: pa.Table, mask: Any) -> list[Item]:
    rows = found if isinstance(mask, pa.Scalar) else found.filter(mask)
    columns = (rows[name].to_pylist() for name in Item._fields)
    return list(map(Item._make, zip(*columns)))
