"""Two hosts on one store folder that is shipped to a lake: one is suspended, the other does everything meanwhile.

    python -m tests.integrations.lake.two_hosts FOLDER EVERY [stop|kill] [FIRST]

As `tests.flow.two_hosts`: each host drains, merges, prunes, ships, and removes what was shipped, for both. One is
suspended before its nth change of a file, upload or commit, or right after a commit, for n = FIRST, FIRST + EVERY, ...;
then it is continued, or killed and begun anew. Rows are recorded in between, too. Prints how many interleavings were
tried; exits with 1 if a row is lost or doubled in the lake, comes back to the store, or a pruned payload is left.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb  # noqa: F401  (loaded once, before the forks)
import pyarrow.parquet  # noqa: F401

import rolltrace
import rolltrace.keeper.process
import rolltrace.query
from rolltrace.lake import LakeAddress, LakePosition, Shipper, compact_lake
from rolltrace.lake.objects import Objects
from rolltrace.lake.tables import LakeTable
from tests.flow.two_hosts import HOSTS, ROLLOUTS, STEPS, TURNS, finish, first_run, on_host, point, pruned_ids, record

RECORDINGS = 3
Function = Callable[..., Any]


def watch_requests() -> None:
    """A host may also be suspended at what it asks of the lake."""

    def asked(real: Function, *, also_after: bool) -> Function:
        def act(*args: Any, **options: Any) -> Any:
            point()
            answer = real(*args, **options)
            if also_after:
                point()
            return answer

        return act

    LakePosition.claim = asked(LakePosition.claim, also_after=True)  # type: ignore[method-assign]
    Objects.put_file = asked(Objects.put_file, also_after=False)  # type: ignore[method-assign]
    LakeTable.commit = asked(LakeTable.commit, also_after=True)  # type: ignore[method-assign]
    LakeTable.refresh = asked(LakeTable.refresh, also_after=True)  # type: ignore[method-assign]


def keep_house(store: Path, lake: Path) -> None:
    """What a keeper and its shipper do, from draining to removing what was shipped."""
    from rolltrace.drain import Drainer
    from rolltrace.keeper.shipped import remove_shipped
    from rolltrace.lake import choosing, kinds
    from rolltrace.store import Lease, compact, finish_pruning, prune, remove_leftovers, remove_replaced, sending_duty

    watch_requests()
    upkeep, shipping = Lease(store, dead_sec=0.0), Lease(store, sending_duty("lake"), dead_sec=0.0)
    drainer, shipper = Drainer(store), Shipper(store, LakeAddress.of(lake))

    def ship() -> None:
        while not shipping.hold():  # the other one looks dead: it is suspended
            pass
        with shipper.position.shipping() as alone:
            assert alone
            while True:
                done = shipper.round()
                if not done.parts and not done.left:
                    assert not done.stuck, done.stuck
                    return

    def merge() -> None:
        with choosing(store) as alone:
            assert alone
            compact(store, kind_of=kinds(store), epoch=upkeep.epoch)

    with drainer.working() as alone:
        assert alone
        drainer.drain()
        while not upkeep.hold():
            pass
        finish_pruning(store, epoch=upkeep.epoch)
        if socket.gethostname() == HOSTS[0]:  # so that the other one merges what this one is about to ship
            ship()
        merge()
        ship()
        prune(store, pruned_ids(store), epoch=upkeep.epoch)
        remove_replaced(store, grace_sec=0)
        ship()
        remove_shipped(store, after_steps=1, epoch=upkeep.epoch)
        remove_replaced(store, grace_sec=0)
        remove_leftovers(store, grace_sec=0)
        merge()
        ship()
    upkeep.release()
    shipping.release()


def check(store: Path, lake: Path) -> None:
    """Everything is in the lake once, what was pruned stays so, and what was removed from the store does not return."""
    os.environ["ROLLTRACE_CACHE"] = str(store.parent / "cache")
    compact_lake(LakeAddress.of(lake), unfinished=True)  # also what was pruned after the lake had merged it
    shown, problems = rolltrace.open(lake), []
    trajectories = RECORDINGS * len(HOSTS) * len(STEPS) * ROLLOUTS
    for name, table, count in (
        ("op_id", "spans", TURNS * trajectories),
        ("trajectory_id", "_trajectories", trajectories),
    ):
        ids = [row[name] for row in shown.sql(f"SELECT {name} FROM {table}").rows()]
        if len(ids) != count or len(set(ids)) != count:
            problems.append(f"{len(ids)} rows of {table}, {len(set(ids))} different ones, not {count}")
    left = {row["trajectory_id"] for row in shown.sql("SELECT trajectory_id FROM spans WHERE payload IS NOT NULL")}
    if left & pruned_ids(store):
        problems.append(f"the payloads of {len(left & pruned_ids(store))} pruned trajectories are in the lake")
    kept = {row["step"] for row in rolltrace.open(store).sql("SELECT step FROM spans").rows()}
    if kept != {max(STEPS)}:
        problems.append(f"the store has steps {sorted(kept)}")
    if problems:
        sys.stdout.write(f"{json.dumps(problems)}\n")
        sys.stdout.flush()
        os._exit(1)


def main(folder: Path, every: int, kill: bool, first: int) -> None:
    before = folder / "before"
    (before / "store").parent.mkdir(parents=True, exist_ok=True)

    def on(host: str, work: Callable[[], None]) -> None:
        finish(on_host(host, work))

    for host in HOSTS:
        on(host, lambda host=host: first_run(before / "store", host))  # type: ignore[misc]
    tried = 0
    alpha, beta = HOSTS
    for stop_at in range(first, 100_000, every):
        here = folder / f"at-{stop_at}"
        shutil.copytree(before, here)
        store, lake = here / "store", here / "lake"

        def work() -> None:
            keep_house(store, lake)  # noqa: B023

        suspended = on_host(alpha, work, stop_at)
        _, status = os.waitpid(suspended, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        on(beta, work)
        on(beta, lambda: record(store, beta, 30_000))  # noqa: B023 - late: of steps that are removed by now
        on(beta, work)
        if kill:
            os.kill(suspended, signal.SIGKILL)
            os.waitpid(suspended, 0)
        else:
            os.kill(suspended, signal.SIGCONT)
            finish(suspended)
        on(alpha, lambda: record(store, alpha, 30_000))  # noqa: B023
        on(alpha, work)
        on(beta, work)
        try:
            on(beta, lambda: check(store, lake))  # noqa: B023
        except SystemExit:
            sys.exit(f"suspended before change {stop_at}")
        tried += 1
        shutil.rmtree(here)
    sys.stdout.write(f"{tried}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), "kill" in sys.argv[3:4], int((*sys.argv[4:5], "1")[0]))
