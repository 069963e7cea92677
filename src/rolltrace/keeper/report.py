"""How sending goes, for `stats` and `doctor`. Looking makes and changes no files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rolltrace._amounts import ago, counted
from rolltrace.backends import takes_parts
from rolltrace.errors import ConfigError, FilterError
from rolltrace.files import file_lock, host_name
from rolltrace.keeper.clean_output import Cleaner
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import routed
from rolltrace.keeper.position import REFUSED, SENT
from rolltrace.lake import BACKEND, LakePosition
from rolltrace.query import Store
from rolltrace.store import holders, outbox_folder, outboxes, sending_duty


class Report(NamedTuple):
    """Of one backend."""

    backend: str
    routed: int
    """How many experiments go there by themselves."""
    sent: int
    refused: int
    reasons: dict[str, int]
    held_back: int
    pending: int
    at_work: bool
    """A sender is there, at work or waiting, on this host or on the one that has the lease."""
    last_error: str | None
    last_error_ns: int | None
    next_try_ns: int | None
    stopped: str | None
    """Why it will not be tried again until somebody does something."""
    policy: dict[str, Any]
    bytes_today: int

    def in_words(self) -> str:
        """How sending goes, in a line."""
        facts = [f"{self.sent} sent, {self.pending} pending, {self.refused} refused, {self.held_back} held back"]
        if self.stopped:
            facts.append(f"stopped: {self.stopped}")
        elif self.last_error and self.pending:
            facts.append(f"{ago(self.last_error_ns)}: {self.last_error}")
        return ", ".join(facts)


def reports(store: Store) -> list[Report]:
    """One for each backend that the store was sent to, or is to be; `shipping_reports` has those that take parts."""
    return [_report(store, Outbox(store.path, name)) for name in outboxes(store.path) if not takes_parts(name)]


def shipping_reports(store: Path) -> list[ShippingReport]:
    """One for each lake that a store is shipped to."""
    if not outbox_folder(store, BACKEND).is_dir():
        return []
    from rolltrace.lake import positions

    return [_shipping_report(position) for position in positions(store)]


class ShippingReport(NamedTuple):
    """Of one lake."""

    url: str
    shipped: int
    """Parts of this store that it has."""
    pending: int
    stuck: int
    at_work: bool
    last_error: str | None
    last_error_ns: int | None
    stopped: str | None

    def in_words(self) -> str:
        """How shipping goes, in a line."""
        facts = [f"{counted(self.shipped, 'part')} shipped, {self.pending} pending"]
        if self.stuck:
            facts.append(f"{self.stuck} cannot be shipped (docs/howto/lake.md)")
        if self.stopped:
            facts.append(f"stopped: {self.stopped}")
        elif self.last_error and self.pending:
            facts.append(f"{ago(self.last_error_ns)}: {self.last_error}")
        return ", ".join(facts)


def _shipping_report(position: LakePosition) -> ShippingReport:
    state, cleaner = position.state, Cleaner(position.store)
    return ShippingReport(
        position.address.url,
        len(position.shipped),
        state.pending + len(position.claimed),
        len(state.stuck),
        _is_at_work(Outbox(position.store, BACKEND)),
        None if state.last_error is None else cleaner.text(state.last_error),
        state.last_error_ns,
        None if state.stopped is None else cleaner.text(state.stopped),
    )


def _report(store: Store, outbox: Outbox) -> Report:
    state, position = outbox.state, outbox.position
    position.load()
    stopped, policy = state.stopped, {}
    held_back = pending = 0
    try:
        policy = {name: value for name, value in msgspec.structs.asdict(outbox.policy).items() if value is not None}
        waiting = routed(store, outbox)
        held_back = waiting.held_back
        pending = waiting.total + waiting.unsettled + len(waiting.in_doubt)
    except (ConfigError, FilterError) as fault:
        stopped = str(fault)
    return Report(
        outbox.backend,
        len(outbox.routes()),
        position.count(SENT),
        position.count(REFUSED),
        {outbox.cleaner.text(reason): count for reason, count in position.reasons.items()},
        held_back,
        pending,
        _is_at_work(outbox),
        outbox.clean(state.last_error),
        state.last_error_ns,
        state.next_try_ns,
        outbox.clean(stopped),
        policy,
        position.bytes_today,
    )


def _is_at_work(outbox: Outbox) -> bool:
    duty = sending_duty(outbox.backend)
    if any(each.duty == duty and each.host != host_name() and not each.looks_dead for each in holders(outbox.store)):
        return True
    for file in outbox.lock_files():
        if os.access(file, os.R_OK | os.W_OK):
            with file_lock(file) as free:
                if not free:
                    return True
    return False
