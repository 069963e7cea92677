"""What a backend is still to be given: the finished trajectories of a store, less what it has; and how that goes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from rolltrace._amounts import ago
from rolltrace.errors import ConfigError, FilterError
from rolltrace.files import file_lock, host_of
from rolltrace.keeper.outbox import NO_HOST, Outbox, State
from rolltrace.query import Store, survey
from rolltrace.tables import outboxes

QUIET_SEC = 2.0
"""How long nothing of a trajectory has come before it counts as complete: other processes may write to it."""
_PATIENCE_SEC = 60.0
"""How long after that an op that still runs is waited for. When it ends, the trajectory is sent again."""

_AHEAD_NS = 5_000_000_000
"""What is dated so far ahead was written by a clock that was wrong."""
_COMPARE = """
SELECT trajectory_id, step, s.records, s.scored_ns, last_ns, open > 0, wanted, worker,
    CASE
        WHEN e.state = 'sent' AND s.records > e.records THEN 'send'
        WHEN e.state = 'sent' AND s.scored_ns > e.scored_ns THEN 'update'
        WHEN e.state = 'sent' OR e.state = 'refused' THEN e.state
        WHEN e.state = 'held' OR NOT wanted THEN 'held'
        ELSE 'send'
    END AS due
FROM surveyed s LEFT JOIN entries e USING (trajectory_id)
WHERE due <> 'sent' OR ?
ORDER BY project, experiment, step NULLS LAST, trajectory_id
"""


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


class _Compared(NamedTuple):
    """A finished trajectory, and what is to be done about it."""

    item: Item
    last_ns: int
    is_open: bool
    """One of its ops still runs."""
    wanted: bool
    host: str
    """The tag of the host that recorded it."""
    due: Literal["send", "update", "sent", "refused", "held"]

    @property
    def is_waiting(self) -> bool:
        return self.due in ("send", "update")

    def is_complete(self, now_ns: int, quiet_sec: float) -> bool:
        """Whether it gets nothing more, as far as anybody can tell."""
        age_ns = now_ns - self.last_ns
        if age_ns < -_AHEAD_NS:  # a clock that was ahead must not keep anything waiting until then
            return True
        return age_ns >= (quiet_sec + (_PATIENCE_SEC if self.is_open else 0.0)) * 1e9


def _compare(store: Store, outbox: Outbox, *, also_sent: bool = False, **conditions: Any) -> list[_Compared]:
    """The trajectories of a survey that the backend does not have as they are now; with `also_sent` all of them."""
    outbox.position.load()
    rows = outbox.position.compare(survey(store, **conditions), _COMPARE, also_sent)
    return [
        _Compared(Item(*item), last_ns, is_open, wanted, host_of(worker or "") or NO_HOST, due)
        for *item, last_ns, is_open, wanted, worker, due in rows
    ]


def _compare_routed(store: Store, outbox: Outbox) -> list[_Compared]:
    return _compare(store, outbox, places=sorted(outbox.routes()), where=outbox.policy.where)


def routed(store: Store, outbox: Outbox, *, quiet_sec: float = QUIET_SEC, any_host: bool = False) -> Pending:
    """What is to be sent without being asked for: complete trajectories of routed experiments, as the policy says.
    By this host, also for hosts that are gone; with `any_host`, by all that share the outbox."""
    rows = _compare_routed(store, outbox)
    newest: dict[str, int] = {}
    for row in rows:
        if row.is_waiting:
            newest[row.host] = max(row.last_ns, newest.get(row.host, 0))
    hosts = newest.keys() if any_host and outbox.is_shared else outbox.choose_hosts(newest)
    pending, unsettled, now_ns = Pending([], [], 0, 0), 0, time.time_ns()
    for row in rows:
        if row.host in hosts:
            if row.due == "update":
                pending.update.append(row.item)
            elif row.due == "send" and row.is_complete(now_ns, quiet_sec):
                pending.send.append(row.item)
            else:
                unsettled += row.due == "send"
    return pending._replace(held_back=sum(row.due == "held" for row in rows), unsettled=unsettled)


def asked_for(store: Store, outbox: Outbox, *, again: bool = False, **conditions: Any) -> Pending:
    """What is to be sent because somebody asks: all finished trajectories that meet the conditions of
    `query.survey`, routed or not; with `again` also what the backend has already, and what another host is sending."""
    rows = [row for row in _compare(store, outbox, also_sent=again, **conditions) if row.wanted]
    if again:
        return Pending([row.item for row in rows], [], 0, 0)
    others = outbox.others_at_work()
    elsewhere = set()
    if others and outbox.routes():
        waiting = (row for row in _compare_routed(store, outbox) if row.is_waiting)
        elsewhere = {row.item.trajectory_id for row in waiting if row.host in others}
    here = [row for row in rows if row.item.trajectory_id not in elsewhere]
    update = [row.item for row in here if row.due == "update"]
    return Pending([row.item for row in here if row.due != "update"], update, 0, 0, len(rows) - len(here))


def unsent(store: Store) -> set[str]:
    """What a backend is still to be given, by any host: an outage delays, it must not cost payloads."""
    return {
        item.trajectory_id
        for backend in outboxes(store.path)
        for item in routed(store, Outbox(store.path, backend), quiet_sec=0.0, any_host=True).send
    }


class Report(State, kw_only=True):
    """How sending to one backend goes, as of now."""

    backend: str
    routed: int
    """How many experiments go there by themselves."""
    at_work: bool
    """A sender is there on this host, at work or waiting."""
    policy: dict[str, Any]

    def in_words(self) -> str:
        """How sending goes, in a line."""
        facts = [f"{self.sent} sent, {self.pending} pending, {self.refused} refused, {self.held_back} held back"]
        if self.stopped:
            facts.append(f"stopped: {self.stopped}")
        elif self.last_error and self.pending:
            facts.append(f"{ago(self.last_error_ns)}: {self.last_error}")
        return ", ".join(facts)


def reports(store: Store) -> list[Report]:
    """One for each backend that the store was sent to, or is to be."""
    return [_report(store, Outbox(store.path, name)) for name in outboxes(store.path)]


def _report(store: Store, outbox: Outbox) -> Report:
    report = Report(
        **msgspec.structs.asdict(outbox.state),
        backend=outbox.backend,
        routed=len(outbox.routes()),
        at_work=any(map(_is_held, outbox.lock_files())),
        policy={},
    )
    outbox.position.load()
    report.count(outbox.position, 0, 0)
    report.reasons = dict(outbox.position.reasons)
    try:
        policy = msgspec.structs.asdict(outbox.policy)
        report.policy = {name: value for name, value in policy.items() if value is not None}
        waiting = routed(store, outbox, any_host=True)
        report.held_back, report.pending = waiting.held_back, waiting.total + waiting.unsettled
    except (ConfigError, FilterError) as error:
        report.stopped = str(error)
    return report


def _is_held(lock: Path) -> bool:
    if not os.access(lock, os.R_OK | os.W_OK):
        return False
    with file_lock(lock) as is_free:
        return not is_free
