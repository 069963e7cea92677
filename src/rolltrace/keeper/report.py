"""How sending goes, for `stats` and `doctor`. Looking makes and changes no files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from rolltrace._amounts import ago
from rolltrace.errors import ConfigError, FilterError
from rolltrace.files import file_lock
from rolltrace.keeper.outbox import Outbox, State
from rolltrace.keeper.pending import routed
from rolltrace.query import Store
from rolltrace.tables import outboxes


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
