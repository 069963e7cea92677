"""How sending goes, for `stats` and `doctor`. Looking makes and changes no files."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import msgspec

from rolltrace._amounts import ago
from rolltrace.errors import ConfigError, FilterError
from rolltrace.files import file_lock
from rolltrace.keeper.outbox import Outbox
from rolltrace.keeper.pending import routed_anywhere
from rolltrace.keeper.position import REFUSED, SENT
from rolltrace.query import Store
from rolltrace.tables import outboxes


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
    """A sender is there on this host, at work or waiting."""
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
    """One for each backend that the store was sent to, or is to be."""
    return [_report(store, Outbox(store.path, name)) for name in outboxes(store.path)]


def _report(store: Store, outbox: Outbox) -> Report:
    state, position = outbox.state, outbox.position
    position.load()
    stopped, policy = state.stopped, {}
    held_back = pending = 0
    try:
        policy = {name: value for name, value in msgspec.structs.asdict(outbox.policy).items() if value is not None}
        waiting = routed_anywhere(store, outbox)
        held_back = waiting.held_back
        pending = waiting.total + waiting.unsettled
    except (ConfigError, FilterError) as error:
        stopped = str(error)
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
    for file in outbox.lock_files():
        if os.access(file, os.R_OK | os.W_OK):
            with file_lock(file) as free:
                if not free:
                    return True
    return False
