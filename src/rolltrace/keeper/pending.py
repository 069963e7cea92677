"""What a backend is still to be given: the finished trajectories of a store, less what it has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rolltrace.files import host_of
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.position import HELD, SENT
from rolltrace.keeper.sending_hosts import NO_HOST
from rolltrace.query import Store, survey
from rolltrace.tables import outboxes

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
    elsewhere: int = 0
    """Trajectories that another host is sending."""

    @property
    def total(self) -> int:
        return len(self.send) + len(self.update)

    def without(self, done: set[str]) -> Pending:
        """The rest, when these are done."""
        send, update = ([item for item in items if item.trajectory_id not in done] for items in self[:2])
        return self._replace(send=send, update=update)


class _Routed(NamedTuple):
    """What is due without being asked for: rows of a survey, and which of them."""

    table: pa.Table
    due: Any
    newer: Any
    held: Any

    @property
    def waiting(self) -> pa.Table:
        return self.table.filter(pc.or_(self.due, self.newer))


def routed(store: Store, outbox: Outbox, *, quiet_sec: float = QUIET_SEC) -> Pending:
    """What this host is to send without being asked for: complete trajectories of routed experiments, as the policy
    says. Takes the place of hosts that are gone.

    Args:
        store, outbox: From where, and to which backend.
        quiet_sec: How long nothing of a trajectory has come before it counts as complete.
    """
    look = _look(store, outbox)
    waiting = look.waiting
    newest = pa.table({"host": _hosts(waiting), "last_ns": waiting["last_ns"]}).group_by("host")
    newest_by_host = dict(zip(*newest.aggregate([("last_ns", "max")]).to_pydict().values()))
    return _count_pending(look, _recorded_by(look.table, outbox.hosts.choose(newest_by_host)), quiet_sec)


def routed_anywhere(store: Store, outbox: Outbox, *, quiet_sec: float = QUIET_SEC) -> Pending:
    """As `routed`, for all hosts together, as far as this one knows what the others have sent."""
    look = _look(store, outbox)
    ours: Any = pa.scalar(True)
    if not outbox.is_shared:
        ours = _recorded_by(look.table, outbox.hosts.choose(dict.fromkeys(_hosts(look.waiting).to_pylist(), 0)))
    return _count_pending(look, ours, quiet_sec)


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
        again: Also what the backend has already, and what another host is sending.
        places, where, conditions: As in `query.finished.survey`.
    """
    outbox.position.load()
    table = outbox.position.compare(survey(store, places=places, where=where, **conditions))
    table = table.filter(table["wanted"])
    if again:
        return Pending(_items(table, pa.scalar(True)), [], 0, 0)
    has = _fill(pc.equal(table["state"], SENT))
    grown = _fill(pc.and_(has, pc.greater(table["records"], table["known_records"])))
    due = pc.or_(pc.invert(has), grown)
    newer = pc.and_(_newer_scores(table), pc.invert(due))
    elsewhere = pc.is_in(table["trajectory_id"], value_set=_sent_by_others(store, outbox))
    here = pc.invert(elsewhere)
    return Pending(
        _items(table, pc.and_(due, here)),
        _items(table, pc.and_(newer, here)),
        0,
        0,
        _count(pc.and_(pc.or_(due, newer), elsewhere)),
    )


def unsent(store: Store) -> set[str]:
    """What a backend is still to be given, by any host: an outage delays, it must not cost payloads."""
    trajectory_ids: set[str] = set()
    for backend in outboxes(store.path):
        pending = routed_anywhere(store, Outbox(store.path, backend), quiet_sec=0.0)
        trajectory_ids.update(item.trajectory_id for item in pending.send)
    return trajectory_ids


def _look(store: Store, outbox: Outbox) -> _Routed:
    outbox.position.load()
    surveyed = survey(store, places=sorted(outbox.routes()), where=outbox.policy.where)
    table = outbox.position.compare(surveyed)
    unknown = pc.is_null(table["state"])
    grown = _fill(pc.and_(pc.equal(table["state"], SENT), pc.greater(table["records"], table["known_records"])))
    due = pc.or_(pc.and_(unknown, table["wanted"]), grown)
    newer = pc.and_(_newer_scores(table), pc.invert(due))
    held = pc.or_(pc.and_(unknown, pc.invert(table["wanted"])), _fill(pc.equal(table["state"], HELD)))
    return _Routed(table, due, newer, held)


def _count_pending(look: _Routed, ours: Any, quiet_sec: float) -> Pending:
    due, complete = pc.and_(look.due, ours), _complete(look.table, quiet_sec)
    return Pending(
        _items(look.table, pc.and_(due, complete)),
        _items(look.table, pc.and_(look.newer, ours)),
        _count(look.held),
        _count(pc.and_(due, pc.invert(complete))),
    )


def _sent_by_others(store: Store, outbox: Outbox) -> pa.Array:
    """The trajectories that other hosts are sending right now, without being asked."""
    others: set[str] = set()
    if outbox.is_shared and outbox.routes():
        waiting = _look(store, outbox).waiting
        others = outbox.hosts.left_to_others(set(_hosts(waiting).to_pylist()))
    if not others:
        return pa.array([], pa.string())
    return waiting.filter(_recorded_by(waiting, others))["trajectory_id"].combine_chunks()


def _hosts(table: pa.Table) -> pa.Array:
    """For each row, the tag of the host that recorded the trajectory."""
    tags = {worker: host_of(worker or "") or NO_HOST for worker in table["worker"].unique().to_pylist()}
    return pa.array([tags[worker] for worker in table["worker"].to_pylist()], pa.string())


def _recorded_by(table: pa.Table, hosts: set[str]) -> Any:
    return pc.is_in(_hosts(table), value_set=pa.array(sorted(hosts), pa.string()))


def _complete(table: pa.Table, quiet_sec: float) -> Any:
    """Which trajectories get nothing more, as far as anybody can tell."""
    now_ns = time.time_ns()
    complete = pc.and_(_older(table, now_ns, quiet_sec), pc.equal(table["open"], 0))
    return pc.or_(complete, _older(table, now_ns, quiet_sec + _PATIENCE_SEC))


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
