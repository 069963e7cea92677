"""Ship a store to its lake in the background, as long as there is something to ship or somebody who may write more.

    python -m rolltrace.keeper.ship_loop STORE lake

As `sender_loop`, a process of its own, or a thread in `drain="thread"`: object storage that is down or slow delays
nothing else. Which lake, ROLLTRACE_LAKE says.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rolltrace.errors import BackendError, ConfigError, FormatError, MissingExtraError
from rolltrace.keeper.follow_loop import FaultState, FollowLoop, follow_in_thread, run_process
from rolltrace.keeper.outbox import Outbox
from rolltrace.lake import BACKEND, VARIABLE, LakeAddress, Shipper
from rolltrace.store import routes

_LOOK_SHARE = 0.1
"""How much of the time may be spent on looking when there is nothing to ship."""
_LAST_SEC = 5.0


class ShipLoop(FollowLoop):
    """Looks for finished parts, ships them, waits; one store."""

    stops = (ConfigError, MissingExtraError, FormatError)

    def __init__(self, store: Path) -> None:
        super().__init__(store, BACKEND)
        self._shipper: Shipper | None = None

    def _round(self) -> bool:
        shipper = self._load()
        with shipper.position.shipping() as alone:
            if not alone:
                return True
            if not self._lease.hold():
                return not self._lease.looks_alive
            done = shipper.round()
            state = shipper.position.state
            state.shipped, state.pending, state.stuck = len(shipper.position.shipped), done.left, done.stuck
            state.last_error = state.next_try_ns = state.stopped = None
            if done.parts or state.time_ns < time.time_ns() - 10_000_000_000:
                shipper.position.state = state
            return done.parts > 0

    def _pause_sec(self, took_sec: float, has_more: bool, idle_sec: float) -> float:
        return 0.0 if has_more else min(took_sec / _LOOK_SHARE, idle_sec / 2)

    def _load(self) -> Shipper:
        if self._shipper is None:
            url = os.environ.get(VARIABLE)
            if not url:
                raise BackendError(f"the backend {BACKEND!r} needs an address; set {VARIABLE}=s3://bucket/prefix")
            self._shipper = Shipper(
                self._path,
                LakeAddress.of(url),
                routes=lambda: routes(self._path, BACKEND),
            )
        return self._shipper

    def _change_state(self, change: Callable[[FaultState], None]) -> None:
        if self._shipper is not None:
            position = self._shipper.position
            state = position.state
            state.url = position.address.url
            change(state)
            position.state = state


def ship_in_thread(store: Path) -> None:
    """Ship from a thread of this process, as long as that lives, unless somebody else does."""
    follow_in_thread(store, BACKEND, lambda: ShipLoop(store), _LAST_SEC)


def main(store: Path) -> int:
    """Ship until there is nothing to wait for, unless somebody else does. Gives the exit code."""
    with Outbox(store, BACKEND).alone_in_background() as alone:
        if not alone:
            return 0
        os.nice(5)
        return ShipLoop(store).run()


if __name__ == "__main__":
    run_process(Path(sys.argv[1]), lambda: main(Path(sys.argv[1])))
