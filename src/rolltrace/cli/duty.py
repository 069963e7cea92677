"""Do what concerns a whole store from a command, unless somebody else is at it: on this host, or on another."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rolltrace._amounts import ago
from rolltrace.cli.output import plain, working
from rolltrace.journal import drainer_lock, journal_folder

if TYPE_CHECKING:
    from rolltrace.store import Lease

_LOOK_EVERY_SEC = 0.5
_PATIENCE_SEC = 3.0


@contextmanager
def upkeep_duty(store: Path, when_busy: str) -> Iterator[int | None]:
    """Hold the lock of this host and the lease of the store; gives its epoch.

    None if somebody else has either, which is said on stderr: by `when_busy` if it is the drainer of this host.
    """
    from rolltrace.store import Lease

    with _locked(store) as alone:
        if not alone:
            print(f"rolltrace: {when_busy}", file=sys.stderr)
            yield None
            return
        lease = Lease(store)
        if not _hold(lease, store):
            yield None
            return
        try:
            yield lease.epoch
        finally:
            lease.release()


@contextmanager
def _locked(store: Path) -> Iterator[bool]:
    """The lock of this host, waited for a little: what an earlier command left for later holds it for a moment."""
    deadline = time.monotonic() + _PATIENCE_SEC
    while True:
        with drainer_lock(journal_folder(store)) as alone:
            if alone or time.monotonic() > deadline:
                yield alone
                return
        time.sleep(_LOOK_EVERY_SEC / 5)


def _hold(lease: Lease, store: Path) -> bool:
    if lease.hold():
        return True
    with working("another host has the lease; looking whether it is alive"):
        while not lease.looks_alive:
            time.sleep(_LOOK_EVERY_SEC)
            if lease.hold():
                return True
    from rolltrace.store import holders

    for holder in holders(store):
        if holder.duty == lease.duty:
            print(
                f"rolltrace: {plain(holder.host)} does this for all hosts (epoch {holder.epoch}, taken "
                f"{ago(holder.since_ns)}); try again when nothing runs there",
                file=sys.stderr,
            )
    return False
